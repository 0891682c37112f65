/* Sessions of coding agents with nested sub-agents (callanjfox/kv-cache-tester, traces/), one JSON
 * document a session.
 *
 *   {"id": "trace_0274", "block_size": 64, "hash_id_scope": "local", "requests": [
 *      {"t": 0.0, "type": "n", "model": "...", "in": 21059, "out": 109, "hash_ids": [1, 2, ...],
 *       "api_time": 18.99, "think_time": 0.0, "stop": "tool_use"},
 *      {"t": 160.959, "type": "subagent", "duration_ms": 141487, "requests": [{"t": 0.0, ...}]},
 *      {"t": 323.0, "type": "n", ..., "think_time": 304.0}, ...]}
 *
 *   parent  |api|                                        |api|     t from the session's start
 *   agent        |api| |api|    |api |  . marker                   its rows' t from its own start
 *                ^ marker - duration    ^ t of the marker
 *
 * A marker stands where its agent ended: in all of the corpus that we have seen, marker - duration
 * is within a second of the end of the request before it, and the request after it comes later than
 * the marker. The rows inside count from the agent's start in that corpus, and from the session's
 * start in copies of it (ai-dynamo/aiperf, weka-trace.md). Which one holds is decided for the whole
 * input by the first session with agents: their rows cannot be absolute where they are earlier than
 * the agent, nor relative where they are later than it lasted; failing that, first rows at 0 are
 * relative. A later session that cannot be read that way is refused.
 *
 * Closed loop: a request follows the one before it in its chain after think_time (end to start;
 * what is missing, or longer than the time since that request started, is derived from the times).
 * An agent's first request follows the parent's request before it; the parent's next request
 * follows the agent that ends last, unless that agent is still running then. Ids are the session's
 * own, agents share them, and the partial last block has none. */
#include <stdlib.h>
#include <string.h>

#include "traces/readers/trace_store.h"

#define NO_ROW UINT64_MAX /* no handle of kc_trace_emit */

enum {
  AGENT_DEPTH_MAX = 8,    /* agents inside agents */
  SLACK_S = 1             /* times are rounded to whole seconds, markers are not */
};

enum agent_times { TIMES_UNKNOWN, TIMES_RELATIVE, TIMES_ABSOLUTE };

/* What is known for the whole input; builder->memory. */
struct weka_memory {
  enum agent_times times;
};

struct weka_request {
  struct kc_json_value ids, model;
  const char *output_at;
  uint32_t input_tokens, output_tokens;
  kc_ps t, api_ps, think_ps;
  bool has_t, has_input, has_output, has_ids, has_model, has_api, has_think;
};

/* One line of requests, each waiting for the one before. */
struct weka_chain {
  uint64_t handle;       /* of the last request kept; NO_ROW = none yet */
  kc_ps start_ps;        /* when the last request started */
  kc_ps end_ps;          /* and ended, as far as is known */
  kc_ps carry_ps;        /* time of dropped requests since `handle` ended */
  uint32_t input_tokens; /* of the last request; 0 = none in this chain */
  bool kept;             /* a request of this chain itself was kept */
};

/* A list of requests being walked: the session's own, or an agent's. */
struct weka_frame {
  struct kc_json_cursor cursor;
  struct weka_chain chain;
  kc_ps shift_ps;      /* added to the t of its rows */
  uint64_t join;       /* last request of the agent that ended last since the last own request */
  kc_ps join_ps;       /* its end; meaningful when join is set */
};

static const struct kc_trace_column weka_columns[] = {
    {KC_ROLE_EXTRA_1, true, "requests", NULL},
    {KC_ROLE_EXTRA_2, true, "hash_id_scope", NULL},
    {KC_ROLE_EXTRA_3, true, "block_size", NULL},
    {KC_ROLE_SESSION, false, "id", NULL},
};

/* a + b, at most the longest time there is: a row that late is refused when it is stored. */
static kc_ps add_clamped(kc_ps a, kc_ps b)
{
  kc_ps sum;
  KC_ASSERT(a >= 0 && b >= 0);
  return __builtin_add_overflow(a, b, &sum) || sum == KC_PS_NEVER ? KC_PS_NEVER - 1 : sum;
}

