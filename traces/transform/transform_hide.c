/* Making a trace fit to be shown: what remains is shape, not identity.
 *
 *   prefix ids   7 7 9 12   -> permuted   3 3 0 5     equal stays equal, numbers say nothing
 *   kinds        gpt-x, y   -> permuted   kind-1, kind-2
 *
 * Sessions are numbers by first appearance already, and times start at 0 in every trace. Lengths
 * stay: they are what the trace is for. Set-up only: takes memory for one permutation. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/check.h"
#include "engine/base/random.h"
#include "traces/transform/transform.h"

/* A permutation of 0 .. count - 1 (Fisher and Yates); NULL when memory ran out. */
static uint32_t *new_permutation(uint32_t count, uint64_t seed, const char *stream)
{
  struct kc_random random;
  KC_ASSERT(count > 0);
  uint32_t *const number = malloc(count * sizeof *number);
  if (number == NULL) return NULL;
  kc_random_init(&random, seed, stream, 0);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t j = (uint32_t)kc_random_below(&random, (uint64_t)i + 1);
    number[i] = number[j];
    number[j] = i;
  }
  return number;
}

static bool renumber_blocks(struct kc_trace *trace, uint64_t seed)
{
  if (trace->block == NULL || trace->block_distinct == 0) return true;
  uint32_t *const number = new_permutation(trace->block_distinct, seed, "trace blocks");
  if (number == NULL) return false;
  for (uint64_t i = 0; i < trace->block_total; i++) {
    KC_ASSERT(trace->block[i] < trace->block_distinct);
    trace->block[i] = number[trace->block[i]];
  }
  free(number);
  return true;
}

static bool rename_kinds(struct kc_trace *trace, uint64_t seed, uint64_t change[KC_CHANGES])
{
  uint32_t *const kind = trace->column.kind;
  if (kind == NULL || trace->kind_count == 0) return true;
  uint32_t *const number = new_permutation(trace->kind_count, seed, "trace kinds");
  if (number == NULL) return false;
  for (uint64_t i = 0; i < trace->count; i++) {
    if (kind[i] != KC_TRACE_NONE) kind[i] = number[kind[i]];
  }
  free(number);
  for (uint32_t k = 0; k < trace->kind_count; k++) {
    const int length =
        snprintf(trace->kind_name[k], sizeof trace->kind_name[k], "kind-%u", k + 1);
    KC_ASSERT(length > 0);
  }
  change[KC_CHANGE_ANONYMISED] += trace->kind_count;
  return true;
}

enum kc_err kc_trace_anonymise(struct kc_trace *trace, uint64_t seed, uint64_t change[KC_CHANGES],
                               struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(trace->row[0].arrival_ps == 0);
  if (renumber_blocks(trace, seed) && rename_kinds(trace, seed, change)) return KC_OK;
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: anonymising a trace of %llu rows",
                 (unsigned long long)trace->count);
}
