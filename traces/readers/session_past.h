/* What a reader remembers of each session between rows: the round before, when it ended, how long
 * its prompt was. For formats that say a round at a time.
 *
 *   key "claude:92ee" -> 0 -> { round 4, ended 05:42:23.420, 41,589 tokens }
 *   key "codex:a611"  -> 1 -> { round 0, ... } */
#ifndef KC_TRACES_READERS_SESSION_PAST_H
#define KC_TRACES_READERS_SESSION_PAST_H

#include "traces/readers/trace_reader.h"

struct kc_session_past {
  uint32_t round;
  uint32_t input_tokens;
  struct kc_instant end; /* of the round, where the format says so */
  bool tools;            /* the round called tools, and their time is known */
  kc_ps tool_ps;         /* how long the next round waits for them */
};

struct kc_session_pasts {
  struct kc_intern_text key;
  struct kc_session_past *past; /* heap; by number of the key */
  uint32_t capacity;
};

/* The past of the session in the SESSION cell of the current row; *fresh says that it has none yet
 * (it is then zero). The table is builder->memory, made when it is not there. Borrowed until the
 * next call. Errors: KC_ERR_INPUT without a session; KC_ERR_MEMORY. Expected O(1). */
enum kc_err kc_session_past_find(struct kc_trace_builder *builder, struct kc_session_past **past,
                                 bool *fresh);

/* Checks that `round`, of the TURN cell, comes after the session's round before, and keeps it.
 * Errors: KC_ERR_INPUT. */
enum kc_err kc_session_past_round(struct kc_trace_builder *builder, struct kc_session_past *past,
                                  bool fresh, uint32_t round);

/* kc_trace_reader.forget of readers that use this table. */
void kc_session_pasts_forget(struct kc_trace_builder *builder);

#endif
