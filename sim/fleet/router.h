/* Which of several equal instances a request goes to.
 *
 *   ROUND_ROBIN       one after the other, in the order of arrival
 *   LEAST_LOADED      the fewest outstanding requests; among those the fewest outstanding prompt
 *                     tokens; among those the lowest index
 *   SESSION_AFFINITY  where the last request of its group went; when that instance has more than
 *                     its share, as LEAST_LOADED, and the group moves there
 *   PREFIX_AWARE      where most of its prompt was sent before: of the instances that were given
 *                     the longest beginning of it, half of its pages or more, the least loaded
 *                     one; when there is none, or it has more than its share, as LEAST_LOADED
 *
 * Outstanding: given to the instance and not yet ended, whether it waits or runs. A router knows a
 * prompt's length but not how long the answer will be. Its signals are exact and without delay.
 * What was sent to an instance may have left its cache since: PREFIX_AWARE does not know.
 *
 * More than its share: with the new request, more outstanding requests than
 * ceil(overflow * all outstanding ones / instances), the bound of V. Mirrokni, M. Thorup and
 * M. Zadimoghaddam, "Consistent hashing with bounded loads" (SODA 2018).
 */
#ifndef KC_SIM_FLEET_ROUTER_H
#define KC_SIM_FLEET_ROUTER_H

#include "engine/base/arena.h"
#include "engine/kv/content.h"
#include "engine/base/vtime.h"

enum { KC_REPLICAS_MAX = 256 };

enum kc_router_policy {
  KC_ROUTER_ROUND_ROBIN,
  KC_ROUTER_LEAST_LOADED,
  KC_ROUTER_SESSION_AFFINITY,
  KC_ROUTER_PREFIX_AWARE,
  KC_ROUTER_POLICIES
};
const char *kc_router_policy_name(enum kc_router_policy policy); /* "round-robin": pinned */

#define KC_GROUP_NONE UINT32_MAX /* a request that belongs to no group: as LEAST_LOADED */

struct kc_router_config {
  enum kc_router_policy policy;
  uint32_t replicas;              /* 1 to KC_REPLICAS_MAX */
  /* SESSION_AFFINITY, PREFIX_AWARE: a factor of 1 or more */
  uint64_t overflow_numerator, overflow_denominator;
  uint32_t group_count;           /* SESSION_AFFINITY: groups are below it */
  uint32_t key_count;             /* PREFIX_AWARE: keys of all contents are below it */
};

/* A request as the router sees it. */
struct kc_router_request {
  uint32_t prompt_tokens;
  uint32_t group;                 /* KC_GROUP_NONE: belongs to none */
  uint32_t prompt_pages;          /* whole pages of the prompt, the first of `content` */
  struct kc_content content;      /* run_count 0: unknown */
};

/* What one instance has been given and has not yet ended. */
struct kc_router_load {
  uint64_t requests, tokens;      /* tokens of prompts */
};

struct kc_router {
  struct kc_router_config config;
  uint32_t turn;                  /* ROUND_ROBIN: whose it is */
  struct kc_router_load all;      /* sums over the instances */
  struct kc_router_load *load;    /* [replicas] */
  uint32_t *home;                 /* [group_count] 1 + where its last request went; 0: nowhere */
  uint64_t moves;                 /* times that a group left its home */
  uint64_t *sent;                 /* [key_count][words] PREFIX_AWARE: bits, by instance that was
                                     given the page */
  uint32_t words;                 /* of 64 instances each */
};

size_t kc_router_need(const struct kc_router_config *config); /* arena bytes */
enum kc_err kc_router_init(struct kc_router *router, const struct kc_router_config *config,
                           struct kc_arena *arena);

/* Chooses an instance for a request that has arrived and books it there. O(1) for ROUND_ROBIN and
 * for a group that stays, else O(instances); PREFIX_AWARE: and O(pages of the request). */
uint32_t kc_router_choose(struct kc_router *router, const struct kc_router_request *request);

/* That request has ended. */
void kc_router_ended(struct kc_router *router, uint32_t replica, uint32_t prompt_tokens);

/* The most of `requests` requests that one instance can be given. */
uint32_t kc_router_share(const struct kc_router_config *config, uint32_t requests);

#endif
