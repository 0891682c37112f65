/* A toy server: `slots` requests at once, every step gives each a token, time per step grows with
 * the number of members. Every 97th request is rejected, every 101st ends by the page-tag check.
 *
 *   arrivals --> waiting (index range) --> slot[] --> outcomes
 */
#include "store_fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"

enum { PAGE_SIZE = 16, PAGES = 27000, MODEL_LEN = 131072 };

struct toy {
  struct fixture *fixture;
  const struct fixture_plan *plan;
  uint32_t *slot;          /* request in each slot, UINT32_MAX = free */
  uint32_t *produced;      /* per request */
  kc_ps *first_token_ps, *joined_ps; /* per request */
  uint32_t running, next, arrived;
  kc_ps clock_ps;
  uint64_t steps;
};

static void *take(size_t count, size_t size)
{
  void *memory = calloc(count, size);
  if (memory == NULL) abort();
  return memory;
}

static void make_requests(struct fixture *fixture, const struct fixture_plan *plan)
{
  struct kc_random random;
  kc_ps at = 0;
  kc_random_init(&random, plan->seed, "fixture", 0);
  for (uint32_t i = 0; i < plan->requests; i++) {
    const uint32_t output = 1 + (uint32_t)kc_random_exponential(&random, 120);
    at += (kc_ps)kc_random_exponential(&random, plan->interval_us) * KC_PS_PER_US;
    fixture->requests[i] = (struct kc_request){
      .arrival_ps = at,
      .input_tokens = 1 + (uint32_t)kc_random_exponential(&random, 900),
      .output_tokens = output < 1500 ? output : 1500,
      .max_tokens = 1500, .class_index = i % 2, .tenant = i % 3};
  }
}

static void add_outcome(struct toy *toy, uint32_t request, enum kc_status status,
                        enum kc_reason reason)
{
  struct fixture *fixture = toy->fixture;
  const kc_ps first = toy->first_token_ps[request];
  fixture->outcomes[fixture->count++] = (struct kc_outcome){
    .request = request, .status = status, .reason = reason,
    .output_tokens = toy->produced[request], .preemptions = 0,
    .cached_tokens = request % 3 == 0 ? fixture->requests[request].input_tokens / 2 : 0,
    .recached_tokens = request % 11 == 0 ? 5 : 0, .contaminated = request % 103 == 102,
    .arrival_ps = fixture->requests[request].arrival_ps,
    .first_token_ps = toy->produced[request] > 0 ? first : KC_PS_NEVER,
    .end_ps = toy->clock_ps,
    .resident_ps = toy->clock_ps - toy->joined_ps[request],
    .kv_wait_ps = request % 7, .host_ps = request % 5,
    .first = {.resident_ps = request % 3, .kv_wait_ps = request % 2, .host_ps = request % 4}};
}

static void admit(struct toy *toy)
{
  for (uint32_t s = 0; s < toy->plan->slots && toy->next < toy->arrived; s++) {
    while (toy->next < toy->arrived && toy->next % 97 == 96) {
      toy->joined_ps[toy->next] = toy->clock_ps;
      add_outcome(toy, toy->next++, KC_STATUS_REJECTED, KC_REASON_NEVER_FITS);
    }
    if (toy->slot[s] != UINT32_MAX || toy->next == toy->arrived) continue;
    toy->joined_ps[toy->next] = toy->clock_ps;
    toy->slot[s] = toy->next++;
    toy->running++;
  }
}

static uint64_t held_tokens(const struct toy *toy)
{
  uint64_t tokens = 0;
  for (uint32_t s = 0; s < toy->plan->slots; s++) {
    const uint32_t request = toy->slot[s];
    if (request == UINT32_MAX) continue;
    tokens += toy->fixture->requests[request].input_tokens + toy->produced[request];
  }
  return tokens;
}

