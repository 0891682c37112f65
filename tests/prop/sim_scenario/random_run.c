/* See random_run.h. */
#include "random_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"

enum { REQUESTS_MAX = 64 };

uint32_t random_between(struct kc_random *random, uint32_t low, uint32_t high)
{
  return low + (uint32_t)kc_random_below(random, (uint64_t)high - low + 1);
}

uint64_t option_u64(int argc, char **argv, const char *name, uint64_t fallback)
{
  uint64_t value = fallback;
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) != 0) continue;
    if (!kc_parse_u64(argv[i + 1], strlen(argv[i + 1]), &value)) exit(2);
  }
  return value;
}

static void draw_windows(struct kc_sched_config *sched, struct kc_random *random)
{
  uint32_t window = 0;
  sched->cap_count = random_between(random, 0, 3);
  for (uint32_t i = 0; i < sched->cap_count; i++) {
    window += random_between(random, 1, kc_random_chance(random, 1, 2) ? 12 : 300);
    sched->cap[i] = window;
  }
}

/* The plain ones: vllm, first come first served. */
static void draw_sched(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t sizes[4] = {1, 16, 64, random_between(random, 1, 64)};
  const uint32_t slots[4] = {1, random_between(random, 1, 4), random_between(random, 1, 64), 64};
  const uint32_t spare[4] = {0, random_between(random, 0, 8), random_between(random, 0, 200), 8192};
  const uint32_t limits[4] = {random_between(random, 2, 24), random_between(random, 2, longest + 1),
                              2 * longest + 2, 131072};
  struct kc_sched_config *const sched = &run->instance.sched;
  sched->role = kc_random_chance(random, 1, 4) ? KC_ROLE_DECODE : KC_ROLE_SERVE;
  sched->page_size = sizes[random_between(random, 0, 3)];
  sched->max_running = slots[random_between(random, 0, 3)];
  sched->max_batched_tokens = sched->max_running + spare[random_between(random, 0, 3)];
  sched->max_model_len = limits[kc_random_chance(random, 1, 5) ? random_between(random, 0, 1)
                                                               : random_between(random, 2, 3)];
  sched->chunked_prefill = !kc_random_chance(random, 1, 3);
  sched->reserve_full_prompt = !kc_random_chance(random, 1, 3);
  draw_windows(sched, random);
}

static void draw_sglang(struct kc_sched_config *sched, struct kc_random *random, uint32_t longest)
{
  const double cautions[4] = {1.0, 0.001, 0.1, 0.01 * random_between(random, 1, 200)};
  const uint32_t pages = random_between(random, 1, 2 * longest / sched->page_size + 1);
  sched->chunked_prefill_size =
      sched->page_size * (kc_random_chance(random, 1, 3) ? random_between(random, 1, 4) : pages);
  sched->max_prefill_tokens =
      kc_random_chance(random, 1, 2) ? 16384 : random_between(random, 1, 2 * longest);
  sched->mixed_chunk = sched->chunked_prefill && kc_random_chance(random, 1, 3);
  sched->schedule_conservativeness = cautions[random_between(random, 0, 3)];
  if (kc_random_chance(random, 1, 3)) sched->order = KC_ORDER_LPM;
}

/* What a policy has beyond that. A quarter of the runs has none of it. */
static void draw_policy(struct test_run *run, uint64_t seed, uint32_t longest)
{
  struct kc_random random;
  struct kc_sched_config *const sched = &run->instance.sched;
  kc_random_init(&random, seed, "policy", 0);
  const bool plain = kc_random_chance(&random, 1, 4);
  sched->overlap = !plain && kc_random_chance(&random, 1, 2);
  sched->prefix_cache = !plain && kc_random_chance(&random, 4, 5);
  if (sched->prefix_cache) sched->role = KC_ROLE_SERVE;
  if (run->instance.policy == kc_policy_find("sglang-0.5")) {
    draw_sglang(sched, &random, longest);
  } else if (!plain) {
    if (kc_random_chance(&random, 1, 3)) {
      sched->long_prefill_token_threshold = random_between(&random, 1, longest);
    }
    if (kc_random_chance(&random, 1, 3)) sched->order = KC_ORDER_PRIORITY;
  }
}

