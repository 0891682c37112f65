/* Replays a request table through one instance in virtual time (see replay.h).
 *
 *   event queue:  ARRIVAL     the next request of the table (one at a time: the table is a stream)
 *                 COMPLETION  the step under way ends
 *                 STEP        the instance is ready to run
 *                 CANCEL, QUEUE_TIMEOUT, TIMEOUT   a request's patience ends; up to three for each
 *                             request offered, which do nothing when it has ended by then
 *
 * The instance runs ahead on its own while nothing else is due up to the end of the step under way.
 * So the queue is touched a few times per arrival, not once per step.
 *
 * Closed loop: an outcome makes the client offer its next request at that very instant; the request
 * is written to the table and scheduled from inside the step that ended the former one.
 *
 * Sessions: every row whose time is known has an arrival in the queue (session.h); the row is
 * written to the table when its arrival comes, so the table is in the order of time.
 */
#include "sim/replay/replay.h"

#include "sim/events/events.h"
#include "sim/replay/session.h"

enum { EVENT_ARRIVAL = 1, EVENT_STEP = 2, EVENT_COMPLETION = 3, EVENT_CANCEL = 4,
       EVENT_QUEUE_TIMEOUT = 5, EVENT_TIMEOUT = 6, QUEUE_CAPACITY = 8, DEADLINES = 3,
       POLL_EVERY = 4096 };

struct replay {
  const struct kc_replay_config *config;
  struct kc_metrics *metrics;
  struct kc_observer books;      /* the metrics' own observer */
  struct kc_instance instance;
  struct kc_event_queue *queue;
  uint32_t offered;              /* requests whose arrival is known: [0, offered) are final */
  uint32_t delivered;            /* requests handed to the instance */
  uint32_t wave_open;            /* closed, wave: requests of this wave that have not ended */
  bool arrival_scheduled;
  bool step_scheduled;
  bool has_sessions;
  struct kc_sessions sessions;   /* with has_sessions */
  uint64_t polls;
};

/* ---- closed loop ---- */

static void offer(struct replay *replay, kc_ps now_ps)
{
  const struct kc_closed_config *closed = &replay->config->closed_config;
  KC_ASSERT(replay->offered < replay->config->request_count);
  KC_ASSERT(now_ps >= 0);
  struct kc_request *request = &replay->config->requests[replay->offered++];
  request->arrival_ps = now_ps;
  request->input_tokens = closed->input_tokens;
  request->output_tokens = closed->output_tokens;
  request->max_tokens = closed->output_tokens;
}

static uint32_t offers_left(const struct replay *replay)
{
  KC_ASSERT(replay->offered <= replay->config->request_count);
  return replay->config->request_count - replay->offered;
}

static void offer_many(struct replay *replay, uint32_t count, kc_ps now_ps)
{
  const uint32_t left = offers_left(replay);
  if (count > left) count = left;
  for (uint32_t i = 0; i < count; i++) offer(replay, now_ps);
  replay->wave_open += count;
}

static void client_reacts(struct replay *replay, kc_ps now_ps)
{
  const struct kc_closed_config *closed = &replay->config->closed_config;
  KC_ASSERT(replay->wave_open > 0);
  replay->wave_open--;
  if (closed->mode == KC_CLOSED_STEADY) {
    offer_many(replay, 1, now_ps);
  } else if (replay->wave_open == 0) {
    offer_many(replay, closed->concurrency, now_ps);
  }
}

/* ---- observer: the metrics', and the client of a closed loop ---- */

static void on_step(void *context, const struct kc_step_report *report)
{
  struct replay *replay = context;
  replay->books.on_step(replay->books.context, report);
}

static void on_gap(void *context, kc_ps gap_ps)
{
  struct replay *replay = context;
  replay->books.on_gap(replay->books.context, gap_ps);
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct replay *replay = context;
  replay->books.on_end(replay->books.context, outcome);
  if (replay->config->closed) client_reacts(replay, outcome->end_ps);
  if (replay->has_sessions) {
    kc_sessions_ended(&replay->sessions, outcome->request, outcome->end_ps);
  }
}

/* ---- events ---- */

