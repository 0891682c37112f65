/* Sessions: turns that carry their past, tool calls within a turn, system prompts that are shared.
 *
 *   prompt of step k   | system prompt | said so far: inputs and outputs | new |
 *   next prompt        | system prompt | said so far + new + output            | new |
 *   ids (whole blocks) | shared by all | the session's own, in order          |
 *
 * A step waits for the one before: for the tool, or for the user to think. Its recorded arrival is
 * nominal (predecessor + output x token time + wait); `after` and `wait_ps` say what really holds.
 * Compaction drops the past: the prompt is the system prompt, a summary and the new tokens, and the
 * session's own ids start afresh. Every session draws from a stream of its own number. */
#include <string.h>

#include "traces/synth/synth_build.h"

struct generator {
  const struct kc_synth_spec *spec;
  struct kc_synth_build *build;
  struct kc_diag *diag;
  uint64_t ids;          /* raw ids used; the system prompts' come first */
  uint32_t system_blocks;
  uint64_t sessions;
};

struct session {
  struct kc_random random;
  uint32_t number;
  uint32_t system_prompt;
  uint64_t context_tokens; /* of the next prompt, without its new tokens */
  uint64_t own_first;      /* ids of the current past */
  uint64_t own_blocks;     /* most that a prompt has shown of them */
  uint64_t last;           /* row, KC_SYNTH_NO_ROW at the start */
  kc_ps now_ps;            /* nominal */
  kc_ps wait_ps;
};

/* Prompt k of n with weight 1 / k: the rank of a uniform draw in the cumulative weights. */
static uint32_t pick_system_prompt(struct kc_random *random, uint32_t count)
{
  uint64_t total = 0, sum = 0;
  for (uint32_t k = 1; k <= count; k++) total += (UINT64_C(1) << 32) / k;
  const uint64_t draw = kc_random_below(random, total);
  for (uint32_t k = 1; k < count; k++) {
    sum += (UINT64_C(1) << 32) / k;
    if (draw < sum) return k - 1;
  }
  return count - 1;
}

/* Goes on with the chance that makes the mean of a geometric count `mean`, counting from 0. */
static bool goes_on(struct kc_random *random, uint64_t mean_nano)
{
  return kc_random_chance(random, mean_nano, mean_nano + (uint64_t)KC_NANO);
}

static kc_ps draw_wait(struct kc_random *random, kc_ps mean_ps)
{
  return mean_ps == 0 ? 0 : (kc_ps)kc_random_exponential(random, (uint64_t)mean_ps);
}

static void compact(struct generator *g, struct session *s)
{
  g->ids += s->own_blocks;
  s->own_first = g->ids;
  s->own_blocks = 0;
  s->context_tokens = (uint64_t)g->spec->session.system_tokens +
                      g->spec->session.context_tokens / 8;
}

static void set_ids(const struct generator *g, struct session *s, struct kc_synth_item *item)
{
  const uint32_t block_tokens = g->spec->session.block_tokens;
  if (block_tokens == 0) return;
  item->blocks = item->input_tokens / block_tokens;
  item->shared = g->system_blocks < item->blocks ? g->system_blocks : item->blocks;
  item->shared_first = (uint64_t)s->system_prompt * g->system_blocks;
  item->own_first = s->own_first;
  if (item->blocks - item->shared > s->own_blocks) s->own_blocks = item->blocks - item->shared;
}

/* One request. *ended: past the trace's end, or a context beyond any limit. */
static enum kc_err step(struct generator *g, struct session *s, bool *ended)
{
  const struct kc_session_spec *const spec = &g->spec->session;
  struct kc_synth_item item = {.after = s->last, .session = s->number, .wait_ps = s->wait_ps,
                               .arrival_ps = s->now_ps};
  uint32_t fresh;
  KC_ASSERT(s->last != KC_SYNTH_NO_ROW || s->wait_ps == 0);
  kc_lengths_draw(g->spec->lengths, &s->random, &fresh, &item.output_tokens);
  if (spec->context_tokens > 0 && s->last != KC_SYNTH_NO_ROW &&
      s->context_tokens + fresh > spec->context_tokens) {
    compact(g, s);
    item.flags = KC_ROW_COMPACTED;
  }
  const uint64_t prompt = s->context_tokens + fresh;
  *ended = prompt > KC_SYNTH_CONTEXT_MAX ||
           (g->spec->duration_ps > 0 && s->now_ps >= g->spec->duration_ps);
  if (*ended) return KC_OK;
  item.input_tokens = (uint32_t)prompt;
  set_ids(g, s, &item);
  KC_TRY(kc_synth_add(g->build, item, g->diag));
  s->last = g->build->count - 1;
  s->context_tokens = prompt + item.output_tokens;
  return KC_OK;
}

