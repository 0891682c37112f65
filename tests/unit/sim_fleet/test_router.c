/* The router: choices worked out by hand, and a plain one that looks at every request each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/fleet/router.h"

enum { REQUESTS = 1000, GROUPS = 12, REPLICAS_MAX = 9, KEYS = 60, PAGES_MAX = 12 };

static struct kc_arena arena;

static void make(struct kc_router *router, const struct kc_router_config *config)
{
  assert_int_equal(kc_arena_init(&arena, kc_router_need(config) + 64, NULL), KC_OK);
  assert_int_equal(kc_router_init(router, config, &arena), KC_OK);
}

static uint32_t choose(struct kc_router *router, uint32_t group, uint32_t prompt_tokens)
{
  const struct kc_router_request request = {.prompt_tokens = prompt_tokens, .group = group};
  return kc_router_choose(router, &request);
}

static void takes_turns(void **state)
{
  struct kc_router router;
  (void)state;
  make(&router, &(struct kc_router_config){.policy = KC_ROUTER_ROUND_ROBIN, .replicas = 3});
  for (uint32_t i = 0; i < 7; i++) {
    assert_int_equal(choose(&router, KC_GROUP_NONE, 100), i % 3);
    kc_router_ended(&router, i % 3, 100); /* who is idle does not matter */
  }
  assert_int_equal(kc_router_share(&router.config, 7), 3);
  assert_int_equal(kc_router_share(&router.config, 6), 2);
  kc_arena_deinit(&arena);
}

static void prefers_fewer_requests_then_fewer_tokens(void **state)
{
  struct kc_router router;
  (void)state;
  make(&router, &(struct kc_router_config){.policy = KC_ROUTER_LEAST_LOADED, .replicas = 3});
  assert_int_equal(choose(&router, KC_GROUP_NONE, 500), 0); /* all idle: the first */
  assert_int_equal(choose(&router, KC_GROUP_NONE, 9000), 1);
  assert_int_equal(choose(&router, KC_GROUP_NONE, 400), 2);
  assert_int_equal(choose(&router, KC_GROUP_NONE, 50), 2);   /* 400 < 500 < 9000 */
  assert_int_equal(choose(&router, KC_GROUP_NONE, 9000), 0); /* 500 < 9000 */
  kc_router_ended(&router, 2, 400);
  kc_router_ended(&router, 2, 50);
  assert_int_equal(choose(&router, KC_GROUP_NONE, 99999), 2); /* none < 1 < 2 requests */
  assert_int_equal(kc_router_share(&router.config, 7), 7);
  kc_arena_deinit(&arena);
}

/* Four instances and a factor of 2: a share is ceil(2 (outstanding + 1) / 4). */
static void keeps_a_group_together_up_to_its_share(void **state)
{
  struct kc_router router;
  (void)state;
  make(&router, &(struct kc_router_config){.policy = KC_ROUTER_SESSION_AFFINITY, .replicas = 4,
                                           .group_count = 2, .overflow_numerator = 2,
                                           .overflow_denominator = 1});
  assert_int_equal(choose(&router, 0, 10), 0);             /* share 1 */
  assert_int_equal(choose(&router, 1, 10), 1);             /* new: the least loaded */
  assert_int_equal(choose(&router, KC_GROUP_NONE, 10), 2); /* no group */
  assert_int_equal(choose(&router, 0, 10), 0);             /* 4 with it: share 2 */
  assert_int_equal(router.moves, 0);
  assert_int_equal(choose(&router, 0, 10), 0);             /* 5 with it: share 3 */
  assert_int_equal(choose(&router, 0, 10), 3);             /* 6 with it: share 3 < 4 */
  assert_int_equal(router.moves, 1);
  kc_router_ended(&router, 0, 10);
  assert_int_equal(choose(&router, 0, 10), 3);             /* it has moved */
  kc_arena_deinit(&arena);
}

/* ---- the plain one ---- */

struct plain_request {
  uint32_t replica, group, tokens;
  uint32_t key[PAGES_MAX], pages, prompt_pages;
  bool ended;
};

struct plain {
  struct kc_router_config config;
  struct plain_request request[REQUESTS];
  uint32_t count;
};

static void loads(const struct plain *plain, uint64_t requests[REPLICAS_MAX],
                  uint64_t tokens[REPLICAS_MAX])
{
  memset(requests, 0, REPLICAS_MAX * sizeof *requests);
  memset(tokens, 0, REPLICAS_MAX * sizeof *tokens);
  for (uint32_t i = 0; i < plain->count; i++) {
    const struct plain_request *r = &plain->request[i];
    if (r->ended) continue;
    requests[r->replica]++;
    tokens[r->replica] += r->tokens;
  }
}

static uint32_t plain_least(const struct plain *plain)
{
  uint64_t requests[REPLICAS_MAX], tokens[REPLICAS_MAX];
  loads(plain, requests, tokens);
  for (uint64_t most = 0;; most++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < plain->config.replicas; i++) {
      if (requests[i] != most) continue;
      if (best == UINT32_MAX || tokens[i] < tokens[best]) best = i;
    }
    if (best != UINT32_MAX) return best;
  }
}

static bool was_sent(const struct plain *plain, uint32_t replica, uint32_t key)
{
  for (uint32_t i = 0; i < plain->count; i++) {
    const struct plain_request *r = &plain->request[i];
    for (uint32_t j = 0; j < r->pages && r->replica == replica; j++) {
      if (r->key[j] == key) return true;
    }
  }
  return false;
}

/* The least whole number that is not below the bound. */
static uint64_t share_of(const struct plain *plain, uint64_t all)
{
  const struct kc_router_config *c = &plain->config;
  uint64_t share = 0;
  while (share * c->replicas * c->overflow_denominator < (all + 1) * c->overflow_numerator) share++;
  return share;
}