/* From one page to more than all requests together need. */
static uint32_t draw_pages(const struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t one = 2 * longest / run->instance.sched.page_size + 1;
  switch (random_between(random, 0, 5)) {
    case 0: return random_between(random, 1, 4);
    case 1: return random_between(random, 1, one);
    case 2: return random_between(random, one, 2 * one);
    case 3: return random_between(random, one, 8 * one);
    case 4: return one * (REQUESTS_MAX + 1);
    default: return random_between(random, 1, one * REQUESTS_MAX);
  }
}

/* From steps of one picosecond to steps of a second. */
static void draw_cost(struct test_run *run, struct kc_random *random)
{
  const uint32_t kind = random_between(random, 0, 3);
  if (kind == 0) {
    test_cost_constant(&run->cost, kc_random_chance(random, 1, 2) ? KC_PS_PER_MS : 1);
    return;
  }
  test_cost_random(&run->cost, kc_random_u64(random), run->instance.sched.cap_count);
  if (kind != 1) return;
  run->cost.host_step >>= 32;
  for (uint32_t i = 0; i < run->cost.op_count; i++) {
    run->cost.op[i].latency >>= 32;
    run->cost.op[i].byte_fixed >>= 32;
    run->cost.op[i].byte_unit >>= 20;
    run->cost.op[i].byte_write >>= 20;
    run->cost.op[i].flop_unit >>= 20;
  }
}

static uint32_t draw_length(struct kc_random *random, uint32_t longest)
{
  return random_between(random, 1, kc_random_chance(random, 1, 4) ? 3 : longest);
}

static void draw_requests(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t burst = random_between(random, 1, kc_random_chance(random, 1, 2) ? 4 : 64);
  const uint64_t means[4] = {1, 1000, KC_PS_PER_US, 20 * KC_PS_PER_MS};
  const uint64_t mean_ps = means[random_between(random, 0, 3)];
  const bool cut = kc_random_chance(random, 1, 3);
  kc_ps now_ps = kc_random_chance(random, 1, 2) ? 0 : (kc_ps)kc_random_exponential(random, mean_ps);
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    if (i > 0 && kc_random_chance(random, 1, burst)) {
      now_ps += (kc_ps)kc_random_exponential(random, mean_ps);
    }
    r->arrival_ps = now_ps;
    r->input_tokens = draw_length(random, longest);
    r->output_tokens = draw_length(random, longest);
    r->max_tokens = cut ? draw_length(random, longest) : r->output_tokens;
  }
}

static void draw_closed(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t most = 2 * run->instance.sched.max_running;
  run->closed_config = (struct kc_closed_config){
      .concurrency = random_between(random, 1, most < REQUESTS_MAX ? most : REQUESTS_MAX),
      .requests = run->request_count,
      .input_tokens = draw_length(random, longest),
      .output_tokens = draw_length(random, longest),
      .mode = kc_random_chance(random, 1, 2) ? KC_CLOSED_WAVE : KC_CLOSED_STEADY};
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->requests[i].input_tokens = run->closed_config.input_tokens;
    run->requests[i].output_tokens = run->closed_config.output_tokens;
  }
}

/* ---- contents ---- */

/* Page keys from what pages hold: a tree of all sequences seen, a key for each of its nodes. The
 * salt is the first step from the root. */
struct key_tree {
  struct { uint32_t symbol, child, sibling; } *node; /* child, sibling: 0 = none */
  uint32_t count;                                    /* node 0 is the root */
};

static uint32_t tree_step(struct key_tree *tree, uint32_t from, uint32_t symbol)
{
  uint32_t at = tree->node[from].child;
  while (at != 0 && tree->node[at].symbol != symbol) at = tree->node[at].sibling;
  if (at != 0) return at;
  at = tree->count++;
  tree->node[at].symbol = symbol;
  tree->node[at].child = 0;
  tree->node[at].sibling = tree->node[from].child;
  tree->node[from].child = at;
  return at;
}