static struct kc_instant instant_of(kc_ps ps)
{
  KC_ASSERT(ps >= 0);
  return (struct kc_instant){ps / KC_PS_PER_S, ps % KC_PS_PER_S};
}

/* A time or duration (seconds, unless an option says otherwise); null counts as absent. */
static enum kc_err take_seconds(struct kc_trace_builder *builder, const char *name,
                                const struct kc_json_value *value, kc_ps *out, bool *there)
{
  if (value->kind == KC_JSON_NULL) return KC_OK;
  *there = true;
  return kc_trace_value_wait(builder, name, value, builder->unit, out);
}

/* A member may be there once; the second would silently win. */
static enum kc_err check_once(struct kc_trace_builder *builder, const struct kc_json_value *key,
                              bool *seen)
{
  if (*seen) return kc_trace_bad_value(builder, "the key", key, "is there twice in a request");
  *seen = true;
  return KC_OK;
}

static enum kc_err take_member(struct kc_trace_builder *builder, const struct kc_json_value *key,
                               const struct kc_json_value *value, struct weka_request *request)
{
  if (kc_json_is(key, "t")) {
    KC_TRY(check_once(builder, key, &request->has_t));
    return kc_trace_value_wait(builder, "t", value, builder->unit, &request->t);
  }
  if (kc_json_is(key, "api_time")) {
    return take_seconds(builder, "api_time", value, &request->api_ps, &request->has_api);
  }
  if (kc_json_is(key, "think_time")) {
    return take_seconds(builder, "think_time", value, &request->think_ps, &request->has_think);
  }
  if (kc_json_is(key, "in")) {
    KC_TRY(check_once(builder, key, &request->has_input));
    return kc_trace_value_tokens(builder, "in", value, &request->input_tokens);
  }
  if (kc_json_is(key, "out")) {
    KC_TRY(check_once(builder, key, &request->has_output));
    request->output_at = value->text;
    return kc_trace_value_tokens(builder, "out", value, &request->output_tokens);
  }
  if (kc_json_is(key, "hash_ids")) {
    KC_TRY(check_once(builder, key, &request->has_ids));
    request->ids = *value;
    request->has_ids = value->kind != KC_JSON_NULL;
  } else if (kc_json_is(key, "model")) {
    request->model = *value;
    request->has_model = value->kind == KC_JSON_STRING;
  }
  return KC_OK;
}

static enum kc_err read_request(struct kc_trace_builder *builder, const struct kc_json_value *item,
                                struct weka_request *request)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  memset(request, 0, sizeof *request);
  kc_json_open(&cursor, item);
  while (kc_json_next_member(&cursor, &key, &value)) {
    KC_TRY(take_member(builder, &key, &value, request));
  }
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if (request->has_t && request->has_input && request->has_output) return KC_OK;
  return kc_trace_bad_place(builder, item->text,
                            !request->has_t       ? "a request without t, its start in seconds"
                            : !request->has_input ? "a request without in, its prompt's tokens"
                                                  : "a request without out, its output tokens");
}

/* A pause longer than the time since the last request even started counts from some other one: the
 * corpus has such behind requests without api_time. */
static bool pause_fits(const struct weka_chain *chain, kc_ps pause_ps, kc_ps start)
{
  const kc_ps since = start > chain->start_ps ? start - chain->start_ps : 0;
  KC_ASSERT(pause_ps >= 0);
  return pause_ps <= add_clamped(since, SLACK_S * KC_PS_PER_S);
}

/* What the request waits for, and how long; moves the chain on to it. `start` and what comes after
 * are from the session's start. */
static void link_request(struct weka_frame *frame, const struct weka_request *request, kc_ps start,
                         struct kc_trace_raw *raw)
{
  struct weka_chain *const chain = &frame->chain;
  const bool joined = frame->join != NO_ROW && frame->join_ps <= start;
  const bool first = chain->input_tokens == 0;
  kc_ps wait = start > chain->end_ps ? start - chain->end_ps : 0;
  if (request->has_think && !first && pause_fits(chain, request->think_ps, start)) {
    wait = request->think_ps;
  }
  wait = add_clamped(wait, chain->carry_ps);
  if (joined) {
    chain->handle = frame->join;
    wait = start - frame->join_ps;
  }
  if (chain->handle != NO_ROW) {
    raw->after = KC_AFTER_HANDLE;
    raw->after_handle = chain->handle;
    raw->wait_ps = wait;
  }
  if (!first && request->input_tokens < chain->input_tokens) raw->flags |= KC_ROW_COMPACTED;
  frame->join = NO_ROW;
}

