/* Figures by class, tenant and warmth against plain loops over the same requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/metrics/groups.h"

enum { REQUESTS = 500, CLASSES = 3, TENANTS = 7, LEN = 1000 };

struct world {
  struct kc_request request[REQUESTS];
  struct kc_outcome outcome[REQUESTS];
  bool met[REQUESTS];
  kc_ps value[KC_LATENCIES][REQUESTS];
  uint32_t owner[KC_LATENCIES][REQUESTS];
  uint64_t count[KC_LATENCIES];
  struct kc_groups groups;
  struct kc_arena arena;
};

static int compare(const void *a, const void *b)
{
  const kc_ps x = *(const kc_ps *)a, y = *(const kc_ps *)b;
  return (x > y) - (x < y);
}

/* Draws requests with outcomes, and tells the groups of them in a random order. */
static void play(struct world *w, uint64_t seed)
{
  struct kc_random random;
  const struct kc_groups_config config = {.class_count = CLASSES, .tenant_count = TENANTS};
  memset(w, 0, sizeof *w);
  kc_random_init(&random, seed, "groups", 0);
  assert_int_equal(kc_arena_init(&w->arena, kc_groups_need(&config, REQUESTS), NULL), KC_OK);
  assert_int_equal(kc_groups_init(&w->groups, &config, w->request, REQUESTS, &w->arena), KC_OK);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    struct kc_request *r = &w->request[i];
    struct kc_outcome *o = &w->outcome[i];
    r->input_tokens = 1 + (uint32_t)kc_random_below(&random, 50);
    r->output_tokens = r->max_tokens = 1 + (uint32_t)kc_random_below(&random, 50);
    r->class_index = (uint32_t)kc_random_below(&random, CLASSES);
    r->tenant = (uint32_t)kc_random_below(&random, TENANTS);
    o->request = i;
    o->status = (enum kc_status)kc_random_below(&random, KC_STATUSES);
    o->resident_ps = (kc_ps)kc_random_below(&random, 2);
    o->cached_tokens = (uint32_t)kc_random_below(&random, 2) * (r->input_tokens / 2);
    o->output_tokens = (uint32_t)kc_random_below(&random, r->output_tokens + 1);
    w->met[i] = kc_random_below(&random, 2) != 0;
    for (int kind = 0; kind < KC_LATENCIES; kind++) {
      if (kc_random_below(&random, 3) == 0) continue;
      w->owner[kind][w->count[kind]] = i;
      w->value[kind][w->count[kind]++] = (kc_ps)kc_random_below(&random, 40);
      kc_groups_note(&w->groups, (enum kc_latency)kind, i);
    }
    kc_groups_outcome(&w->groups, o, LEN, w->met[i]);
  }
  for (int kind = 0; kind < KC_LATENCIES; kind++) {
    kc_groups_finish(&w->groups, (enum kc_latency)kind, w->value[kind], w->count[kind]);
  }
}

enum way { BY_WARMTH, BY_CLASS, BY_TENANT };

static bool belongs(const struct world *w, uint32_t request, enum way way, uint32_t number)
{
  if (way == BY_CLASS) return w->request[request].class_index == number;
  if (way == BY_TENANT) return w->request[request].tenant == number;
  return (w->outcome[request].cached_tokens > 0) == (number == KC_WARM);
}

static void check_latency(const struct world *w, const struct kc_statistic *s, int kind,
                          enum way way, uint32_t number)
{
  kc_ps mine[REQUESTS];
  uint64_t n = 0, sum = 0;
  for (uint64_t i = 0; i < w->count[kind]; i++) {
    if (!belongs(w, w->owner[kind][i], way, number)) continue;
    mine[n++] = w->value[kind][i];
    sum += (uint64_t)w->value[kind][i];
  }
  qsort(mine, n, sizeof mine[0], compare);
  assert_int_equal(s->count, n);
  if (n == 0) return;
  assert_int_equal(s->min_ps, mine[0]);
  assert_int_equal(s->max_ps, mine[n - 1]);
  assert_int_equal(s->p95_ps, mine[(n * 95 + 99) / 100 - 1]);
  assert_int_equal(s->mean_ps, (sum + n / 2) / n);
}