/* Moves the session's clock past the answer and the wait. False beyond the range of time. */
static bool pass_time(const struct generator *g, struct session *s, kc_ps wait_mean_ps)
{
  const struct kc_synth_item *const item = &g->build->item[s->last];
  const kc_u128 answer = (kc_u128)(uint64_t)g->spec->session.token_ps * item->output_tokens;
  s->wait_ps = draw_wait(&s->random, wait_mean_ps);
  const kc_u128 next = (kc_u128)(uint64_t)s->now_ps + answer + (uint64_t)s->wait_ps;
  if (next >= (kc_u128)KC_PS_NEVER) return false;
  s->now_ps = (kc_ps)next;
  return true;
}

static bool full(const struct generator *g)
{
  return g->spec->rows > 0 && g->build->count >= g->spec->rows;
}

/* All turns and tool calls of one session. */
static enum kc_err run_session(struct generator *g, kc_ps start_ps)
{
  const struct kc_session_spec *const spec = &g->spec->session;
  struct session s = {.number = (uint32_t)g->sessions, .last = KC_SYNTH_NO_ROW,
                      .now_ps = start_ps, .own_first = g->ids,
                      .context_tokens = spec->system_tokens};
  kc_random_init(&s.random, g->spec->seed, "synth session", g->sessions);
  s.system_prompt = pick_system_prompt(&s.random, spec->system_prompts);
  g->sessions++;
  for (bool ended = false; !full(g);) {
    KC_TRY(step(g, &s, &ended));
    if (ended) break;
    const bool tool = goes_on(&s.random, spec->tools_nano);
    if (!tool && !goes_on(&s.random, spec->turns_nano - (uint64_t)KC_NANO)) break;
    if (!pass_time(g, &s, tool ? spec->tool_ps : spec->think_ps)) break;
  }
  g->ids += s.own_blocks;
  return KC_OK;
}

static enum kc_err fill(struct generator *g, struct kc_arrivals *arrivals)
{
  kc_ps start_ps;
  while (!full(g) && kc_arrivals_next(arrivals, &start_ps)) KC_TRY(run_session(g, start_ps));
  return kc_arrivals_check(g->spec, g->build->count, g->diag);
}

enum kc_err kc_synth_sessions(struct kc_trace *trace, const struct kc_synth_spec *spec,
                              struct kc_diag *diag)
{
  const struct kc_session_spec *const session = &spec->session;
  struct kc_synth_build build = {0};
  struct kc_arrivals arrivals;
  struct generator g = {.spec = spec, .build = &build, .diag = diag};
  KC_ASSERT(spec->lengths != NULL);
  KC_ASSERT(session->turns_nano >= (uint64_t)KC_NANO && session->system_prompts > 0);
  memset(trace, 0, sizeof *trace);
  if (session->block_tokens > 0) g.system_blocks = session->system_tokens / session->block_tokens;
  g.ids = (uint64_t)g.system_blocks * session->system_prompts;
  enum kc_err err = kc_arrivals_init(&arrivals, spec, diag);
  if (err == KC_OK) err = fill(&g, &arrivals);
  const struct kc_synth_shape shape = {
    .sessions = true, .block_tokens = session->block_tokens,
    .ids = session->block_tokens > 0 ? g.ids + 1 : 0, .tail = KC_TAIL_FLOOR};
  if (err == KC_OK) err = kc_synth_finish(&build, &shape, trace, diag);
  kc_arrivals_free(&arrivals);
  kc_synth_build_free(&build);
  return err;
}
