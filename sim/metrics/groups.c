/* Figures by class, tenant and warmth (see groups.h).
 *
 * The latencies of a run stand in one array, in the order in which they came; owner[] says whose
 * each is. For one way of grouping they are dealt into a second array by counting sort, so that
 * each group's are together, and the statistics are taken there:
 *
 *   values   41 17 90 33 ...      owner  7 2 9 4 ...      scratch  | group 0 | group 1 | ...
 */
#include "sim/metrics/groups.h"

#include <string.h>

static uint32_t group_count(const struct kc_groups_config *config)
{
  KC_ASSERT(config->class_count >= 1 && config->tenant_count >= 1);
  KC_ASSERT(config->class_count < UINT32_MAX / 4 && config->tenant_count < UINT32_MAX / 4);
  return KC_WARMTHS + config->class_count + config->tenant_count;
}

size_t kc_groups_need(const struct kc_groups_config *config, uint64_t requests)
{
  const uint32_t count = group_count(config);
  KC_ASSERT(requests > 0 && requests <= UINT32_MAX);
  return kc_arena_need(count, sizeof(struct kc_group)) +
         kc_arena_need((size_t)count + 1, sizeof(uint64_t)) +
         KC_LATENCIES * kc_arena_need(requests, sizeof(uint32_t)) + kc_arena_need(requests, 1) +
         kc_arena_need(requests, sizeof(kc_ps));
}

enum kc_err kc_groups_init(struct kc_groups *groups, const struct kc_groups_config *config,
                           const struct kc_request *requests, uint64_t request_count,
                           struct kc_arena *arena)
{
  KC_ASSERT(request_count > 0);
  *groups = (struct kc_groups){.config = *config, .count = group_count(config),
                               .capacity = request_count, .requests = requests};
  groups->group = kc_arena_take(arena, groups->count, sizeof *groups->group);
  groups->begin = kc_arena_take(arena, (size_t)groups->count + 1, sizeof *groups->begin);
  groups->warm = kc_arena_take(arena, request_count, 1);
  groups->scratch = kc_arena_take(arena, request_count, sizeof *groups->scratch);
  for (int kind = 0; kind < KC_LATENCIES; kind++) {
    groups->owner[kind] = kc_arena_take(arena, request_count, sizeof *groups->owner[kind]);
    if (groups->owner[kind] == NULL) return KC_ERR_MEMORY;
  }
  const bool taken = groups->group != NULL && groups->begin != NULL && groups->warm != NULL &&
                     groups->scratch != NULL;
  return taken ? KC_OK : KC_ERR_MEMORY;
}

/* Where a request stands in each of the three ways of grouping. */
static uint32_t warmth_of(const struct kc_groups *groups, uint32_t request)
{
  return groups->warm[request] != 0 ? KC_WARM : KC_COLD;
}

static uint32_t class_of(const struct kc_groups *groups, uint32_t request)
{
  KC_ASSERT(groups->requests[request].class_index < groups->config.class_count);
  return KC_WARMTHS + groups->requests[request].class_index;
}

static uint32_t tenant_of(const struct kc_groups *groups, uint32_t request)
{
  KC_ASSERT(groups->requests[request].tenant < groups->config.tenant_count);
  return KC_WARMTHS + groups->config.class_count + groups->requests[request].tenant;
}

static uint32_t (*const ways[])(const struct kc_groups *, uint32_t) = {warmth_of, class_of,
                                                                      tenant_of};
enum { WAYS = sizeof ways / sizeof ways[0] };

void kc_groups_outcome(struct kc_groups *groups, const struct kc_outcome *outcome,
                       uint64_t max_model_len, bool slo_met)
{
  if (groups->group == NULL) return;
  const struct kc_request *r = &groups->requests[outcome->request];
  const bool fits = r->input_tokens < max_model_len;
  const uint32_t asked = fits ? kc_request_output(r, max_model_len) : r->output_tokens;
  KC_ASSERT(outcome->request < groups->capacity);
  groups->warm[outcome->request] = outcome->cached_tokens > 0;
  for (int way = 0; way < WAYS; way++) {
    struct kc_group *group = &groups->group[ways[way](groups, outcome->request)];
    group->requests_total++;
    group->requests_by_status[outcome->status]++;
    group->input_tokens += r->input_tokens;
    group->admitted_tokens += outcome->resident_ps > 0 ? r->input_tokens : 0;
    group->cached_tokens += outcome->cached_tokens;
    group->output_tokens += outcome->output_tokens;
    group->output_tokens_asked += asked;
    group->slo_met += slo_met;
  }
}

static struct kc_statistic *statistic_of(struct kc_group *group, enum kc_latency kind)
{
  KC_ASSERT((unsigned)kind < KC_LATENCIES);
  return kind == KC_LATENCY_TTFT ? &group->ttft : kind == KC_LATENCY_TPOT ? &group->tpot
                                                                          : &group->e2e;
}

void kc_groups_finish(struct kc_groups *groups, enum kc_latency kind, const kc_ps *values,
                      uint64_t count)
{
  if (groups->group == NULL) return;
  const uint32_t *owner = groups->owner[kind];
  KC_ASSERT(count == groups->noted[kind]);
  for (int way = 0; way < WAYS; way++) {
    uint64_t *begin = groups->begin;
    memset(begin, 0, ((size_t)groups->count + 1) * sizeof *begin);
    for (uint64_t i = 0; i < count; i++) begin[ways[way](groups, owner[i]) + 1]++;
    for (uint32_t g = 0; g < groups->count; g++) begin[g + 1] += begin[g];
    for (uint64_t i = 0; i < count; i++) {
      groups->scratch[begin[ways[way](groups, owner[i])]++] = values[i];
    }
    /* begin[g] is now where group g ends. */
    KC_ASSERT(begin[groups->count] == count);
    uint64_t from = 0;
    for (uint32_t g = 0; g < groups->count; g++) {
      const uint64_t to = begin[g];
      if (to > from) {
        kc_statistic_of(statistic_of(&groups->group[g], kind), groups->scratch + from, to - from);
      }
      from = to;
    }
  }
}

uint64_t kc_groups_jain_micro(const struct kc_groups *groups)
{
  double sum = 0, squares = 0;
  uint32_t asked = 0;
  KC_ASSERT(groups->group != NULL);
  const struct kc_group *tenant = kc_groups_tenants(groups);
  for (uint32_t i = 0; i < groups->config.tenant_count; i++) {
    if (tenant[i].output_tokens_asked == 0) continue;
    const double share =
        (double)tenant[i].output_tokens / (double)tenant[i].output_tokens_asked;
    sum += share;
    squares += share * share;
    asked++;
  }
  if (asked == 0 || squares <= 0) return 1000000;
  const double index = sum * sum / (asked * squares);
  KC_ASSERT(index > 0 && index < 1.000001);
  return (uint64_t)(index * 1e6 + 0.5);
}