static enum kc_err take_request(struct kc_trace_builder *builder, struct weka_frame *frame,
                                const struct kc_json_value *item, bool agent)
{
  struct weka_request request;
  struct kc_trace_raw raw = {0};
  struct weka_chain *const chain = &frame->chain;
  const uint64_t rows_before = builder->trace->count;
  uint64_t handle;
  KC_TRY(read_request(builder, item, &request));
  const kc_ps start = add_clamped(request.t, frame->shift_ps);
  link_request(frame, &request, start, &raw);
  raw.arrival = instant_of(start);
  raw.input_tokens = request.input_tokens;
  raw.output_tokens = request.output_tokens;
  raw.output_at = request.output_at;
  raw.session = (struct kc_trace_key){.kind = KC_KEY_NUMBER};
  raw.kind = request.has_model ? request.model.text : NULL;
  raw.kind_bytes = request.has_model ? request.model.bytes : 0;
  raw.flags |= (uint8_t)((agent ? KC_ROW_SUBAGENT : 0) |
                         (request.output_tokens == 0 ? KC_ROW_FAILED : 0));
  if (request.has_ids) KC_TRY(kc_trace_push_ids(builder, &request.ids));
  KC_TRY(kc_trace_emit(builder, &raw, &handle));
  chain->start_ps = start;
  chain->end_ps = add_clamped(start, request.api_ps);
  chain->input_tokens = request.input_tokens > 0 ? request.input_tokens : 1;
  if (builder->trace->count == rows_before) { /* a policy dropped it */
    chain->carry_ps = add_clamped(raw.wait_ps, request.api_ps);
    return KC_OK;
  }
  chain->handle = handle;
  chain->carry_ps = 0;
  chain->kept = true;
  return KC_OK;
}

/* The marker of an agent. */
struct weka_agent {
  struct kc_json_value requests;
  kc_ps t, duration_ps;
  bool has_t, has_duration, has_requests;
};

static enum kc_err read_agent(struct kc_trace_builder *builder, const struct kc_json_value *item,
                              struct weka_agent *agent)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  memset(agent, 0, sizeof *agent);
  kc_json_open(&cursor, item);
  while (kc_json_next_member(&cursor, &key, &value)) {
    if (kc_json_is(&key, "t")) {
      KC_TRY(take_seconds(builder, "t", &value, &agent->t, &agent->has_t));
    } else if (kc_json_is(&key, "duration_ms") && value.kind != KC_JSON_NULL) {
      agent->has_duration = true;
      KC_TRY(kc_trace_value_wait(builder, "duration_ms", &value, KC_UNIT_MS, &agent->duration_ps));
    } else if (kc_json_is(&key, "requests")) {
      agent->has_requests = value.kind == KC_JSON_ARRAY;
      agent->requests = value;
    }
  }
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if (agent->has_t && agent->has_requests) return KC_OK;
  return kc_trace_bad_place(builder, item->text,
                            agent->has_t ? "a sub-agent without requests, an array"
                                         : "a sub-agent without t, its time in seconds");
}

static bool is_agent(const struct kc_json_value *item)
{
  struct kc_json_value type;
  return kc_json_find(item, "type", &type) && kc_json_is(&type, "subagent");
}

/* Start times of an agent's first and last own request; false when it has none. */
static enum kc_err agent_span(struct kc_trace_builder *builder, const struct weka_agent *agent,
                              kc_ps *first, kc_ps *last, bool *any)
{
  struct kc_json_cursor cursor;
  struct kc_json_value item, t;
  *any = false;
  kc_json_open(&cursor, &agent->requests);
  while (kc_json_next_item(&cursor, &item)) {
    bool there = false;
    if (item.kind != KC_JSON_OBJECT || is_agent(&item) || !kc_json_find(&item, "t", &t)) continue;
    KC_TRY(take_seconds(builder, "t", &t, last, &there));
    if (!*any) *first = *last;
    *any |= there;
  }
  return kc_trace_check_cursor(builder, &cursor);
}