static uint32_t pages_with_keys(const struct test_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  return (r->input_tokens + r->output_tokens) / run->instance.sched.page_size;
}

/* What the pages of one request hold: the beginning of an earlier one, then something new. With an
 * alphabet of one or two symbols requests share more than they were meant to. */
static void draw_symbols(const struct test_run *run, struct kc_random *random, uint32_t request,
                         uint32_t alphabet, uint32_t sharing, uint32_t **symbols)
{
  const uint32_t pages = pages_with_keys(run, request);
  uint32_t copied = 0;
  if (request > 0 && !kc_random_chance(random, 1, sharing)) {
    const uint32_t other = random_between(random, 0, request - 1);
    copied = pages_with_keys(run, other);
    if (copied > pages) copied = pages;
    if (kc_random_chance(random, 1, 2)) copied = random_between(random, 0, copied);
    for (uint32_t k = 0; k < copied; k++) symbols[request][k] = symbols[other][k];
  }
  for (uint32_t k = copied; k < pages; k++) {
    symbols[request][k] = random_between(random, 1, alphabet);
  }
}

/* Writes the keys of one request as runs of consecutive ones; returns how many runs. */
static uint32_t put_runs(struct key_tree *tree, uint32_t salt, const uint32_t *symbols,
                         uint32_t pages, struct kc_key_run *runs)
{
  uint32_t count = 0, at = tree_step(tree, 0, salt);
  for (uint32_t i = 0; i < pages; i++) {
    at = tree_step(tree, at, symbols[i]);
    const bool goes_on = count > 0 && runs[count - 1].first + runs[count - 1].count == at;
    if (goes_on) runs[count - 1].count++;
    else runs[count++] = (struct kc_key_run){.first = at, .count = 1};
  }
  return count;
}

static void *room(size_t count, size_t size)
{
  void *const memory = calloc(count + 1, size);
  if (memory == NULL) abort();
  return memory;
}

/* Every request from a stream of its own, so that fewer requests are the first of more. */
static void draw_contents(struct test_run *run, uint64_t seed)
{
  struct kc_random random;
  const uint32_t alphabets[4] = {1, 2, 3, 1000000};
  kc_random_init(&random, seed, "contents", 0);
  const uint32_t alphabet = alphabets[random_between(&random, 0, 3)];
  const uint32_t sharing = random_between(&random, 1, 8); /* one of so many shares nothing */
  const uint32_t tenants = kc_random_chance(&random, 1, 2) ? 1 : random_between(&random, 1, 5);
  uint32_t total = 0, used = 0;
  for (uint32_t i = 0; i < run->request_count; i++) total += pages_with_keys(run, i);
  uint32_t **const symbols = room(run->request_count, sizeof *symbols);
  struct key_tree tree = {.node = room(total + 7, sizeof *tree.node), .count = 1};
  run->keys = room(total, sizeof *run->keys);
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    const uint32_t pages = pages_with_keys(run, i);
    symbols[i] = room(pages, sizeof **symbols);
    kc_random_init(&random, seed, "content", i);
    r->tenant = random_between(&random, 0, tenants - 1);
    draw_symbols(run, &random, i, alphabet, sharing, symbols);
    r->run = run->keys + used;
    r->run_count = put_runs(&tree, r->tenant, symbols[i], pages, run->keys + used);
    used += r->run_count;
  }
  for (uint32_t i = 0; i < run->request_count; i++) free(symbols[i]);
  run->instance.sched.key_count = tree.count;
  free(tree.node);
  free(symbols);
}

/* ---- clients ---- */