static uint32_t plain_prefix(const struct plain *plain, const struct plain_request *r)
{
  uint64_t requests[REPLICAS_MAX], tokens[REPLICAS_MAX], all = 0;
  uint32_t matched[REPLICAS_MAX], longest = 0, best = UINT32_MAX;
  loads(plain, requests, tokens);
  for (uint32_t i = 0; i < plain->config.replicas; i++) {
    all += requests[i];
    matched[i] = 0;
    while (matched[i] < r->prompt_pages && was_sent(plain, i, r->key[matched[i]])) matched[i]++;
    if (matched[i] > longest) longest = matched[i];
  }
  if (longest == 0 || 2 * longest < r->prompt_pages) return plain_least(plain);
  for (uint32_t i = 0; i < plain->config.replicas; i++) {
    if (matched[i] != longest) continue;
    if (best == UINT32_MAX || requests[i] < requests[best] ||
        (requests[i] == requests[best] && tokens[i] < tokens[best])) {
      best = i;
    }
  }
  return requests[best] + 1 <= share_of(plain, all) ? best : plain_least(plain);
}

static uint32_t plain_choose(const struct plain *plain, const struct plain_request *request)
{
  const uint32_t group = request->group;
  uint64_t requests[REPLICAS_MAX], tokens[REPLICAS_MAX], all = 0;
  const struct kc_router_config *c = &plain->config;
  if (c->policy == KC_ROUTER_ROUND_ROBIN) return plain->count % c->replicas;
  if (c->policy == KC_ROUTER_PREFIX_AWARE) return plain_prefix(plain, request);
  if (c->policy == KC_ROUTER_LEAST_LOADED || group == KC_GROUP_NONE) return plain_least(plain);
  loads(plain, requests, tokens);
  for (uint32_t i = 0; i < c->replicas; i++) all += requests[i];
  for (uint32_t i = plain->count; i-- > 0;) {
    const struct plain_request *r = &plain->request[i];
    if (r->group != group) continue;
    return requests[r->replica] + 1 <= share_of(plain, all) ? r->replica : plain_least(plain);
  }
  return plain_least(plain);
}

/* Pages begin as those of an earlier request do, more often than not. */
static void draw_pages(const struct plain *plain, struct plain_request *r,
                       struct kc_random *random)
{
  const struct plain_request *before =
      plain->count > 0 ? &plain->request[kc_random_below(random, plain->count)] : r;
  r->pages = (uint32_t)kc_random_below(random, PAGES_MAX + 1);
  r->prompt_pages = (uint32_t)kc_random_below(random, r->pages + 1);
  const uint32_t same = (uint32_t)kc_random_below(random, PAGES_MAX + 1);
  for (uint32_t j = 0; j < r->pages; j++) {
    r->key[j] = j < same && j < before->pages ? before->key[j]
                                              : (uint32_t)kc_random_below(random, KEYS);
  }
}

static void arrive(struct plain *plain, struct kc_router *router, struct kc_random *random,
                   uint64_t seed)
{
  struct plain_request r = {0};
  struct kc_key_run run[PAGES_MAX];
  const uint32_t drawn = (uint32_t)kc_random_below(random, GROUPS + 1);
  r.group = drawn == GROUPS ? KC_GROUP_NONE : drawn;
  r.tokens = (uint32_t)kc_random_below(random, 5);
  draw_pages(plain, &r, random);
  for (uint32_t j = 0; j < r.pages; j++) run[j] = (struct kc_key_run){r.key[j], 1};
  const struct kc_router_request request = {.prompt_tokens = r.tokens,
                                            .group = r.group,
                                            .prompt_pages = r.prompt_pages,
                                            .content = {.run = run, .run_count = r.pages}};
  const uint32_t expected = plain_choose(plain, &r);
  r.replica = kc_router_choose(router, &request);
  if (r.replica != expected) print_error("seed %llu\n", (unsigned long long)seed);
  assert_int_equal(r.replica, expected);
  plain->request[plain->count++] = r;
}

static void play(uint64_t seed)
{
  struct kc_random random;
  struct kc_router router;
  struct plain *plain = calloc(1, sizeof *plain);
  assert_non_null(plain);
  kc_random_init(&random, seed, "router", 0);
  plain->config = (struct kc_router_config){
      .policy = (enum kc_router_policy)kc_random_below(&random, KC_ROUTER_POLICIES),
      .replicas = 1 + (uint32_t)kc_random_below(&random, REPLICAS_MAX),
      .group_count = GROUPS,
      .key_count = KEYS,
      .overflow_denominator = 1 + kc_random_below(&random, 4)};
  plain->config.overflow_numerator =
      plain->config.overflow_denominator + kc_random_below(&random, 8);
  make(&router, &plain->config);
  const uint64_t ends = kc_random_below(&random, 100);
  while (plain->count < REQUESTS) {
    const uint32_t i = (uint32_t)kc_random_below(&random, plain->count + 1);
    if (kc_random_below(&random, 100) < ends) { /* somebody ends, perhaps */
      if (i == plain->count || plain->request[i].ended) continue;
      plain->request[i].ended = true;
      kc_router_ended(&router, plain->request[i].replica, plain->request[i].tokens);
      continue;
    }
    arrive(plain, &router, &random, seed);
  }
  kc_arena_deinit(&arena);
  free(plain);
}

static void agrees_with_the_plain_one(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) play(seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_turns),
      cmocka_unit_test(prefers_fewer_requests_then_fewer_tokens),
      cmocka_unit_test(keeps_a_group_together_up_to_its_share),
      cmocka_unit_test(agrees_with_the_plain_one),
  };
  return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
