/* The router (see router.h). Its memory comes from the run's arena; choosing allocates nothing. */
#include "sim/fleet/router.h"

#include "engine/base/check.h"

const char *kc_router_policy_name(enum kc_router_policy policy)
{
  static const char *const names[KC_ROUTER_POLICIES] = {"round-robin", "least-loaded",
                                                        "session-affinity", "prefix-aware"};
  KC_ASSERT((unsigned)policy < KC_ROUTER_POLICIES);
  KC_ASSERT(names[policy] != NULL);
  return names[policy];
}

static uint32_t groups_of(const struct kc_router_config *config)
{
  return config->policy == KC_ROUTER_SESSION_AFFINITY ? config->group_count : 0;
}

static uint32_t words_of(const struct kc_router_config *config)
{
  return config->policy == KC_ROUTER_PREFIX_AWARE ? (config->replicas + 63) / 64 : 0;
}

size_t kc_router_need(const struct kc_router_config *config)
{
  KC_ASSERT(config->replicas >= 1 && config->replicas <= KC_REPLICAS_MAX);
  KC_ASSERT((unsigned)config->policy < KC_ROUTER_POLICIES);
  return kc_arena_need(config->replicas, sizeof(struct kc_router_load)) +
         kc_arena_need(groups_of(config), sizeof(uint32_t)) +
         kc_arena_need((size_t)config->key_count * words_of(config), sizeof(uint64_t));
}

enum kc_err kc_router_init(struct kc_router *router, const struct kc_router_config *config,
                           struct kc_arena *arena)
{
  KC_ASSERT(config->replicas >= 1 && config->replicas <= KC_REPLICAS_MAX);
  KC_ASSERT(config->policy < KC_ROUTER_SESSION_AFFINITY ||
            (config->overflow_denominator > 0 &&
             config->overflow_numerator >= config->overflow_denominator));
  *router = (struct kc_router){.config = *config, .words = words_of(config)};
  router->load = kc_arena_take(arena, config->replicas, sizeof *router->load);
  router->home = kc_arena_take(arena, groups_of(config), sizeof *router->home);
  router->sent = kc_arena_take(arena, (size_t)config->key_count * router->words,
                               sizeof *router->sent);
  const bool taken = router->load != NULL && router->home != NULL && router->sent != NULL;
  return taken ? KC_OK : KC_ERR_MEMORY;
}

static bool is_less(const struct kc_router_load *a, const struct kc_router_load *b)
{
  return a->requests < b->requests || (a->requests == b->requests && a->tokens < b->tokens);
}

static uint32_t least_loaded(const struct kc_router *router)
{
  uint32_t best = 0;
  for (uint32_t i = 1; i < router->config.replicas; i++) {
    if (is_less(&router->load[i], &router->load[best])) best = i;
  }
  KC_ASSERT(router->load[best].requests * router->config.replicas <= router->all.requests);
  return best;
}

/* One more request would be more than the instance's share. */
static bool is_full(const struct kc_router *router, uint32_t replica)
{
  const struct kc_router_config *config = &router->config;
  const kc_u128 whole = (kc_u128)config->overflow_denominator * config->replicas;
  const kc_u128 scaled = (kc_u128)config->overflow_numerator * (router->all.requests + 1);
  KC_ASSERT(whole > 0);
  KC_ASSERT(router->load[replica].requests <= router->all.requests);
  return router->load[replica].requests + 1 > (scaled + whole - 1) / whole;
}

static uint32_t with_its_group(struct kc_router *router, uint32_t group)
{
  if (group == KC_GROUP_NONE) return least_loaded(router);
  KC_ASSERT(group < router->config.group_count);
  const uint32_t home = router->home[group];
  KC_ASSERT(home <= router->config.replicas);
  if (home > 0 && !is_full(router, home - 1)) return home - 1;
  const uint32_t replica = least_loaded(router);
  router->moves += home > 0 && home != replica + 1;
  router->home[group] = replica + 1;
  return replica;
}

/* ---- prefixes ---- */

enum { WORDS_MAX = KC_REPLICAS_MAX / 64 };