static void draw_patience(struct test_run *run, uint64_t seed)
{
  struct kc_random stream, *const random = &stream;
  kc_random_init(&stream, seed, "patience", 0);
  const uint64_t means[4] = {1000, KC_PS_PER_US, 20 * KC_PS_PER_MS, KC_PS_PER_S};
  if (kc_random_chance(random, 1, 4)) run->instance.queue_limit = random_between(random, 1, 16);
  if (!kc_random_chance(random, 1, 3)) return;
  const uint64_t mean_ps = means[random_between(random, 0, 3)];
  const bool cancels = kc_random_chance(random, 1, 2);
  run->patience = room(1, sizeof *run->patience);
  *run->patience = (struct kc_patience){.queue_timeout_ps = KC_PS_NEVER,
                                        .timeout_ps = KC_PS_NEVER,
                                        .cancel_denominator = 1,
                                        .cancel_after_ps = KC_PS_NEVER};
  if (kc_random_chance(random, 2, 3)) {
    run->patience->queue_timeout_ps = (kc_ps)kc_random_exponential(random, mean_ps);
  }
  if (kc_random_chance(random, 1, 2)) {
    run->patience->timeout_ps = (kc_ps)kc_random_exponential(random, 4 * mean_ps);
  }
  if (!cancels) return;
  run->cancel_after_ps = room(run->request_count, sizeof *run->cancel_after_ps);
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->cancel_after_ps[i] = kc_random_chance(random, 1, 2)
                                  ? KC_PS_NEVER
                                  : (kc_ps)kc_random_exponential(random, mean_ps);
  }
}

static void draw_priorities(struct test_run *run, uint64_t seed)
{
  struct kc_random random;
  kc_random_init(&random, seed, "priorities", 0);
  const uint32_t levels = random_between(&random, 1, 4);
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->requests[i].priority = (int32_t)random_between(&random, 0, levels) - 2;
  }
}

/* ---- a run ---- */

/* Admits boldly into a pool that outputs fill: requests are retracted. */
static void make_bold(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  struct kc_sched_config *const sched = &run->instance.sched;
  sched->schedule_conservativeness = 0.001;
  sched->max_running = random_between(random, 2, 64);
  sched->page_size = random_between(random, 1, 8);
  sched->chunked_prefill_size = sched->page_size * random_between(random, 4, 100);
  run->instance.pages = random_between(random, 2, 5) * longest / sched->page_size + 4;
  run->closed_config.input_tokens = 1 + run->closed_config.input_tokens % (longest / 8 + 1);
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->requests[i].input_tokens = 1 + run->requests[i].input_tokens % (longest / 8 + 1);
  }
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* Limits far beyond what requests make: the guess of what they will need decides who is
 * admitted. */
static void promise_much(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  run->instance.pages =
      (longest + random_between(random, 500, 12000)) / run->instance.sched.page_size + 2;
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->requests[i].max_tokens += random_between(random, 0, 5000);
  }
  if (run->request_count < 2 || kc_random_chance(random, 1, 3)) return;
  /* Pages of one token, about as many as the second needs beside the first: when it comes in is
   * told by the guess to the token. */
  const uint32_t first = smaller(run->requests[0].max_tokens, 4096);
  const uint32_t second = smaller(run->requests[1].max_tokens, 4096);
  run->instance.sched.page_size = 1;
  run->instance.sched.schedule_conservativeness = 1.0;
  run->instance.sched.max_running = 64;
  run->instance.pages = run->requests[0].input_tokens + run->requests[1].input_tokens + second +
                        7 * first / 10 + 100 - random_between(random, 0, 200 + first / 4);
}

/* Few requests with outputs beyond the 4096 that the policy looks ahead at most: one may outgrow
 * the pool alone. */
static void make_long(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  if (run->request_count > 4) run->request_count = 4;
  run->instance.pages =
      (longest + random_between(random, 4096, 9000)) / run->instance.sched.page_size + 2;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const uint32_t more = random_between(random, 3000, 8000);
    run->requests[i].output_tokens += more;
    run->requests[i].max_tokens += more;
  }
}

