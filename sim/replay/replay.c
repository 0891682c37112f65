/* Replays a request table through one or more instances in virtual time (see replay.h).
 *
 *   event queue:  ARRIVAL     the next request of the table (one at a time: the table is a stream)
 *                 COMPLETION  the step under way of an instance ends
 *                 STEP        an instance is ready to run
 *                 CANCEL, QUEUE_TIMEOUT, TIMEOUT   a request's patience ends; up to three for each
 *                             request offered, which do nothing when it has ended by then
 *
 * An instance runs ahead on its own while nothing else is due up to the end of the step under way.
 * So with one instance the queue is touched a few times per arrival, not once per step; with
 * several at work, each step has its events.
 *
 * Closed loop: an outcome makes the client offer its next request at that very instant; the request
 * is written to the table and scheduled from inside the step that ended the former one.
 *
 * Sessions: every row whose time is known has an arrival in the queue (session.h); the row is
 * written to the table when its arrival comes, so the table is in the order of time.
 */
#include "sim/replay/replay.h"

#include "sim/events/events.h"
#include "sim/replay/replica.h"
#include "sim/replay/session.h"

enum { EVENT_ARRIVAL = 1, EVENT_STEP = 2, EVENT_COMPLETION = 3, EVENT_CANCEL = 4,
       EVENT_QUEUE_TIMEOUT = 5, EVENT_TIMEOUT = 6, QUEUE_CAPACITY = 8, DEADLINES = 3,
       POLL_EVERY = 4096 };

/* Where the router put a request. */
struct seat {
  uint32_t replica, place;
};