/* Pages of the prompt's longest beginning that some instance was given; those instances are in
 * `who`, which is everybody for 0 pages. */
static uint32_t longest_sent(const struct kc_router *router,
                             const struct kc_router_request *request, uint64_t who[WORDS_MAX])
{
  struct kc_key_walk walk = kc_key_walk_begin(&request->content);
  KC_ASSERT(router->words >= 1 && router->words <= WORDS_MAX);
  for (uint32_t w = 0; w < router->words; w++) who[w] = UINT64_MAX;
  for (uint32_t page = 0; page < request->prompt_pages; page++) {
    const uint32_t key = kc_key_walk_next(&walk);
    uint64_t next[WORDS_MAX], any = 0;
    if (key == KC_KEY_NONE) return page;
    KC_ASSERT(key < router->config.key_count);
    for (uint32_t w = 0; w < router->words; w++) {
      next[w] = who[w] & router->sent[(size_t)key * router->words + w];
      any |= next[w];
    }
    if (any == 0) return page;
    for (uint32_t w = 0; w < router->words; w++) who[w] = next[w];
  }
  return request->prompt_pages;
}

static void note_sent(struct kc_router *router, const struct kc_router_request *request,
                      uint32_t replica)
{
  struct kc_key_walk walk = kc_key_walk_begin(&request->content);
  uint32_t key;
  KC_ASSERT(replica < router->config.replicas);
  while ((key = kc_key_walk_next(&walk)) != KC_KEY_NONE) {
    KC_ASSERT(key < router->config.key_count);
    router->sent[(size_t)key * router->words + replica / 64] |= UINT64_C(1) << (replica % 64);
  }
}

static uint32_t with_its_prefix(struct kc_router *router, const struct kc_router_request *request)
{
  uint64_t who[WORDS_MAX];
  uint32_t best = UINT32_MAX;
  const uint32_t pages = longest_sent(router, request, who);
  if (pages > 0 && pages >= request->prompt_pages - pages) {
    for (uint32_t i = 0; i < router->config.replicas; i++) {
      if ((who[i / 64] >> (i % 64) & 1) == 0) continue;
      if (best == UINT32_MAX || is_less(&router->load[i], &router->load[best])) best = i;
    }
    KC_ASSERT(best < router->config.replicas);
    if (is_full(router, best)) best = UINT32_MAX;
  }
  if (best == UINT32_MAX) best = least_loaded(router);
  note_sent(router, request, best);
  return best;
}

uint32_t kc_router_choose(struct kc_router *router, const struct kc_router_request *request)
{
  const uint32_t prompt_tokens = request->prompt_tokens;
  uint32_t replica = router->turn;
  switch (router->config.policy) {
  case KC_ROUTER_LEAST_LOADED: replica = least_loaded(router); break;
  case KC_ROUTER_SESSION_AFFINITY: replica = with_its_group(router, request->group); break;
  case KC_ROUTER_PREFIX_AWARE: replica = with_its_prefix(router, request); break;
  default: router->turn = (router->turn + 1) % router->config.replicas; break;
  }
  KC_ASSERT(replica < router->config.replicas);
  router->load[replica].requests++;
  router->load[replica].tokens += prompt_tokens;
  router->all.requests++;
  router->all.tokens += prompt_tokens;
  return replica;
}

void kc_router_ended(struct kc_router *router, uint32_t replica, uint32_t prompt_tokens)
{
  KC_ASSERT(replica < router->config.replicas);
  KC_ASSERT(router->load[replica].requests > 0 && router->load[replica].tokens >= prompt_tokens);
  router->load[replica].requests--;
  router->load[replica].tokens -= prompt_tokens;
  router->all.requests--;
  router->all.tokens -= prompt_tokens;
}

uint32_t kc_router_share(const struct kc_router_config *config, uint32_t requests)
{
  KC_ASSERT(config->replicas >= 1);
  KC_ASSERT(requests > 0);
  if (config->policy != KC_ROUTER_ROUND_ROBIN) return requests;
  return (requests - 1) / config->replicas + 1;
}
