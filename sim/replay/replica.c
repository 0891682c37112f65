/* One of a run's instances (see replica.h). Memory: from the run's arena. */
#include "sim/replay/replica.h"

static bool is_alone(const struct kc_replay_config *config)
{
  return config->router.replicas <= 1;
}

static uint32_t share_of(const struct kc_replay_config *config)
{
  KC_ASSERT(config->request_count > 0);
  if (is_alone(config)) return config->request_count;
  return kc_router_share(&config->router, config->request_count);
}

static struct kc_instance_config configured(const struct kc_replay_config *config,
                                            const struct kc_instance_config *instance,
                                            uint32_t index)
{
  struct kc_instance_config own = *instance;
  own.requests_max = share_of(config);
  own.seed += index; /* the tags' key, and which faults are injected */
  own.inject.seed += index;
  KC_ASSERT(own.requests_max > 0);
  return own;
}

size_t kc_replica_need(const struct kc_replay_config *config,
                       const struct kc_instance_config *instance)
{
  const struct kc_instance_config own = configured(config, instance, 0);
  size_t need = kc_instance_need(&own);
  KC_ASSERT(need > 0);
  if (is_alone(config)) return need;
  const size_t table = kc_arena_need(share_of(config), sizeof(uint32_t));
  return __builtin_add_overflow(need, table, &need) ? SIZE_MAX : need;
}

enum kc_err kc_replica_init(struct kc_replica *replica, const struct kc_replay_config *config,
                            const struct kc_instance_config *instance,
                            const struct kc_observer *observer, struct kc_arena *arena,
                            struct kc_diag *diag)
{
  const struct kc_instance_config own = configured(config, instance, replica->index);
  const struct kc_request *requests = config->requests;
  const struct kc_executor *executor = &config->executor;
  KC_ASSERT(observer->context == replica);
  replica->share = own.requests_max;
  if (!is_alone(config)) {
    KC_ASSERT(config->replica != NULL && config->replica[replica->index].requests != NULL);
    requests = replica->requests = config->replica[replica->index].requests;
    executor = &config->replica[replica->index].executor;
    replica->position = kc_arena_take(arena, replica->share, sizeof *replica->position);
    if (replica->position == NULL) {
      return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
    }
  }
  return kc_instance_init(&replica->instance, &own, requests, executor, observer, arena, diag);
}

uint32_t kc_replica_give(struct kc_replica *replica, const struct kc_request *request,
                         uint32_t position)
{
  const uint32_t place = replica->given++;
  KC_ASSERT(place < replica->share);
  KC_ASSERT(replica->position != NULL || place == position);
  if (replica->position != NULL) {
    replica->requests[place] = *request;
    replica->position[place] = position;
    replica->figures.requests++;
    replica->figures.input_tokens += request->input_tokens;
  }
  kc_instance_arrive(&replica->instance);
  return place;
}

void kc_replica_note_step(struct kc_replica *replica, const struct kc_step_report *report)
{
  struct kc_replica_figures *f = &replica->figures;
  KC_ASSERT(replica->position != NULL);
  KC_ASSERT(report->end_ps > report->start_ps);
  f->steps++;
  f->busy_ps += report->end_ps - report->start_ps;
  if (report->running > f->max_running) f->max_running = report->running;
  if (report->waiting > f->max_waiting) f->max_waiting = report->waiting;
  if (report->held_tokens > f->kv_peak_tokens) f->kv_peak_tokens = report->held_tokens;
  if (report->pages_used > f->kv_peak_pages) f->kv_peak_pages = report->pages_used;
}

void kc_replica_note_end(struct kc_replica *replica, const struct kc_outcome *outcome)
{
  struct kc_replica_figures *f = &replica->figures;
  KC_ASSERT(replica->position != NULL);
  KC_ASSERT(outcome->request < replica->given);
  f->cached_tokens += outcome->cached_tokens;
  f->output_tokens += outcome->output_tokens;
  f->preemptions += outcome->preemptions;
}

void kc_replica_set_level(struct kc_replica *replica, const struct kc_levels *level,
                          struct kc_levels *sum)
{
  struct kc_levels *own = &replica->level;
  KC_ASSERT(sum->running >= own->running && sum->held_tokens >= own->held_tokens);
  KC_ASSERT(sum->pages_used >= own->pages_used && sum->waiting >= own->waiting);
  sum->running += level->running - own->running;
  sum->waiting += level->waiting - own->waiting;
  sum->pages_used += level->pages_used - own->pages_used;
  sum->pages_cached_idle += level->pages_cached_idle - own->pages_cached_idle;
  sum->held_tokens += level->held_tokens - own->held_tokens;
  *own = *level;
}

void kc_replica_finish(const struct kc_replica *replica, const struct kc_summary *summary,
                       struct kc_replica_figures *out)
{
  *out = replica->figures;
  if (replica->position == NULL) {
    *out = (struct kc_replica_figures){.requests = summary->requests_total,
                                       .input_tokens = summary->input_tokens,
                                       .cached_tokens = summary->cached_tokens,
                                       .output_tokens = summary->output_tokens,
                                       .steps = summary->steps,
                                       .preemptions = summary->preemptions,
                                       .pages_evicted = summary->pages_evicted,
                                       .busy_ps = summary->busy_ps,
                                       .max_running = summary->max_running,
                                       .max_waiting = summary->max_waiting,
                                       .kv_peak_tokens = summary->kv_peak_tokens,
                                       .kv_peak_pages = summary->kv_peak_pages};
  }
  KC_ASSERT(out->requests == replica->given);
  KC_ASSERT(out->busy_ps >= 0);
}