static void check_group(const struct world *w, const struct kc_group *group, enum way way,
                        uint32_t number)
{
  uint64_t requests = 0, inputs = 0, admitted = 0, cached = 0, outputs = 0, asked = 0, met = 0;
  uint64_t failed = 0;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    if (!belongs(w, i, way, number)) continue;
    requests++;
    failed += w->outcome[i].status == KC_STATUS_FAILED;
    inputs += w->request[i].input_tokens;
    admitted += w->outcome[i].resident_ps > 0 ? w->request[i].input_tokens : 0;
    cached += w->outcome[i].cached_tokens;
    outputs += w->outcome[i].output_tokens;
    asked += w->request[i].output_tokens;
    met += w->met[i];
  }
  assert_int_equal(group->requests_total, requests);
  assert_int_equal(group->requests_by_status[KC_STATUS_FAILED], failed);
  assert_int_equal(group->input_tokens, inputs);
  assert_int_equal(group->admitted_tokens, admitted);
  assert_int_equal(group->cached_tokens, cached);
  assert_int_equal(group->output_tokens, outputs);
  assert_int_equal(group->output_tokens_asked, asked);
  assert_int_equal(group->slo_met, met);
  check_latency(w, &group->ttft, KC_LATENCY_TTFT, way, number);
  check_latency(w, &group->tpot, KC_LATENCY_TPOT, way, number);
  check_latency(w, &group->e2e, KC_LATENCY_E2E, way, number);
}

static void groups_equal_loops(void **state)
{
  (void)state;
  struct world *w = malloc(sizeof *w);
  assert_non_null(w);
  for (uint64_t seed = 0; seed < 20; seed++) {
    play(w, seed);
    for (uint32_t i = 0; i < KC_WARMTHS; i++) {
      check_group(w, &kc_groups_warmth(&w->groups)[i], BY_WARMTH, i);
    }
    for (uint32_t i = 0; i < CLASSES; i++) {
      check_group(w, &kc_groups_classes(&w->groups)[i], BY_CLASS, i);
    }
    for (uint32_t i = 0; i < TENANTS; i++) {
      check_group(w, &kc_groups_tenants(&w->groups)[i], BY_TENANT, i);
    }
    kc_arena_deinit(&w->arena);
  }
  free(w);
}

/* By hand: shares 1, 1/2, 0 of three tenants: (1.5)^2 / (3 * 1.25) = 0.6. A tenant that asked for
 * nothing does not count; all alike is 1; one of two with everything is 1/2. */
static void jain_by_hand(void **state)
{
  (void)state;
  struct kc_group group[KC_WARMTHS + 1 + 4] = {0};
  struct kc_groups groups = {.config = {.class_count = 1, .tenant_count = 4}, .group = group};
  struct kc_group *tenant = group + KC_WARMTHS + 1;
  const uint64_t asked[] = {10, 20, 30, 0}, got[] = {10, 10, 0, 0};
  assert_int_equal(kc_groups_jain_micro(&groups), 1000000); /* nobody asked */
  for (int i = 0; i < 4; i++) {
    tenant[i].output_tokens_asked = asked[i];
    tenant[i].output_tokens = got[i];
  }
  assert_int_equal(kc_groups_jain_micro(&groups), 600000);
  tenant[1].output_tokens = 20;
  tenant[2].output_tokens_asked = 0;
  assert_int_equal(kc_groups_jain_micro(&groups), 1000000);
  tenant[1].output_tokens = 0;
  assert_int_equal(kc_groups_jain_micro(&groups), 500000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(groups_equal_loops),
                                     cmocka_unit_test(jain_by_hand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
