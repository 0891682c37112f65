/* The rounds that each session has had so far; see session_past.h.
 *
 * The table belongs to the builder (its `memory`) and grows by doubling while a trace is read.
 * Rounds must rise within a session: a session id that starts again is two sessions under one name,
 * and taking the later for the earlier loses a session without a word (the documentation of
 * casys-kaist/LLMServingSim describes that for its own reader). */
#include "traces/readers/session_past.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

static enum kc_err fail_memory(struct kc_trace_builder *builder)
{
  return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: the sessions of a trace");
}

static enum kc_err reserve(struct kc_trace_builder *builder, struct kc_session_pasts *pasts,
                           uint32_t number)
{
  KC_ASSERT(number != KC_INTERN_FULL);
  if (number < pasts->capacity) return KC_OK;
  const size_t capacity = pasts->capacity == 0 ? 64 : (size_t)pasts->capacity * 2;
  struct kc_session_past *const larger =
      capacity > UINT32_MAX || KC_FAULT("trace_rounds_memory")
          ? NULL
          : realloc(pasts->past, capacity * sizeof *larger);
  if (larger == NULL) return fail_memory(builder);
  pasts->past = larger;
  pasts->capacity = (uint32_t)capacity;
  KC_ASSERT(number < pasts->capacity); /* numbers come one after another */
  return KC_OK;
}

enum kc_err kc_session_past_find(struct kc_trace_builder *builder, struct kc_session_past **past,
                                 bool *fresh)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, KC_ROLE_SESSION);
  if (cell == NULL || cell->bytes == 0) {
    return kc_trace_bad_cell(builder, KC_ROLE_SESSION, "expected the name or number of a session");
  }
  if (builder->memory == NULL) builder->memory = calloc(1, sizeof(struct kc_session_pasts));
  struct kc_session_pasts *const pasts = builder->memory;
  if (pasts == NULL) return fail_memory(builder);
  const uint32_t known = pasts->key.count;
  const uint32_t number = kc_intern_text_put(&pasts->key, cell->text, cell->bytes);
  if (number == KC_INTERN_FULL) return fail_memory(builder);
  KC_TRY(reserve(builder, pasts, number));
  *fresh = number >= known;
  *past = &pasts->past[number];
  if (*fresh) memset(*past, 0, sizeof **past);
  return KC_OK;
}

enum kc_err kc_session_past_round(struct kc_trace_builder *builder, struct kc_session_past *past,
                                  bool fresh, uint32_t round)
{
  if (!fresh && round <= past->round) {
    char complaint[160];
    const int length = snprintf(complaint, sizeof complaint,
                                "the session's round before is %u; expected rising rounds (is the "
                                "session id used twice, or are rows out of order?)",
                                past->round);
    KC_ASSERT(length > 0 && (size_t)length < sizeof complaint);
    return kc_trace_bad_cell(builder, KC_ROLE_TURN, complaint);
  }
  past->round = round;
  return KC_OK;
}

void kc_session_pasts_forget(struct kc_trace_builder *builder)
{
  struct kc_session_pasts *const pasts = builder->memory;
  KC_ASSERT(pasts != NULL);
  kc_intern_text_deinit(&pasts->key);
  free(pasts->past);
  free(pasts);
  builder->memory = NULL;
}