struct replay {
  const struct kc_replay_config *config;
  struct kc_metrics *metrics;
  struct kc_observer books;      /* the metrics' own observer */
  uint32_t replicas;             /* >= 1 */
  struct kc_replica *replica;    /* [replicas] */
  struct kc_router router;       /* of several */
  struct kc_levels levels;       /* what several hold together */
  struct seat *seat;             /* [request_count] by position, of several */
  struct kc_event_queue *queue;
  uint32_t offered;              /* requests whose arrival is known: [0, offered) are final */
  uint32_t delivered;            /* requests handed to an instance */
  uint32_t wave_open;            /* closed, wave: requests of this wave that have not ended */
  bool arrival_scheduled;
  bool has_sessions;
  struct kc_sessions sessions;   /* with has_sessions */
  uint32_t poll_in;              /* so many polls more, and `interrupted` is asked */
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

/* ---- observers: the metrics', and the client of a closed loop ---- */

static void on_step(void *context, const struct kc_step_report *report)
{
  const struct replay *replay = ((struct kc_replica *)context)->owner;
  replay->books.on_step(replay->books.context, report);
}

static void on_gap(void *context, kc_ps gap_ps)
{
  const struct replay *replay = ((struct kc_replica *)context)->owner;
  replay->books.on_gap(replay->books.context, gap_ps);
}

/* A request, named by its position, has ended. */
static void book_end(struct replay *replay, const struct kc_outcome *outcome)
{
  replay->books.on_end(replay->books.context, outcome);
  if (replay->config->closed) client_reacts(replay, outcome->end_ps);
  if (replay->has_sessions) {
    kc_sessions_ended(&replay->sessions, outcome->request, outcome->end_ps);
  }
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct kc_replica *replica = context;
  KC_ASSERT(replica->position == NULL);
  book_end(replica->owner, outcome);
}

/* The same of one of several. */

static void on_fleet_step(void *context, const struct kc_step_report *report)
{
  struct kc_replica *replica = context;
  struct replay *replay = replica->owner;
  kc_replica_note_step(replica, report);
  kc_metrics_fleet_step(replay->metrics, report, &replay->levels);
}

static void on_fleet_end(void *context, const struct kc_outcome *outcome)
{
  struct kc_replica *replica = context;
  struct replay *replay = replica->owner;
  struct kc_outcome named = *outcome;
  kc_replica_note_end(replica, outcome);
  kc_router_ended(&replay->router, replica->index,
                  replica->requests[outcome->request].input_tokens);
  named.request = replica->position[outcome->request];
  book_end(replay, &named);
}

/* A step of one of several has begun, or it holds nothing any more: what all hold together. */
static void level_of_step(struct replay *replay, struct kc_replica *replica)
{
  const struct kc_levels level = kc_levels_of(&replica->instance.report);
  KC_ASSERT(replica->instance.in_step);
  kc_replica_set_level(replica, &level, &replay->levels);
  kc_metrics_levels(replay->metrics, &replay->levels);
}

static void level_of_idle(struct replay *replay, struct kc_replica *replica)
{
  const struct kc_levels level = {.pages_cached_idle = replica->level.pages_cached_idle};
  KC_ASSERT(!kc_instance_busy(&replica->instance));
  kc_replica_set_level(replica, &level, &replay->levels);
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

/* After whatever happened to the replica. */
static enum kc_err schedule_step(struct replay *replay, struct kc_replica *replica)
{
  if (replica->step_scheduled || replica->instance.in_step) return KC_OK;
  if (!kc_instance_busy(&replica->instance)) {
    if (replay->replicas > 1) level_of_idle(replay, replica);
    return KC_OK;
  }
  replica->step_scheduled = true;
  return kc_events_push(replay->queue, replica->instance.clock_ps, KC_BAND_STEP, EVENT_STEP,
                        replica->index);
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

static uint32_t row_at(const struct replay *replay, uint32_t position)
{
  const uint32_t row = replay->has_sessions ? replay->sessions.row_of[position] : position;
  KC_ASSERT(row < replay->config->request_count);
  return row;
}

/* The request at this position of the table has just been offered. */
static enum kc_err schedule_deadlines(struct replay *replay, uint32_t request, kc_ps now_ps)
{
  const struct kc_replay_config *config = replay->config;
  const uint32_t row = row_at(replay, request);
  if (config->cancel_after_ps != NULL) {
    KC_TRY(push_deadline(replay, now_ps, config->cancel_after_ps[row], EVENT_CANCEL, request));
  }
  if (config->patience == NULL) return KC_OK;
  const struct kc_patience *patience = &config->patience[config->requests[request].class_index];
  KC_TRY(push_deadline(replay, now_ps, patience->queue_timeout_ps, EVENT_QUEUE_TIMEOUT, request));
  return push_deadline(replay, now_ps, patience->timeout_ps, EVENT_TIMEOUT, request);
}

static struct kc_replica *handle_deadline(struct replay *replay, const struct kc_event *event)
{
  const bool cancels = event->kind == EVENT_CANCEL;
  const struct seat seat = replay->replicas > 1 ? replay->seat[event->subject]
                                                : (struct seat){.place = event->subject};
  struct kc_replica *replica = &replay->replica[seat.replica];
  KC_ASSERT(event->subject < replay->delivered);
  KC_ASSERT(seat.place < replica->given);
  if (event->kind == EVENT_QUEUE_TIMEOUT && !kc_instance_waits(&replica->instance, seat.place)) {
    return replica;
  }
  (void)kc_instance_cancel(&replica->instance, seat.place, event->time_ps,
                           cancels ? KC_STATUS_CANCELLED : KC_STATUS_TIMED_OUT);
  return replica;
}

static bool has_deadlines(const struct kc_replay_config *config)
{
  return config->patience != NULL || config->cancel_after_ps != NULL;
}

/* ---- what events do ---- */

/* The replica that is to have the request at `position`. */
static struct kc_replica *route(struct replay *replay, uint32_t position)
{
  const struct kc_replay_config *config = replay->config;
  if (replay->replicas == 1) return &replay->replica[0];
  const struct kc_request *r = &config->requests[position];
  const struct kc_router_request request = {
      .prompt_tokens = r->input_tokens,
      .group = config->group != NULL ? config->group[row_at(replay, position)] : KC_GROUP_NONE,
      .prompt_pages = r->input_tokens / config->instance.sched.page_size,
      .content = {.run = r->run, .run_count = r->run_count}};
  const uint32_t chosen = kc_router_choose(&replay->router, &request);
  KC_ASSERT(chosen < replay->replicas);
  return &replay->replica[chosen];
}

static enum kc_err handle_arrival(struct replay *replay, const struct kc_event *event,
                                  struct kc_replica **replica, struct kc_diag *diag)
{
  if (replay->has_sessions) KC_TRY(offer_row(replay, event->time_ps, diag));
  KC_ASSERT(replay->has_sessions || event->subject == replay->delivered);
  KC_ASSERT(replay->delivered < replay->offered);
  replay->arrival_scheduled = false;
  const uint32_t request = replay->delivered++;
  kc_metrics_arrival(replay->metrics, request);
  *replica = route(replay, request);
  const uint32_t place = kc_replica_give(*replica, &replay->config->requests[request], request);
  if (replay->replicas > 1) replay->seat[request] = (struct seat){(*replica)->index, place};
  if (!has_deadlines(replay->config)) return KC_OK;
  return schedule_deadlines(replay, request, event->time_ps);
}

static uint32_t poll_every(const struct kc_replay_config *config)
{
  return config->poll_every > 0 ? config->poll_every : POLL_EVERY;
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

static enum kc_err end_step(struct replay *replay, struct kc_replica *replica,
                            struct kc_diag *diag)
{
  kc_instance_end_step(&replica->instance);
  KC_TRY(schedule_arrival(replay)); /* a closed loop may have offered something */
  KC_TRY(recorder_failure(replay, diag));
  return KC_OK;
}

/* Counts everything that a run spends time on, steps, arrivals and refusals, so that a run can be
 * stopped whatever it is busy with. */
static enum kc_err poll(struct replay *replay, struct kc_diag *diag)
{
  if (--replay->poll_in > 0) return KC_OK;
  replay->poll_in = poll_every(replay->config);
  if (!interrupted(replay->config)) return KC_OK;
  return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted; nothing of this run was kept");
}

/* Runs ahead until something else is due. What is due next changes within the loop only when
 * clients react to the end of a request, so in open loop one look at the queue a step is enough. */
static enum kc_err handle_step(struct replay *replay, struct kc_replica *replica,
                               struct kc_diag *diag)
{
  struct kc_instance *instance = &replica->instance;
  const bool reacts = replay->config->closed || replay->has_sessions;
  KC_ASSERT(replica->step_scheduled);
  replica->step_scheduled = false;
  while (kc_instance_busy(instance)) { /* else a deadline of this instant ended the last one */
    bool look = true;
    KC_TRY(poll(replay, diag));
    KC_TRY(kc_instance_begin_step(instance, diag));
    KC_TRY(schedule_arrival(replay)); /* so may a refusal */
    if (instance->in_step) {
      const kc_ps end_ps = instance->report.end_ps;
      if (replay->replicas > 1) level_of_step(replay, replica);
      if (kc_events_next_ps(replay->queue) <= end_ps) {
        return kc_events_push(replay->queue, end_ps, KC_BAND_COMPLETION, EVENT_COMPLETION,
                              replica->index);
      }
      KC_TRY(end_step(replay, replica, diag));
      look = reacts;
    }
    if (look && instance->clock_ps >= kc_events_next_ps(replay->queue)) break;
    KC_ASSERT(instance->clock_ps < KC_PS_NEVER);
  }
  return KC_OK;
}

static enum kc_err handle(struct replay *replay, const struct kc_event *event,
                          struct kc_diag *diag)
{
  struct kc_replica *replica;
  if (event->kind == EVENT_ARRIVAL) {
    KC_TRY(handle_arrival(replay, event, &replica, diag));
  } else if (event->kind == EVENT_COMPLETION) {
    replica = &replay->replica[event->subject];
    KC_TRY(end_step(replay, replica, diag));
  } else if (event->kind == EVENT_STEP) {
    replica = &replay->replica[event->subject];
    KC_TRY(handle_step(replay, replica, diag));
  } else {
    replica = handle_deadline(replay, event);
  }
  KC_TRY(recorder_failure(replay, diag)); /* a request may be refused when it arrives */
  KC_TRY(schedule_arrival(replay));
  return schedule_step(replay, replica);
}

static enum kc_err run_events(struct replay *replay, struct kc_diag *diag)
{
  struct kc_event event;
  KC_TRY(schedule_arrival(replay));
  while (kc_events_pop(replay->queue, &event)) {
    KC_TRY(poll(replay, diag));
    KC_TRY(handle(replay, &event, diag));
  }
  KC_ASSERT(replay->delivered == replay->config->request_count);
  for (uint32_t i = 0; i < replay->replicas; i++) {
    struct kc_replica *replica = &replay->replica[i];
    struct kc_instance *instance = &replica->instance;
    KC_ASSERT(!kc_instance_busy(instance));
    /* Steps report what they evicted; a forming that ran nothing has no step to report it. What the
     * end of the run clears away was not evicted. */
    replica->figures.pages_evicted = instance->cache.counts.pages_evicted;
    replay->metrics->total.pages_evicted += replica->figures.pages_evicted;
    KC_TRY(kc_instance_finish(instance, diag));
  }
  return KC_OK;
}

/* ---- set-up ---- */

static uint32_t replicas_of(const struct kc_replay_config *config)
{
  KC_ASSERT(config->router.replicas <= KC_REPLICAS_MAX);
  return config->router.replicas > 1 ? config->router.replicas : 1;
}

/* A step of each instance. Sessions may have an arrival in the queue for every row, and clients
 * with patience its ends. */
static uint32_t queue_capacity(const struct kc_replay_config *config)
{
  uint64_t each = config->session.row != NULL;
  if (has_deadlines(config)) each += DEADLINES;
  const uint64_t capacity = QUEUE_CAPACITY + replicas_of(config) + each * config->request_count;
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
  return instance;
}

/* Arena bytes of the replicas and what stands before several. */
static size_t replicas_need(const struct kc_replay_config *config)
{
  const uint32_t replicas = replicas_of(config);
  const struct kc_instance_config instance = instance_config(config);
  size_t total = 0;
  const size_t one = kc_replica_need(config, &instance);
  if (__builtin_mul_overflow(one, replicas, &total)) return SIZE_MAX;
  const size_t needs[] = {kc_arena_need(replicas, sizeof(struct kc_replica)),
                          kc_arena_need(replicas, sizeof(struct kc_replica_figures)),
                          replicas > 1 ? kc_router_need(&config->router) : 0,
                          replicas > 1 ? kc_arena_need(config->request_count, sizeof(struct seat))
                                       : 0};
  KC_ASSERT(total > 0);
  for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  return total;
}

size_t kc_replay_need(const struct kc_replay_config *config)
{
  const uint32_t count = config->request_count;
  const size_t needs[] = {replicas_need(config), kc_metrics_need(count),
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

static enum kc_err no_memory(struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
}

static enum kc_err set_up_replicas(struct replay *replay, struct kc_arena *arena,
                                   struct kc_diag *diag)
{
  const struct kc_replay_config *config = replay->config;
  const struct kc_instance_config instance = instance_config(config);
  const bool several = replay->replicas > 1;
  replay->replica = kc_arena_take(arena, replay->replicas, sizeof *replay->replica);
  if (replay->replica == NULL) return no_memory(diag);
  if (several) {
    replay->seat = kc_arena_take(arena, config->request_count, sizeof *replay->seat);
    if (replay->seat == NULL || kc_router_init(&replay->router, &config->router, arena) != KC_OK) {
      return no_memory(diag);
    }
  }
  for (uint32_t i = 0; i < replay->replicas; i++) {
    struct kc_replica *replica = &replay->replica[i];
    const struct kc_observer observer = {.context = replica,
                                         .on_step = several ? on_fleet_step : on_step,
                                         .on_gap = on_gap,
                                         .on_end = several ? on_fleet_end : on_end};
    replica->owner = replay;
    replica->index = i;
    KC_TRY(kc_replica_init(replica, config, &instance, &observer, arena, diag));
  }
  return KC_OK;
}

static enum kc_err set_up(struct replay *replay, struct kc_arena *arena, struct kc_diag *diag)
{
  const struct kc_replay_config *config = replay->config;
  replay->queue = kc_events_create(KC_QUEUE_BINARY, queue_capacity(config), arena);
  if (replay->queue == NULL ||
      kc_metrics_init(replay->metrics, config->requests, config->request_count,
                      config->instance.sched.max_model_len, &config->recorder, arena) != KC_OK) {
    return no_memory(diag);
  }
  replay->books = kc_metrics_observer(replay->metrics);
  replay->metrics->limits = config->limits;
  if (config->keep_groups &&
      kc_groups_init(&replay->metrics->groups, &config->groups, config->requests,
                     config->request_count, arena) != KC_OK) {
    return no_memory(diag);
  }
  if (replay->has_sessions) {
    KC_TRY(kc_sessions_init(&replay->sessions, &config->session, config->request_count,
                            replay->queue, EVENT_ARRIVAL, arena, diag));
    replay->metrics->row_of = replay->sessions.row_of;
  }
  return set_up_replicas(replay, arena, diag);
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

/* ---- the result ---- */

/* The replica that ran out of memory first: at one instant, the one of the lowest index. */
static void note_oom(const struct replay *replay, struct kc_replay_result *result)
{
  result->oom_ps = KC_PS_NEVER;
  for (uint32_t i = 0; i < replay->replicas; i++) {
    const struct kc_replica *replica = &replay->replica[i];
    const struct kc_instance *instance = &replica->instance;
    if (instance->oom_ps >= result->oom_ps) continue;
    const uint32_t position = replica->position != NULL ? replica->position[instance->oom_request]
                                                        : instance->oom_request;
    result->oom_ps = instance->oom_ps;
    result->oom_replica = i;
    result->oom_request = row_at(replay, position);
    result->oom_demand_pages = instance->oom_demand_pages;
  }
}

static void add_injector(struct kc_injector *sum, const struct kc_injector *one)
{
  for (int i = 0; i < KC_INJECT_KINDS; i++) sum->injected[i] += one->injected[i];
  sum->victims += one->victims;
  sum->aborted_soundly += one->aborted_soundly;
  sum->mistaken += one->mistaken;
  sum->contaminated += one->contaminated;
}

static enum kc_err conclude(struct replay *replay, struct kc_arena *arena,
                            struct kc_replay_result *result, struct kc_diag *diag)
{
  struct kc_replica_figures *figures =
      kc_arena_take(arena, replay->replicas, sizeof *figures);
  if (figures == NULL) return no_memory(diag);
  *result = (struct kc_replay_result){.replicas = replay->replicas,
                                      .replica = figures,
                                      .router_moves = replay->router.moves,
                                      .pages = replay->config->instance.pages,
                                      .injector = replay->replica[0].instance.injector};
  KC_ASSERT(result->replicas >= 1);
  note_oom(replay, result);
  kc_metrics_finish(replay->metrics, &result->summary);
  for (uint32_t i = 0; i < replay->replicas; i++) {
    const struct kc_replica *replica = &replay->replica[i];
    if (i > 0) add_injector(&result->injector, &replica->instance.injector);
    kc_replica_finish(replica, &result->summary, &figures[i]);
  }
  return KC_OK;
}

enum kc_err kc_replay_run(const struct kc_replay_config *config, struct kc_metrics *metrics,
                          struct kc_arena *arena, struct kc_replay_result *result,
                          struct kc_diag *diag)
{
  struct replay replay = {.config = config,
                          .metrics = metrics,
                          .replicas = replicas_of(config),
                          .has_sessions = config->session.row != NULL,
                          .poll_in = poll_every(config)};
  KC_ASSERT(config->request_count > 0);
  KC_ASSERT(replay.replicas > 1 || config->executor.run != NULL);
  KC_ASSERT(!config->closed || !replay.has_sessions);
  KC_TRY(set_up(&replay, arena, diag));
  offer_first(&replay);
  KC_TRY(run_events(&replay, diag));
  return conclude(&replay, arena, result, diag);
}