/* Keeps exactly one arrival in the queue while any is known. Sessions keep their own, and every row
 * of theirs in the table is delivered at once. */
static enum kc_err schedule_arrival(struct replay *replay)
{
  if (replay->arrival_scheduled || replay->delivered == replay->offered) return KC_OK;
  const struct kc_request *next = &replay->config->requests[replay->delivered];
  replay->arrival_scheduled = true;
  return kc_events_push(replay->queue, next->arrival_ps, KC_BAND_ARRIVAL, EVENT_ARRIVAL,
                        replay->delivered);
}

static enum kc_err schedule_step(struct replay *replay)
{
  if (replay->step_scheduled || replay->instance.in_step) return KC_OK;
  if (!kc_instance_busy(&replay->instance)) return KC_OK;
  replay->step_scheduled = true;
  return kc_events_push(replay->queue, replay->instance.clock_ps, KC_BAND_STEP, EVENT_STEP, 0);
}

/* Sessions: the row that is due is written behind the others of the table. */
static enum kc_err offer_row(struct replay *replay, kc_ps now_ps, struct kc_diag *diag)
{
  uint32_t row;
  KC_ASSERT(replay->has_sessions);
  KC_ASSERT(replay->offered == replay->delivered);
  KC_TRY(kc_sessions_offer(&replay->sessions, now_ps, &row, diag));
  struct kc_request *request = &replay->config->requests[replay->offered++];
  *request = replay->config->session.row[row];
  request->arrival_ps = now_ps;
  return KC_OK;
}

/* ---- patience ---- */

static enum kc_err push_deadline(struct replay *replay, kc_ps now_ps, kc_ps after_ps,
                                 uint32_t kind, uint32_t request)
{
  KC_ASSERT(now_ps >= 0 && after_ps >= 0);
  if (after_ps == KC_PS_NEVER || after_ps >= KC_PS_NEVER - now_ps) return KC_OK;
  return kc_events_push(replay->queue, now_ps + after_ps, KC_BAND_DEADLINE, kind, request);
}

/* The request at this position of the table has just been offered. */
static enum kc_err schedule_deadlines(struct replay *replay, uint32_t request, kc_ps now_ps)
{
  const struct kc_replay_config *config = replay->config;
  const uint32_t row = replay->has_sessions ? replay->sessions.row_of[request] : request;
  KC_ASSERT(row < config->request_count);
  if (config->cancel_after_ps != NULL) {
    KC_TRY(push_deadline(replay, now_ps, config->cancel_after_ps[row], EVENT_CANCEL, request));
  }
  if (config->patience == NULL) return KC_OK;
  const struct kc_patience *patience = &config->patience[config->requests[request].class_index];
  KC_TRY(push_deadline(replay, now_ps, patience->queue_timeout_ps, EVENT_QUEUE_TIMEOUT, request));
  return push_deadline(replay, now_ps, patience->timeout_ps, EVENT_TIMEOUT, request);
}

static void handle_deadline(struct replay *replay, const struct kc_event *event)
{
  struct kc_instance *instance = &replay->instance;
  const bool cancels = event->kind == EVENT_CANCEL;
  KC_ASSERT(event->subject < replay->delivered);
  if (event->kind == EVENT_QUEUE_TIMEOUT && !kc_instance_waits(instance, event->subject)) return;
  (void)kc_instance_cancel(instance, event->subject, event->time_ps,
                           cancels ? KC_STATUS_CANCELLED : KC_STATUS_TIMED_OUT);
}

static bool has_deadlines(const struct kc_replay_config *config)
{
  return config->patience != NULL || config->cancel_after_ps != NULL;
}

static enum kc_err handle_arrival(struct replay *replay, const struct kc_event *event,
                                  struct kc_diag *diag)
{
  if (replay->has_sessions) KC_TRY(offer_row(replay, event->time_ps, diag));
  KC_ASSERT(replay->has_sessions || event->subject == replay->delivered);
  KC_ASSERT(replay->delivered < replay->offered);
  replay->arrival_scheduled = false;
  const uint32_t request = replay->delivered++;
  kc_metrics_arrival(replay->metrics, request);
  kc_instance_arrive(&replay->instance);
  if (!has_deadlines(replay->config)) return KC_OK;
  return schedule_deadlines(replay, request, event->time_ps);
}