/* Where SGLang's guesses matter. */
static void draw_guesses(struct test_run *run, uint64_t seed, uint32_t longest)
{
  struct kc_random random;
  kc_random_init(&random, seed, "guesses", 0);
  const uint32_t kind = random_between(&random, 0, 49);
  if (kind < 32) run->instance.sched.max_model_len = 131072;
  if (kind < 15) make_bold(run, &random, longest);
  else if (kind < 30) promise_much(run, &random, longest);
  else if (kind < 32 && !run->closed) make_long(run, &random, longest);
}

static void draw_run(struct test_run *run, const char *policy, uint64_t seed,
                     uint32_t requests_max, bool may_close)
{
  struct kc_random random;
  kc_random_init(&random, seed, "random-run", 0);
  memset(run, 0, sizeof *run);
  const uint32_t lengths[4] = {4, 20, 100, 400};
  const uint32_t longest = lengths[random_between(&random, 0, 3)];
  test_instance_default(&run->instance, 1);
  if (policy != NULL) run->instance.policy = kc_policy_find(policy);
  if (run->instance.policy == NULL) abort();
  draw_sched(run, &random, longest);
  if (policy != NULL) draw_policy(run, seed, longest);
  run->instance.pages = draw_pages(run, &random, longest);
  run->instance.integrity = (enum kc_integrity)random_between(&random, 0, 2);
  run->instance.seed = kc_random_u64(&random);
  draw_cost(run, &random);
  run->closed = kc_random_chance(&random, 1, 4) && may_close;
  const uint32_t count = random_between(&random, 1, REQUESTS_MAX);
  run->request_count = count < requests_max ? count : requests_max;
  run->requests = calloc(run->request_count, sizeof *run->requests);
  if (run->requests == NULL) abort();
  if (run->closed) draw_closed(run, &random, longest);
  else draw_requests(run, &random, longest);
  if (policy == NULL) return;
  if (run->instance.policy == kc_policy_find("sglang-0.5")) draw_guesses(run, seed, longest);
  draw_priorities(run, seed);
  draw_patience(run, seed);
  if (run->instance.sched.prefix_cache) draw_contents(run, seed);
}

void random_run_draw(struct test_run *run, uint64_t seed, uint32_t requests_max)
{
  draw_run(run, NULL, seed, requests_max, true);
}

void random_run_draw_policy(struct test_run *run, const char *policy, uint64_t seed,
                            uint32_t requests_max)
{
  draw_run(run, policy, seed, requests_max, true);
}

void random_run_free(struct test_run *run)
{
  free(run->requests);
  free(run->after);
  free(run->wait_ps);
  free(run->keys);
  free(run->patience);
  free(run->cancel_after_ps);
}

/* ---- sessions ---- */

/* A row that `row` may wait for: none whose chain of predecessors leads back to it. */
static uint32_t draw_predecessor(const struct test_run *run, struct kc_random *random,
                                 uint32_t row, uint32_t reach)
{
  const uint32_t last = run->request_count - 1;
  const uint32_t low = row > reach ? row - reach : 0;
  const bool any = kc_random_chance(random, 1, 8);
  const uint32_t chosen =
      any ? random_between(random, 0, last) : random_between(random, low, row > 0 ? row - 1 : 0);
  uint32_t at = chosen;
  while (at != row && at != KC_SESSION_START) at = run->after[at];
  return at == row ? KC_SESSION_START : chosen;
}

static void draw_sessions(struct test_run *run, uint64_t seed)
{
  struct kc_random random;
  kc_random_init(&random, seed, "random-sessions", 0);
  const uint64_t means[4] = {1, 1000, KC_PS_PER_MS, 50 * KC_PS_PER_MS};
  const uint64_t mean_ps = means[random_between(&random, 0, 3)];
  const uint32_t reaches[3] = {1, random_between(&random, 1, 8), 64}; /* chains, shrubs, brooms */
  const uint32_t reach = reaches[random_between(&random, 0, 2)];
  const uint32_t starts = random_between(&random, 2, 16); /* one row in `starts` waits for nobody */
  run->after = calloc(run->request_count, sizeof *run->after);
  run->wait_ps = calloc(run->request_count, sizeof *run->wait_ps);
  if (run->after == NULL || run->wait_ps == NULL) abort();
  for (uint32_t i = 0; i < run->request_count; i++) run->after[i] = KC_SESSION_START;
  for (uint32_t i = 0; i < run->request_count; i++) {
    if (!kc_random_chance(&random, 1, starts)) {
      run->after[i] = draw_predecessor(run, &random, i, reach);
    }
    if (kc_random_chance(&random, 1, 3)) continue; /* wait 0: due with the end itself */
    run->wait_ps[i] = (kc_ps)kc_random_exponential(&random, mean_ps);
  }
}