static void sample(struct toy *toy)
{
  struct kc_metrics *metrics = toy->fixture->metrics;
  struct kc_summary *summary = &toy->fixture->result.summary;
  const uint64_t tokens = held_tokens(toy);
  const uint64_t pages = tokens / PAGE_SIZE + toy->running;
  const uint32_t waiting = toy->arrived - toy->next;
  if (tokens > summary->kv_peak_tokens) summary->kv_peak_tokens = tokens;
  if (pages > summary->kv_peak_pages) summary->kv_peak_pages = pages;
  if (toy->running > summary->max_running) summary->max_running = toy->running;
  if (waiting > summary->max_waiting) summary->max_waiting = waiting;
  if (toy->clock_ps < metrics->timeline_next_ps) return;
  if (metrics->timeline_count == KC_TIMELINE_MAX) return;
  metrics->timeline[metrics->timeline_count++] = (struct kc_timeline_sample){
    .time_ps = toy->clock_ps, .running = toy->running, .waiting = waiting,
    .pages_used = (uint32_t)pages, .held_tokens = tokens};
  metrics->timeline_next_ps = toy->clock_ps + metrics->timeline_interval_ps;
}

static void give_token(struct toy *toy, uint32_t s, kc_ps duration_ps)
{
  const uint32_t request = toy->slot[s];
  if (toy->produced[request]++ == 0) {
    toy->first_token_ps[request] = toy->clock_ps;
  } else {
    kc_histogram_add(&toy->fixture->metrics->itl, duration_ps, 1);
  }
  const bool faulty = request % 101 == 100;
  if (toy->produced[request] < toy->fixture->requests[request].output_tokens && !faulty) return;
  add_outcome(toy, request, faulty ? KC_STATUS_FAILED : KC_STATUS_COMPLETED,
              faulty ? KC_REASON_INTEGRITY : KC_REASON_NONE);
  toy->slot[s] = UINT32_MAX;
  toy->running--;
}

static void step(struct toy *toy)
{
  const kc_ps base = (kc_ps)toy->plan->step_us * KC_PS_PER_US;
  const kc_ps duration = base + base / 100 * (kc_ps)toy->running +
                         (kc_ps)(toy->steps % 61) * (base / 900);
  toy->clock_ps += duration;
  toy->steps++;
  for (uint32_t s = 0; s < toy->plan->slots; s++) {
    if (toy->slot[s] != UINT32_MAX) give_token(toy, s, duration);
  }
  sample(toy);
}

static void play(struct toy *toy)
{
  struct fixture *fixture = toy->fixture;
  while (fixture->count < toy->plan->requests) {
    while (toy->arrived < toy->plan->requests &&
           fixture->requests[toy->arrived].arrival_ps <= toy->clock_ps) {
      toy->arrived++;
    }
    admit(toy);
    if (toy->running > 0) {
      step(toy);
    } else if (toy->arrived < toy->plan->requests) {
      toy->clock_ps = fixture->requests[toy->arrived].arrival_ps;
    }
  }
}

static void fill_summary(struct toy *toy)
{
  struct fixture *fixture = toy->fixture;
  struct kc_metrics *metrics = fixture->metrics;
  struct kc_summary *summary = &fixture->result.summary;
  for (uint32_t i = 0; i < fixture->count; i++) {
    const struct kc_outcome *outcome = &fixture->outcomes[i];
    const kc_ps end = outcome->end_ps, first = outcome->first_token_ps;
    summary->requests_total++;
    summary->requests_by_status[outcome->status]++;
    summary->requests_by_reason[outcome->reason]++;
    summary->input_tokens += fixture->requests[outcome->request].input_tokens;
    summary->output_tokens += outcome->output_tokens;
    if (outcome->resident_ps > 0) {
      summary->admitted_tokens += fixture->requests[outcome->request].input_tokens;
    }
    summary->cached_tokens += outcome->cached_tokens;
    summary->recached_tokens += outcome->recached_tokens;
    summary->warm_requests += outcome->cached_tokens > 0;
    summary->contaminated += outcome->contaminated;
    summary->slo_met += outcome->status == KC_STATUS_COMPLETED;
    kc_groups_outcome(&metrics->groups, outcome, MODEL_LEN,
                      outcome->status == KC_STATUS_COMPLETED);
    if (first != KC_PS_NEVER) {
      kc_groups_note(&metrics->groups, KC_LATENCY_TTFT, outcome->request);
    }
    if (first != KC_PS_NEVER) metrics->ttft[metrics->ttft_count++] = first - outcome->arrival_ps;
    if (outcome->status != KC_STATUS_COMPLETED) continue;
    summary->input_tokens_completed += fixture->requests[outcome->request].input_tokens;
    summary->output_tokens_completed += outcome->output_tokens;
    metrics->e2e[metrics->e2e_count++] = end - outcome->arrival_ps;
    if (outcome->output_tokens < 2) continue;
    const kc_ps gaps = outcome->output_tokens - 1;
    metrics->tpot[metrics->tpot_count++] = (end - first + gaps / 2) / gaps; /* to the nearest */
  }
  summary->makespan_ps = toy->clock_ps - fixture->requests[0].arrival_ps;
  summary->busy_ps = summary->makespan_ps;
  summary->steps = toy->steps;
  summary->pages_evicted = 17;
  kc_groups_finish(&metrics->groups, KC_LATENCY_TTFT, metrics->ttft, metrics->ttft_count);
  summary->output_tok_s_micro =
      kc_muldiv_round(summary->output_tokens, UINT64_C(1000000) * (uint64_t)KC_PS_PER_S,
                      (uint64_t)summary->makespan_ps);
}

