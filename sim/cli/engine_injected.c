/* See engine_injected.h. */
#include "sim/cli/engine_injected.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/run_output.h"

enum kc_err kc_engine_faults_take(struct kc_engine_faults *faults, struct kc_scenario *scenario,
                                  struct kc_diag *diag)
{
  struct kc_pool_spec *pool = &scenario->pool[0];
  faults->asked = pool->inject;
  KC_ASSERT(faults->token == NULL);
  if (faults->asked.kinds == 0) return KC_OK;
  if (pool->integrity == KC_INTEGRITY_OFF) {
    return kc_fail(diag, KC_ERR_INPUT, "the scenario injects faults and switches the check of page "
                   "tags off: the engine shows what the check finds; set kv.integrity to batched");
  }
  pool->inject.kinds = 0;
  return KC_OK;
}

void kc_engine_faults_arm(const struct kc_engine_faults *faults, struct kc_engine *engine)
{
  static const struct {
    enum kc_inject_kind asked;
    uint32_t here;
  } kinds[] = {{KC_INJECT_LOST, 1u << KC_TAG_FAULT_REUSED},
               {KC_INJECT_REUSED, 1u << KC_TAG_FAULT_REUSED | 1u << KC_TAG_FAULT_LATE},
               {KC_INJECT_SWAPPED, 1u << KC_TAG_FAULT_SWAPPED},
               {KC_INJECT_STALE, 1u << KC_TAG_FAULT_STALE},
               {KC_INJECT_RANGE, 1u << KC_TAG_FAULT_RANGE}};
  if (faults->asked.kinds == 0) return;
  KC_ASSERT(faults->asked.every_steps > 0);
  engine->fault_every = faults->asked.every_steps;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if ((faults->asked.kinds & kinds[i].asked) != 0) engine->fault_kinds |= kinds[i].here;
  }
}

enum kc_err kc_engine_faults_keep(struct kc_engine_faults *faults, const struct kc_engine *engine,
                                  const struct kc_run *run, struct kc_diag *diag)
{
  const uint32_t requests = run->request_count;
  KC_ASSERT(faults->token == NULL && faults->first == NULL);
  faults->requests = requests;
  faults->token = malloc((engine->exec.output_used + 1) * sizeof *faults->token);
  faults->first = calloc((size_t)requests + 1, sizeof *faults->first);
  if (faults->token == NULL || faults->first == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the tokens of the run without faults");
  }
  for (uint32_t i = 0; i < requests; i++) {
    uint32_t count;
    const int32_t *token = kc_exec_output(&engine->exec, i, &count);
    faults->first[i + 1] = faults->first[i] + count;
    if (count > 0) memcpy(faults->token + faults->first[i], token, count * sizeof *token);
  }
  return KC_OK;
}

void kc_engine_faults_compare(struct kc_engine_faults *faults, const struct kc_engine *engine,
                              const struct kc_run *run)
{
  /* Who is given up is so at other moments, because steps are others. */
  const bool patient = run->replay.patience == NULL && run->replay.cancel_after_ps == NULL;
  KC_ASSERT(faults->requests == run->request_count);
  for (uint32_t i = 0; i < faults->requests; i++) {
    uint32_t count;
    const int32_t *token = kc_exec_output(&engine->exec, i, &count);
    const uint64_t before = faults->first[i + 1] - faults->first[i];
    const uint64_t both = before < count ? before : count;
    const bool equal =
        both == 0 || memcmp(token, faults->token + faults->first[i], both * sizeof *token) == 0;
    const bool may_end = engine->faults.hit[i] || !patient;
    if (!equal || (before != count && !may_end)) faults->wrong++;
    else if (before == count) faults->whole++;
    else faults->cut++;
  }
}

bool kc_engine_faults_held(const struct kc_engine_faults *faults, const struct kc_engine *engine)
{
  const struct kc_tag_faults *f = &engine->faults;
  if (faults->asked.kinds == 0) return true;
  KC_ASSERT(f->aborted + f->missed == f->victims);
  return f->missed == 0 && f->mistaken == 0 && faults->wrong == 0;
}

void kc_engine_faults_print(const struct kc_engine_faults *faults, const struct kc_engine *engine)
{
  const struct kc_tag_faults *f = &engine->faults;
  char n[3][32];
  if (faults->asked.kinds == 0) return;
  printf("faults     ");
  for (int k = 0; k < KC_TAG_FAULTS; k++) {
    if ((engine->fault_kinds >> k & 1) == 0) continue;
    printf(" %s %s", kc_tag_fault_name((enum kc_tag_fault)k),
           kc_run_grouped(f->injected[k], n[0]));
  }
  printf("\n            %s victims, %s of them aborted; %s aborted by mistake\n",
         kc_run_grouped(f->victims, n[0]), kc_run_grouped(f->aborted, n[1]),
         kc_run_grouped(f->mistaken, n[2]));
  printf("            tokens as without faults: %s requests whole, %s up to their end; %s others\n",
         kc_run_grouped(faults->whole, n[0]), kc_run_grouped(faults->cut, n[1]),
         kc_run_grouped(faults->wrong, n[2]));
}

json_t *kc_engine_faults_json(const struct kc_engine_faults *faults,
                              const struct kc_engine *engine)
{
  const struct kc_tag_faults *f = &engine->faults;
  if (faults->asked.kinds == 0) return json_null();
  json_t *injected = json_object();
  for (int k = 0; k < KC_TAG_FAULTS && injected != NULL; k++) {
    json_object_set_new(injected, kc_tag_fault_name((enum kc_tag_fault)k),
                        json_integer((json_int_t)f->injected[k]));
  }
  return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "injected", injected,
                   "victims", (json_int_t)f->victims, "aborted", (json_int_t)f->aborted, "missed",
                   (json_int_t)f->missed, "mistaken", (json_int_t)f->mistaken, "requests_whole",
                   (json_int_t)faults->whole, "requests_cut", (json_int_t)faults->cut,
                   "requests_wrong", (json_int_t)faults->wrong, "held",
                   (int)kc_engine_faults_held(faults, engine));
}

json_t *kc_engine_events_json(const struct kc_exec *exec)
{
  static const char *const sources[] = {"check", "write", "place"};
  const uint64_t all = exec->host.counter[KC_COUNT_EVENTS];
  const uint64_t count = all < KC_FORWARD_RING ? all : KC_FORWARD_RING;
  json_t *list = json_array();
  for (uint64_t i = 0; i < count && list != NULL; i++) {
    const struct kc_tag_event *e = &exec->host.ring[i];
    KC_ASSERT(e->source < sizeof sources / sizeof sources[0]);
    json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "step",
                                          (json_int_t)e->step, "slot", (json_int_t)e->slot,
                                          "entry", (json_int_t)e->index, "page",
                                          (json_int_t)e->page, "want", (json_int_t)e->want, "got",
                                          (json_int_t)e->got, "seen_by", sources[e->source]));
  }
  return list;
}

void kc_engine_faults_free(struct kc_engine_faults *faults)
{
  KC_ASSERT(faults != NULL);
  free(faults->token);
  free(faults->first);
  *faults = (struct kc_engine_faults){0};
}