void random_run_draw_sessions(struct test_run *run, uint64_t seed, uint32_t requests_max)
{
  draw_run(run, NULL, seed, requests_max, false);
  draw_sessions(run, seed);
}

void random_run_draw_policy_sessions(struct test_run *run, const char *policy, uint64_t seed,
                                     uint32_t requests_max)
{
  draw_run(run, policy, seed, requests_max, false);
  draw_sessions(run, seed);
}

static void print_policy(const struct test_run *run)
{
  const struct kc_sched_config *s = &run->instance.sched;
  printf("  %s, %s, overlap %d, cache %d with %" PRIu32 " keys, threshold %" PRIu32
         ", chunk %" PRIu32 ", prefill <= %" PRIu32 ", mixed %d, conservativeness %g, "
         "queue <= %" PRIu32 ", cancels %d, timeouts %d\n",
         run->instance.policy->name, kc_queue_order_name(s->order), s->overlap, s->prefix_cache,
         s->key_count, s->long_prefill_token_threshold, s->chunked_prefill_size,
         s->max_prefill_tokens, s->mixed_chunk, s->schedule_conservativeness,
         run->instance.queue_limit, run->cancel_after_ps != NULL, run->patience != NULL);
}

static void print_request(const struct test_run *run, uint32_t i)
{
  const struct kc_request *r = &run->requests[i];
  printf("  request %" PRIu32 ": at %" PRId64 " ps, %" PRIu32 " + %" PRIu32
         ", max_tokens %" PRIu32 ", priority %" PRId32 ", keys",
         i, r->arrival_ps, r->input_tokens, r->output_tokens, r->max_tokens, r->priority);
  for (uint32_t k = 0; k < r->run_count && k < 8; k++) {
    printf(" %" PRIu32 "x%" PRIu32, r->run[k].first, r->run[k].count);
  }
  if (run->cancel_after_ps != NULL && run->cancel_after_ps[i] != KC_PS_NEVER) {
    printf(", cancelled after %" PRId64 " ps", run->cancel_after_ps[i]);
  }
  printf("\n");
}

void random_run_print(const struct test_run *run)
{
  const struct kc_sched_config *s = &run->instance.sched;
  printf("  %s, pages %" PRIu32 " of %" PRIu32 ", running <= %" PRIu32 ", batched <= %" PRIu32
         ", model length %" PRIu64 ", chunked %d, reserve %d, integrity %d, windows %" PRIu32 "\n",
         s->role == KC_ROLE_DECODE ? "decode" : "serve", run->instance.pages, s->page_size,
         s->max_running, s->max_batched_tokens, s->max_model_len, s->chunked_prefill,
         s->reserve_full_prompt, (int)run->instance.integrity, s->cap_count);
  print_policy(run);
  if (run->closed) {
    const struct kc_closed_config *c = &run->closed_config;
    printf("  closed %s: %" PRIu32 " at once, %" PRIu32 " requests of %" PRIu32 " + %" PRIu32 "\n",
           c->mode == KC_CLOSED_WAVE ? "wave" : "steady", c->concurrency, c->requests,
           c->input_tokens, c->output_tokens);
    return;
  }
  for (uint32_t i = 0; i < run->request_count && i < 8; i++) {
    print_request(run, i);
    if (run->after == NULL || run->after[i] == KC_SESSION_START) continue;
    printf("    %" PRId64 " ps after request %" PRIu32 "\n", run->wait_ps[i], run->after[i]);
  }
}