static bool interrupted(const struct kc_replay_config *config)
{
  return config->interrupted != NULL && config->interrupted(config->interrupted_context);
}

/* What the recorder answered to the outcomes so far. */
static enum kc_err recorder_failure(const struct replay *replay, struct kc_diag *diag)
{
  if (replay->metrics->failure == KC_OK) return KC_OK;
  if (diag != NULL) *diag = replay->metrics->failure_diag;
  return replay->metrics->failure;
}

static enum kc_err end_step(struct replay *replay, struct kc_diag *diag)
{
  kc_instance_end_step(&replay->instance);
  KC_TRY(schedule_arrival(replay)); /* a closed loop may have offered something */
  KC_TRY(recorder_failure(replay, diag));
  return KC_OK;
}

/* Counts everything that a run spends time on, steps, arrivals and refusals, so that a run can be
 * stopped whatever it is busy with. */
static enum kc_err poll(struct replay *replay, struct kc_diag *diag)
{
  if (++replay->polls % POLL_EVERY != 0 || !interrupted(replay->config)) return KC_OK;
  return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted; nothing of this run was kept");
}

static enum kc_err handle_step(struct replay *replay, struct kc_diag *diag)
{
  struct kc_instance *instance = &replay->instance;
  KC_ASSERT(replay->step_scheduled);
  replay->step_scheduled = false;
  if (!kc_instance_busy(instance)) return KC_OK; /* a deadline of this instant ended the last one */
  do {
    KC_ASSERT(kc_instance_busy(instance));
    KC_TRY(poll(replay, diag));
    KC_TRY(kc_instance_begin_step(instance, diag));
    KC_TRY(schedule_arrival(replay)); /* so may a refusal */
    if (!instance->in_step) continue;
    const kc_ps end_ps = instance->report.end_ps;
    if (kc_events_next_ps(replay->queue) <= end_ps) {
      return kc_events_push(replay->queue, end_ps, KC_BAND_COMPLETION, EVENT_COMPLETION, 0);
    }
    KC_TRY(end_step(replay, diag));
  } while (kc_instance_busy(instance) && instance->clock_ps < kc_events_next_ps(replay->queue));
  return KC_OK;
}

static enum kc_err run_events(struct replay *replay, struct kc_diag *diag)
{
  struct kc_event event;
  KC_TRY(schedule_arrival(replay));
  while (kc_events_pop(replay->queue, &event)) {
    KC_TRY(poll(replay, diag));
    if (event.kind == EVENT_ARRIVAL) {
      KC_TRY(handle_arrival(replay, &event, diag));
    } else if (event.kind == EVENT_COMPLETION) {
      KC_TRY(end_step(replay, diag));
    } else if (event.kind == EVENT_STEP) {
      KC_TRY(handle_step(replay, diag));
    } else {
      handle_deadline(replay, &event);
    }
    KC_TRY(recorder_failure(replay, diag)); /* a request may be refused when it arrives */
    KC_TRY(schedule_arrival(replay));
    KC_TRY(schedule_step(replay));
  }
  KC_ASSERT(replay->delivered == replay->config->request_count);
  KC_ASSERT(!kc_instance_busy(&replay->instance));
  /* Steps report what they evicted; a forming that ran nothing has no step to report it. */
  replay->metrics->total.pages_evicted = replay->instance.cache.counts.pages_evicted;
  return kc_instance_finish(&replay->instance, diag);
}

/* ---- set-up ---- */

/* Sessions may have an arrival in the queue for every row, and clients with patience its ends. */
static uint32_t queue_capacity(const struct kc_replay_config *config)
{
  uint64_t each = config->session.row != NULL;
  if (has_deadlines(config)) each += DEADLINES;
  const uint64_t capacity = QUEUE_CAPACITY + each * config->request_count;
  KC_ASSERT(config->request_count > 0);
  KC_ASSERT(capacity < UINT32_MAX); /* 10^8 requests at most */
  return (uint32_t)capacity;
}