static void fill_statistics(struct fixture *fixture)
{
  struct kc_metrics *metrics = fixture->metrics;
  struct kc_summary *summary = &fixture->result.summary;
  const struct kc_histogram *itl = &metrics->itl;
  kc_statistic_of(&summary->ttft, metrics->ttft, metrics->ttft_count);
  kc_statistic_of(&summary->tpot, metrics->tpot, metrics->tpot_count);
  kc_statistic_of(&summary->e2e, metrics->e2e, metrics->e2e_count);
  summary->itl.count = itl->total;
  if (itl->total == 0) return;
  summary->itl = (struct kc_statistic){
    .count = itl->total, .mean_ps = (kc_ps)(itl->sum_ps / itl->total),
    .p50_ps = kc_histogram_percentile(itl, 50, 100),
    .p90_ps = kc_histogram_percentile(itl, 90, 100),
    .p95_ps = kc_histogram_percentile(itl, 95, 100),
    .p99_ps = kc_histogram_percentile(itl, 99, 100), .min_ps = itl->min_ps, .max_ps = itl->max_ps};
}

static void fill_hash(struct fixture *fixture)
{
  struct kc_sha256 sha;
  kc_canonical_begin(&sha);
  for (uint32_t i = 0; i < fixture->count; i++) {
    kc_canonical_outcome(&sha, &fixture->outcomes[i]);
  }
  kc_canonical_end(&sha, &fixture->result.summary, &fixture->metrics->itl,
                   fixture->result.summary.result_sha256);
}