/* What the agents of a session say of their times; below 0 relative, above 0 absolute. */
struct agent_votes {
  int64_t certain; /* the other reading is impossible */
  int64_t likely;
};

static enum kc_err count_agent(struct kc_trace_builder *builder, const struct kc_json_value *item,
                               struct agent_votes *votes)
{
  struct weka_agent agent;
  const kc_ps slack = SLACK_S * KC_PS_PER_S;
  kc_ps first = 0, last = 0;
  bool any;
  KC_TRY(read_agent(builder, item, &agent));
  KC_TRY(agent_span(builder, &agent, &first, &last, &any));
  if (!any || !agent.has_duration) return KC_OK;
  const kc_ps start = agent.t - agent.duration_ps;
  if (first < start - slack) {
    votes->certain--; /* earlier than the agent itself */
  } else if (last > add_clamped(agent.duration_ps, slack)) {
    votes->certain++; /* later than it lasted */
  } else if (start > slack) {
    votes->likely += first > 0 ? 1 : -1;
  }
  return KC_OK;
}

static enum kc_err fail_mixed(struct kc_trace_builder *builder, const char *at,
                              enum agent_times times)
{
  return kc_trace_bad_place(builder, at,
                            times == TIMES_ABSOLUTE
                                ? "the times of sub-agents count from the session's start here, "
                                  "from the agent's start in an earlier session; expected all "
                                  "sessions alike"
                                : "the times of sub-agents count from the agent's start here, from "
                                  "the session's start in an earlier session; expected all "
                                  "sessions alike");
}

/* Decides how this session's agents tell their times, and holds the input to it. */
static enum kc_err decide_times(struct kc_trace_builder *builder,
                                const struct kc_json_value *requests, enum agent_times *times)
{
  struct weka_memory *const memory = builder->memory;
  struct kc_json_cursor cursor;
  struct kc_json_value item;
  struct agent_votes votes = {0, 0};
  *times = memory->times;
  if (memmem(requests->text, requests->bytes, "\"subagent\"", 10) == NULL) return KC_OK;
  kc_json_open(&cursor, requests);
  while (kc_json_next_item(&cursor, &item)) {
    if (item.kind != KC_JSON_OBJECT || !is_agent(&item)) continue;
    KC_TRY(count_agent(builder, &item, &votes));
  }
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if (votes.certain == 0 && memory->times != TIMES_UNKNOWN) return KC_OK;
  const int64_t balance = votes.certain != 0 ? votes.certain : votes.likely;
  *times = balance > 0 ? TIMES_ABSOLUTE : TIMES_RELATIVE;
  if (memory->times != TIMES_UNKNOWN && memory->times != *times) {
    return fail_mixed(builder, requests->text, *times);
  }
  memory->times = *times;
  return KC_OK;
}

/* Opens the list of an agent that `parent` started. */
static enum kc_err enter_agent(struct kc_trace_builder *builder, const struct weka_frame *parent,
                               struct weka_frame *frame, const struct kc_json_value *item,
                               enum agent_times times)
{
  struct weka_agent agent;
  KC_TRY(read_agent(builder, item, &agent));
  memset(frame, 0, sizeof *frame);
  kc_json_open(&frame->cursor, &agent.requests);
  frame->chain = parent->chain;
  frame->chain.input_tokens = 0;
  frame->chain.kept = false;
  frame->join = NO_ROW;
  if (times == TIMES_ABSOLUTE) return KC_OK;
  const kc_ps marker = add_clamped(agent.t, parent->shift_ps);
  frame->shift_ps = parent->chain.end_ps; /* without a duration: when the request before it ended */
  if (agent.has_duration) {
    frame->shift_ps = marker > agent.duration_ps ? marker - agent.duration_ps : 0;
  }
  return KC_OK;
}