/* The instance as it is run: what follows from the rest of the configuration is filled in. */
static struct kc_instance_config instance_config(const struct kc_replay_config *config)
{
  struct kc_instance_config instance = config->instance;
  instance.demand_is_final = config->closed;
  KC_ASSERT(config->request_count > 0);
  KC_ASSERT(instance.policy != NULL);
  instance.requests_max = config->request_count;
  return instance;
}

size_t kc_replay_need(const struct kc_replay_config *config)
{
  const uint32_t count = config->request_count;
  const struct kc_instance_config instance = instance_config(config);
  const size_t needs[] = {kc_instance_need(&instance), kc_metrics_need(count),
                          kc_events_need(KC_QUEUE_BINARY, queue_capacity(config)),
                          config->session.row != NULL ? kc_sessions_need(count) : 0,
                          config->keep_groups ? kc_groups_need(&config->groups, count) : 0};
  size_t total = 0;
  KC_ASSERT(config->request_count > 0);
  for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  KC_ASSERT(total > 0);
  return total;
}

static enum kc_err set_up(struct replay *replay, struct kc_arena *arena, struct kc_diag *diag)
{
  const struct kc_replay_config *config = replay->config;
  const struct kc_observer observer = {
      .context = replay, .on_step = on_step, .on_gap = on_gap, .on_end = on_end};
  const struct kc_instance_config instance = instance_config(config);
  replay->queue = kc_events_create(KC_QUEUE_BINARY, queue_capacity(config), arena);
  if (replay->queue == NULL ||
      kc_metrics_init(replay->metrics, config->requests, config->request_count,
                      instance.sched.max_model_len, &config->recorder, arena) != KC_OK) {
    return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
  }
  replay->books = kc_metrics_observer(replay->metrics);
  replay->metrics->limits = config->limits;
  if (config->keep_groups &&
      kc_groups_init(&replay->metrics->groups, &config->groups, config->requests,
                     config->request_count, arena) != KC_OK) {
    return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
  }
  if (replay->has_sessions) {
    KC_TRY(kc_sessions_init(&replay->sessions, &config->session, config->request_count,
                            replay->queue, EVENT_ARRIVAL, arena, diag));
    replay->metrics->row_of = replay->sessions.row_of;
  }
  return kc_instance_init(&replay->instance, &instance, config->requests, &config->executor,
                          &observer, arena, diag);
}

/* What is offered before anything happens. */
static void offer_first(struct replay *replay)
{
  const struct kc_replay_config *config = replay->config;
  if (config->closed) {
    const bool wave = config->closed_config.mode == KC_CLOSED_WAVE;
    KC_ASSERT(config->closed_config.concurrency > 0);
    offer_many(replay, config->closed_config.concurrency, 0);
    KC_ASSERT(!wave || replay->wave_open > 0);
  } else if (!replay->has_sessions) {
    replay->offered = config->request_count;
  }
}

enum kc_err kc_replay_run(const struct kc_replay_config *config, struct kc_metrics *metrics,
                          struct kc_arena *arena, struct kc_replay_result *result,
                          struct kc_diag *diag)
{
  struct replay replay = {
      .config = config, .metrics = metrics, .has_sessions = config->session.row != NULL};
  KC_ASSERT(config->request_count > 0);
  KC_ASSERT(config->executor.run != NULL);
  KC_ASSERT(!config->closed || !replay.has_sessions);
  KC_TRY(set_up(&replay, arena, diag));
  offer_first(&replay);
  KC_TRY(run_events(&replay, diag));
  const uint32_t oom_request = replay.instance.oom_request;
  const bool renamed = replay.has_sessions && replay.instance.oom_ps != KC_PS_NEVER;
  *result = (struct kc_replay_result){.oom_ps = replay.instance.oom_ps,
                                      .oom_request = renamed ? replay.sessions.row_of[oom_request]
                                                             : oom_request,
                                      .oom_demand_pages = replay.instance.oom_demand_pages,
                                      .pages = config->instance.pages,
                                      .injector = replay.instance.injector};
  kc_metrics_finish(metrics, &result->summary);
  return KC_OK;
}