static void fill_header(struct fixture *fixture, const struct fixture_plan *plan)
{
  static const char digest[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
  const uint64_t gib = UINT64_C(1) << 30;
  static const char *const classes[] = {"even", "odd"};
  fixture->header = (struct kc_run_header){
    .prefix_cache = true, .class_name = classes,
    .name = plan->name, .scenario_text = "name: toy\n", .scenario_sha256 = digest,
    .trace_path = "toy.csv", .trace_sha256 = digest, .model = "llama-3.1-8b", .gpu = "h100",
    .version = "0.0.0", .seed = plan->seed, .rows = plan->rows, .page_size = PAGE_SIZE,
    .pages = PAGES, .kv_token_bytes = 131072, .weights_bytes = 15 * gib,
    .kv_budget_bytes = UINT64_C(131072) * PAGE_SIZE * PAGES, .reserve_bytes = 8 * gib,
    .memory_bytes = 80 * gib, .other_bytes = 3 * gib};
  fixture->host = (struct kc_host_facts){
    .commit = "0123abc", .started_utc = "2026-01-02T03:04:05Z", .machine = "x86_64",
    .host_seconds = 0.25, .events_per_s = 1e6, .rss_bytes = 1 << 20};
  fixture->result.oom_ps = KC_PS_NEVER;
  fixture->result.pages = PAGES;
}

static void make_metrics(struct fixture *fixture, const struct fixture_plan *plan)
{
  const struct kc_groups_config groups = {.class_count = 2, .tenant_count = 3};
  const size_t need = kc_arena_need(1, sizeof *fixture->metrics) +
                      kc_metrics_need(plan->requests) + kc_groups_need(&groups, plan->requests);
  if (kc_arena_init(&fixture->arena, need, NULL) != KC_OK) abort();
  fixture->metrics = kc_arena_take(&fixture->arena, 1, sizeof *fixture->metrics);
  if (kc_metrics_init(fixture->metrics, fixture->requests, plan->requests, MODEL_LEN,
                      NULL, &fixture->arena) !=
      KC_OK) {
    abort();
  }
  if (kc_groups_init(&fixture->metrics->groups, &groups, fixture->requests, plan->requests,
                     &fixture->arena) != KC_OK) {
    abort();
  }
  fixture->metrics->timeline_count = 0;
  fixture->metrics->timeline_next_ps = 0;
  fixture->metrics->timeline_interval_ps =
      (kc_ps)(plan->requests * plan->interval_us) * KC_PS_PER_US / 600;
}

/* Appends to the document. */
static void say(struct fixture *fixture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct fixture *fixture, const char *format, ...)
{
  const size_t used = strlen(fixture->document);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(fixture->document + used, sizeof fixture->document - used, format,
                               arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof fixture->document - used) abort();
}

static void say_statistic(struct fixture *fixture, const char *key, const struct kc_statistic *s)
{
  say(fixture, ",\"%s\":{\"count\":%llu", key, (unsigned long long)s->count);
  if (s->count > 0) {
    say(fixture, ",\"mean\":%.15g,\"p50\":%.15g,\"p90\":%.15g,\"p95\":%.15g,\"p99\":%.15g,"
        "\"min\":%.15g,\"max\":%.15g", (double)s->mean_ps / 1e9, (double)s->p50_ps / 1e9,
        (double)s->p90_ps / 1e9, (double)s->p95_ps / 1e9, (double)s->p99_ps / 1e9,
        (double)s->min_ps / 1e9, (double)s->max_ps / 1e9);
  }
  say(fixture, "}");
}

static void say_count(struct fixture *fixture, const char *key, uint64_t value)
{
  say(fixture, ",\"%s\":%llu", key, (unsigned long long)value);
}

/* The keys of the document that the store knows columns for, and one that it does not. */
static void fill_document(struct fixture *fixture)
{
  const struct kc_summary *s = &fixture->result.summary;
  const struct kc_run_header *h = &fixture->header;
  say(fixture, "{\"schema\":2,\"policy\":\"toy\",\"oom\":null,\"version\":\"%s\"", h->version);
  say(fixture, ",\"model\":\"%s\",\"gpu\":\"%s\"", h->model, h->gpu);
  say(fixture, ",\"scenario_sha256\":\"%s\"", h->scenario_sha256);
  say(fixture, ",\"trace\":{\"sha256\":\"%s\"},\"seed\":%llu", h->trace_sha256,
      (unsigned long long)h->seed);
  say(fixture, ",\"result_sha256\":\"%s\"", s->result_sha256);
  say_count(fixture, "requests_total", s->requests_total);
  say_count(fixture, "requests_completed", s->requests_by_status[KC_STATUS_COMPLETED]);
  say_count(fixture, "requests_rejected", s->requests_by_status[KC_STATUS_REJECTED]);
  say_count(fixture, "requests_failed", s->requests_by_status[KC_STATUS_FAILED]);
  say_count(fixture, "requests_cancelled", s->requests_by_status[KC_STATUS_CANCELLED]);
  say_count(fixture, "requests_timed_out", s->requests_by_status[KC_STATUS_TIMED_OUT]);
  say_count(fixture, "input_tokens", s->input_tokens);
  say_count(fixture, "output_tokens", s->output_tokens);
  say_count(fixture, "output_clipped_requests", s->tokens_clipped_requests);
  say_statistic(fixture, "ttft_ms", &s->ttft);
  say_statistic(fixture, "tpot_ms", &s->tpot);
  say_statistic(fixture, "itl_ms", &s->itl);
  say_statistic(fixture, "e2e_ms", &s->e2e);
  say(fixture, ",\"makespan_s\":%.15g", (double)s->makespan_ps / 1e12);
  say(fixture, ",\"busy_s\":%.15g", (double)s->busy_ps / 1e12);
  say(fixture, ",\"output_tok_s\":%.15g", (double)s->output_tok_s_micro / 1e6);
  say_count(fixture, "steps", s->steps);
  say_count(fixture, "preemptions", s->preemptions);
  say_count(fixture, "max_running", s->max_running);
  say_count(fixture, "max_waiting", s->max_waiting);
  say_count(fixture, "kv_peak_tokens", s->kv_peak_tokens);
  say_count(fixture, "kv_peak_pages", s->kv_peak_pages);
  say_count(fixture, "page_size", h->page_size);
  say_count(fixture, "pages", h->pages);
  say_count(fixture, "kv_bytes_per_token", h->kv_token_bytes);
  say_count(fixture, "weights_per_gpu_bytes", h->weights_bytes);
  say_count(fixture, "kv_budget_bytes", h->kv_budget_bytes);
  say(fixture, ",\"prefix_cache\":{\"on\":true");
  say_count(fixture, "prompt_tokens", s->admitted_tokens);
  say_count(fixture, "cached_tokens", s->cached_tokens);
  say_count(fixture, "recached_tokens", s->recached_tokens);
  say_count(fixture, "warm_requests", s->warm_requests);
  say_count(fixture, "pages_evicted", s->pages_evicted);
  say(fixture, "}");
  say_count(fixture, "slo_met", s->slo_met);
  say_count(fixture, "contaminated", s->contaminated);
  say(fixture, ",\"trust\":{\"times\":\"extrapolated\",\"basis\":\"kernels\"");
  say(fixture, ",\"outside_s\":%.15g}}", 1234 / 1e12);
}

void fixture_make(struct fixture *fixture, const struct fixture_plan *plan)
{
  memset(fixture, 0, sizeof *fixture);
  fixture->requests = take(plan->requests, sizeof *fixture->requests);
  fixture->outcomes = take(plan->requests, sizeof *fixture->outcomes);
  make_requests(fixture, plan);
  make_metrics(fixture, plan);
  fill_header(fixture, plan);
  struct toy toy = {.fixture = fixture, .plan = plan,
                    .slot = take(plan->slots, sizeof *toy.slot),
                    .produced = take(plan->requests, sizeof *toy.produced),
                    .first_token_ps = take(plan->requests, sizeof *toy.first_token_ps),
                    .joined_ps = take(plan->requests, sizeof *toy.joined_ps)};
  memset(toy.slot, 0xff, plan->slots * sizeof *toy.slot);
  play(&toy);
  fill_summary(&toy);
  fill_statistics(fixture);
  fill_hash(fixture);
  fill_document(fixture);
  free(toy.slot);
  free(toy.produced);
  free(toy.first_token_ps);
  free(toy.joined_ps);
}

void fixture_free(struct fixture *fixture)
{
  kc_arena_deinit(&fixture->arena);
  free(fixture->requests);
  free(fixture->outcomes);
}

enum kc_err fixture_tell(struct kc_store *store, const struct fixture *fixture,
                         struct kc_diag *diag)
{
  const struct kc_recorder recorder = kc_store_recorder(store);
  enum kc_err err = KC_OK;
  for (uint32_t i = 0; i < fixture->count && err == KC_OK; i++) {
    const struct kc_outcome *outcome = &fixture->outcomes[i];
    err = recorder.on_outcome(recorder.context, outcome, &fixture->requests[outcome->request],
                              diag);
  }
  return err;
}

enum kc_err fixture_end(struct kc_store *store, const struct fixture *fixture, int64_t *run_id,
                        struct kc_diag *diag)
{
  const enum kc_err trust = kc_store_run_trust(store, "extrapolated", "kernels", 1234, diag);
  if (trust != KC_OK) return trust;
  return kc_store_run_end(store, fixture->metrics, &fixture->result, fixture->document,
                          &fixture->host, run_id, diag);
}

enum kc_err fixture_store(struct kc_store *store, const struct fixture *fixture, int64_t *run_id,
                          struct kc_diag *diag)
{
  enum kc_err err = kc_store_run_begin(store, &fixture->header, diag);
  if (err != KC_OK) return err;
  err = fixture_tell(store, fixture, diag);
  if (err != KC_OK) {
    kc_store_run_abort(store);
    return err;
  }
  return fixture_end(store, fixture, run_id, diag);
}
