/* Making traces: requests one by one, sessions and agents, look-alikes of a trace, client pools.
 *
 *   spec + seed --> arrivals --+--> requests   (synth_rows.c)
 *                   lengths  --+--> sessions   (synth_sessions.c)
 *   a trace + seed -----------------> like     (synth_like.c)
 *   a folder of clients + seed -----> pool     (servegen.h)
 *
 * Everything is integers and streams of engine/base/random.h: equal arguments give equal bytes on
 * every machine and with every compiler. Results are ordinary traces (traces/trace.h) of the format
 * "synth", for kc_trace_free. */
#ifndef KC_TRACES_SYNTH_SYNTH_H
#define KC_TRACES_SYNTH_SYNTH_H

#include "traces/synth/synth_lengths.h"
#include "traces/synth/synth_rate.h"
#include "traces/synth/synth_variates.h"
#include "traces/trace.h"

#define KC_SYNTH_ROWS_MAX UINT64_C(100000000)
enum { KC_SYNTH_CONTEXT_MAX = 100000000 }; /* tokens of a session */

/* Conversations: the prompt is the system prompt, everything said so far, and the new tokens. */
struct kc_session_spec {
  uint64_t turns_nano;      /* mean turns (geometric, at least 1); >= 10^9 */
  uint64_t tools_nano;      /* mean tool calls within a turn (geometric, from 0) */
  kc_ps think_ps;           /* mean time from an answer to the next turn (exponential) */
  kc_ps tool_ps;            /* mean time of a tool call (exponential) */
  uint32_t system_tokens;   /* shared by all sessions with the same system prompt */
  uint32_t system_prompts;  /* how many there are, >= 1; the k-th is used in proportion to 1 / k */
  uint32_t block_tokens;    /* of a prefix id, whole blocks only (tail rule "floor"); 0 = no ids */
  uint32_t context_tokens;  /* a longer prompt is compacted to the system prompt, an eighth of this,
                               and the new tokens; 0 = never */
  kc_ps token_ps;           /* nominal time of an output token: only places the recorded arrivals of
                               rows that wait for others */
};

struct kc_synth_spec {
  uint64_t seed;
  uint64_t rows;            /* at most so many; 0 = as many as arrive within duration_ps */
  kc_ps duration_ps;        /* nothing arrives at or after it; 0 = until there are `rows` */
  enum kc_gap_family family;
  uint64_t shape_nano;      /* gamma, Weibull */
  struct kc_rate_spec rate; /* requests, or starts of sessions */
  const struct kc_lengths *lengths; /* borrowed; new tokens of a step, for sessions */
  struct kc_session_spec session;
};

/* Independent requests: no sessions, no prefix ids. Errors: KC_ERR_LIMIT above KC_SYNTH_ROWS_MAX
 * rows, or when fewer than `rows` arrive within 106 days; KC_ERR_INPUT when nothing arrives;
 * KC_ERR_MEMORY. O(rows log rows). After an error the trace is empty. */
enum kc_err kc_synth_rows(struct kc_trace *trace, const struct kc_synth_spec *spec,
                          struct kc_diag *diag);

/* Sessions in closed loop: session, after and wait columns, prefix ids when asked. Requests of a
 * session beyond the duration are left out. The same errors. */
enum kc_err kc_synth_sessions(struct kc_trace *trace, const struct kc_synth_spec *spec,
                              struct kc_diag *diag);

/* A trace that looks like `source`: gaps between arrivals, both lengths and how they go together,
 * and reuse of prefixes where the source has ids. `rows` 0 = as many as the source. Sessions, kinds
 * and flags of the source are not modelled: rows are taken as they arrived. Errors as above;
 * KC_ERR_INPUT for a source of fewer than two rows. O(rows log rows). */
enum kc_err kc_synth_like(struct kc_trace *trace, const struct kc_trace *source, uint64_t seed,
                          uint64_t rows, struct kc_diag *diag);

#endif