/* The agent's list has ended: its parent may go on after it. */
static void leave_agent(struct weka_frame *parent, const struct weka_frame *frame)
{
  const struct weka_chain *const chain = &frame->chain;
  if (!chain->kept) return;
  if (parent->join != NO_ROW && parent->join_ps >= chain->end_ps) return;
  parent->join = chain->handle;
  parent->join_ps = chain->end_ps;
}

static enum kc_err walk_session(struct kc_trace_builder *builder,
                                const struct kc_json_value *requests, enum agent_times times)
{
  struct weka_frame stack[AGENT_DEPTH_MAX + 1];
  struct kc_json_value item;
  size_t depth = 0;
  memset(&stack[0], 0, sizeof stack[0]);
  stack[0].chain.handle = stack[0].join = NO_ROW;
  kc_json_open(&stack[0].cursor, requests);
  for (;;) {
    struct weka_frame *const frame = &stack[depth];
    if (!kc_json_next_item(&frame->cursor, &item)) {
      KC_TRY(kc_trace_check_cursor(builder, &frame->cursor));
      if (depth == 0) return KC_OK;
      depth--;
      leave_agent(&stack[depth], frame);
    } else if (item.kind != KC_JSON_OBJECT) {
      return kc_trace_bad_value(builder, "requests", &item, "expected objects, one a request");
    } else if (!is_agent(&item)) {
      KC_TRY(take_request(builder, frame, &item, depth > 0));
    } else if (depth == AGENT_DEPTH_MAX) {
      return kc_trace_bad_place(builder, item.text, "sub-agents are nested more than 8 deep");
    } else {
      depth++;
      KC_TRY(enter_agent(builder, frame, &stack[depth], &item, times));
    }
  }
}

static enum kc_err read_blocks(struct kc_trace_builder *builder, const struct kc_json_value *object)
{
  struct kc_json_value scope, size;
  uint32_t block_tokens;
  if (!kc_json_find(object, "hash_id_scope", &scope) || !kc_json_is(&scope, "local")) {
    return kc_trace_bad_value(builder, "hash_id_scope", &scope,
                              "expected \"local\": ids that count within one session");
  }
  if (!kc_json_find(object, "block_size", &size)) {
    return kc_trace_bad_place(builder, object->text, "a session without block_size");
  }
  KC_TRY(kc_trace_value_tokens(builder, "block_size", &size, &block_tokens));
  if (block_tokens == 0) {
    return kc_trace_bad_value(builder, "block_size", &size, "expected 1 token or more");
  }
  return kc_trace_set_blocks(builder, block_tokens, KC_TAIL_FLOOR);
}

static enum kc_err weka_parse_object(struct kc_trace_builder *builder,
                                     const struct kc_json_value *object)
{
  struct kc_json_value requests;
  enum agent_times times;
  if (builder->memory == NULL && !KC_FAULT("trace_weka_memory")) {
    builder->memory = calloc(1, sizeof(struct weka_memory));
  }
  if (builder->memory == NULL) {
    return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: reading a trace");
  }
  KC_TRY(read_blocks(builder, object));
  kc_intern_end_scope(&builder->store->id); /* several sessions may follow one another in a file */
  kc_intern_end_scope(&builder->store->session_number);
  if (!kc_json_find(object, "requests", &requests) || requests.kind != KC_JSON_ARRAY) {
    return kc_trace_bad_place(builder, object->text, "a session without requests, an array");
  }
  KC_TRY(decide_times(builder, &requests, &times));
  return walk_session(builder, &requests, times);
}

static void weka_forget(struct kc_trace_builder *builder)
{
  free(builder->memory);
  builder->memory = NULL;
}

const struct kc_trace_reader kc_reader_weka = {
    .name = "weka",
    .sample = "{\"id\": \"trace_0001\", \"block_size\": 64, \"hash_id_scope\": \"local\", "
              "\"requests\": [...]}",
    .framing = KC_FRAMING_DOCUMENT,
    .column = weka_columns,
    .column_count = sizeof weka_columns / sizeof weka_columns[0],
    .prefix_ids = true,
    .local_ids = true,
    .local_sessions = true,
    .unit = KC_UNIT_S,
    .block_tokens = 64,
    .tail = KC_TAIL_FLOOR,
    .parse_object = weka_parse_object,
    .forget = weka_forget,
};
