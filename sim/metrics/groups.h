/* Figures of some of the requests: the same definitions as for all (metrics.h), for each class of
 * service, each tenant, and for requests that found part of their prompt cached (warm) or did not
 * (cold).
 *
 *   group[]   cold, warm | class 0 .. class_count - 1 | tenant 0 .. tenant_count - 1
 *
 * While a run goes on, counters are kept and each latency remembers whose it is; the statistics of
 * every group are worked out once, at the end.
 */
#ifndef KC_SIM_METRICS_GROUPS_H
#define KC_SIM_METRICS_GROUPS_H

#include "engine/instance/instance.h"

/* Latencies that one request must keep to count for goodput; KC_PS_NEVER = any will do. */
struct kc_limits {
  kc_ps ttft_ps, tpot_ps;
};

struct kc_statistic {
  uint64_t count;          /* requests, or gaps for ITL, that it covers */
  kc_ps mean_ps, p50_ps, p90_ps, p95_ps, p99_ps, min_ps, max_ps; /* valid when count > 0 */
};

struct kc_group {
  uint64_t requests_total;  /* that ended */
  uint64_t requests_by_status[KC_STATUSES];
  uint64_t input_tokens;    /* asked for */
  uint64_t admitted_tokens; /* prompt tokens of requests that held a slot */
  uint64_t cached_tokens;   /* of those, found in the cache at the first admission */
  uint64_t output_tokens, output_tokens_asked; /* made; what full service would have made */
  uint64_t slo_met;         /* completed requests that kept the limits of their class */
  struct kc_statistic ttft, tpot, e2e;
};

enum kc_warmth { KC_COLD = 0, KC_WARM = 1, KC_WARMTHS };

struct kc_groups_config {
  uint32_t class_count;     /* >= 1 */
  uint32_t tenant_count;    /* >= 1 */
};

enum kc_latency { KC_LATENCY_TTFT, KC_LATENCY_TPOT, KC_LATENCY_E2E, KC_LATENCIES };

struct kc_groups {
  struct kc_groups_config config;
  struct kc_group *group;   /* NULL: no groups are kept */
  uint32_t count;           /* of groups */
  uint32_t *owner[KC_LATENCIES]; /* [capacity] request of each latency, in the order noted */
  uint8_t *warm;            /* [capacity] by request */
  uint64_t noted[KC_LATENCIES];
  uint64_t capacity;
  const struct kc_request *requests;
  uint64_t *begin;          /* [count + 1] scratch */
  kc_ps *scratch;           /* [capacity] */
};

size_t kc_groups_need(const struct kc_groups_config *config, uint64_t requests); /* arena bytes */
enum kc_err kc_groups_init(struct kc_groups *groups, const struct kc_groups_config *config,
                           const struct kc_request *requests, uint64_t request_count,
                           struct kc_arena *arena);

/* A request has ended. `slo_met`: it completed and kept its limits. */
void kc_groups_outcome(struct kc_groups *groups, const struct kc_outcome *outcome,
                       uint64_t max_model_len, bool slo_met);

/* The next latency of that kind in the list that kc_groups_finish will be given is this
 * request's. */
static inline void kc_groups_note(struct kc_groups *groups, enum kc_latency kind, uint32_t request)
{
  if (groups->group == NULL) return;
  KC_ASSERT(groups->noted[kind] < groups->capacity);
  groups->owner[kind][groups->noted[kind]++] = request;
}

/* Works out one kind of statistic for every group. `values` in the order of the notes; kept. */
void kc_groups_finish(struct kc_groups *groups, enum kc_latency kind, const kc_ps *values,
                      uint64_t count);

static inline const struct kc_group *kc_groups_warmth(const struct kc_groups *groups)
{
  return groups->group;
}
static inline const struct kc_group *kc_groups_classes(const struct kc_groups *groups)
{
  return groups->group + KC_WARMTHS;
}
static inline const struct kc_group *kc_groups_tenants(const struct kc_groups *groups)
{
  return groups->group + KC_WARMTHS + groups->config.class_count;
}

/* Jain's index of the tenants' service (R. Jain, D. Chiu, W. Hawe, "A quantitative measure of
 * fairness", DEC TR-301, 1984): (sum x)^2 / (n sum x^2), where x is the share that a tenant got of
 * the output tokens that it asked for, over the tenants that asked. 1 = all alike, 1 / n = one has
 * everything. Millionths, rounded; 1,000,000 when nobody asked or nobody got anything. */
uint64_t kc_groups_jain_micro(const struct kc_groups *groups);

/* Nearest-rank statistics of `count` values; reorders them. */
void kc_statistic_of(struct kc_statistic *out, kc_ps *values, uint64_t count);

#endif
