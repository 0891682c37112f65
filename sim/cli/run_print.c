/* The summary of `kvcap run` for people: what was asked, what fits, how it went, what it costs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/cli/run_output.h"

/* 1234567 -> "1,234,567". `out` needs 32 bytes. */
const char *kc_run_grouped(uint64_t value, char out[32])
{
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
  char *at = out;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) *at++ = ',';
    *at++ = digits[i];
  }
  *at = '\0';
  return out;
}

/* Rounded to `digits` decimals. */
static void print_ms(kc_ps ps, unsigned digits)
{
  printf(" %10.*f", (int)digits, (double)ps / (double)KC_PS_PER_MS);
}

static void print_statistic(const char *name, const struct kc_statistic *s, const char *of)
{
  char count[32];
  printf("  %-8s", name);
  if (s->count == 0) {
    printf("  none\n");
    return;
  }
  const kc_ps values[] = {s->mean_ps, s->p50_ps, s->p90_ps, s->p95_ps, s->p99_ps, s->max_ps};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) print_ms(values[i], 2);
  printf("   %s %s%s\n", kc_run_grouped(s->count, count), of, kc_plural(s->count));
}

static const char *trust_word(const struct kc_run *run)
{
  return kc_cost_level_name(kc_run_trust(run).level);
}

/* What was not measured, of a profile of kernels. */
static void print_missing(const struct kc_run *run, bool minor)
{
  char names[KC_TRUST_NAMES_MAX][24];
  const uint32_t count = kc_run_missing(run, minor, names);
  if (count == 0) return;
  printf("            not measured where this run needs it%s:",
         minor ? ", under a tenth of a step" : "");
  for (uint32_t i = 0; i < count; i++) printf("%s %s", i == 0 ? "" : ",", names[i]);
  printf("\n");
}

static void print_range(const char *whose, const struct kc_cost_range *range)
{
  char a[32], b[32];
  printf("            %s: %s to %s requests", whose, kc_run_grouped(range->sequences_min, a),
         kc_run_grouped(range->sequences_max, b));
  printf(" and %s to %s tokens a step", kc_run_grouped(range->tokens_min, a),
         kc_run_grouped(range->tokens_max, b));
  if (range->context_max > 0) {
    printf(", mean context %s to %s", kc_run_grouped(range->context_min, a),
           kc_run_grouped(range->context_max, b));
  }
  printf("\n");
}

/* Why a serving fit is outside what it was fitted to. */
static void print_outside(const struct kc_run *run)
{
  const struct kc_cost_range seen = kc_run_seen(run), *measured = &run->cost.range;
  if (run->cost.foreign) {
    printf("            %s\n", run->cost.foreign_why);
  } else if (measured->tokens_max > 0 && measured->sequences_max > 0) {
    print_range("measured", measured);
    print_range("this run", &seen);
  }
}

/* What the times rest on and what they are worth. */
static void print_basis(const struct kc_run *run)
{
  const struct kc_pool_spec *pool = &run->scenario->pool[0];
  const struct kc_gpu_profile *profile = &pool->profile;
  const struct kc_cost_trust trust = kc_run_trust(run);
  printf("  step time profile %s of %s: ", profile->name, pool->gpu.name);
  if (trust.basis == KC_BASIS_DATASHEET) {
    printf("datasheet, nothing measured");
  } else if (trust.basis == KC_BASIS_KERNELS) {
    printf("calibrated on measured kernels");
  } else {
    printf("calibrated on %u rows of a serving measurement, each within %.2g %%", profile->rows,
           profile->residual_percent);
  }
  printf("%s\n", profile->host_measured ? "" : "; host term not measured");
  if (trust.level == KC_LEVEL_EXTRAPOLATED) {
    printf("            EXTRAPOLATED: %.1f %% of the step time lies outside what was measured\n",
           trust.time_ps > 0 ? 100.0 * (double)trust.outside_ps / (double)trust.time_ps : 0.0);
    print_outside(run);
  }
  print_missing(run, false);
  print_missing(run, true);
}

static void print_question(const struct kc_run *run, const char *name)
{
  const struct kc_scenario *scenario = run->scenario;
  const struct kc_pool_spec *pool = &scenario->pool[0];
  const struct kc_precision *p = &pool->precision;
  printf("%s\n\n", name);
  printf("  deploy    %s on %u x %s (tensor %u", scenario->model.name, kc_run_gpus(scenario),
         pool->gpu.name, pool->memory.tensor);
  if (pool->replicas > 1) printf(", %u replicas", pool->replicas);
  printf("), KV %s", kc_kv_format_name(p->k_format));
  if (p->v_format != p->k_format) printf(" / %s", kc_kv_format_name(p->v_format));
  printf(", %s, role %s\n", pool->policy->name,
         pool->role == KC_ROLE_DECODE ? "decode" : "serve");
  print_basis(run);
}

/* ---- the trace: what was applied, dropped and assumed ---- */

static void print_loop(const struct kc_run *run)
{
  char a[32], b[32];
  if (!run->sessions) {
    printf("            loop: open, requests come at their recorded times\n");
    return;
  }
  const uint32_t starts = run->request_count - run->waiting_rows;
  printf("            loop: closed, %s requests wait for the end of another, %s come at their "
         "recorded times\n", kc_run_grouped(run->waiting_rows, a), kc_run_grouped(starts, b));
}

/* " key 12.5 s" */
static void print_duration(const char *key, kc_ps time_ps, bool said)
{
  char text[64];
  if (!said) return;
  kc_format_fixed(time_ps, 12, text);
  printf(" %s %s s", key, text);
}

static void print_fraction(const char *key, struct kc_fraction fraction)
{
  if (fraction.numerator == fraction.denominator) return;
  printf(" %s x%" PRIu64, key, fraction.numerator);
  if (fraction.denominator != 1) printf("/%" PRIu64, fraction.denominator);
}

static bool applies(const struct kc_transform *t)
{
  return t->from_ps > 0 || t->to_ps != KC_PS_NEVER || t->skip_rows > 0 ||
         t->limit_rows != UINT64_MAX || t->sample.numerator != t->sample.denominator ||
         t->idle_cap_ps != KC_PS_NEVER || t->rate.numerator != t->rate.denominator ||
         t->spread_ps > 0;
}

static void print_applied(const struct kc_transform *t)
{
  char a[32];
  if (!applies(t)) return;
  printf("            applied:");
  print_duration("from", t->from_ps, t->from_ps > 0);
  print_duration("to", t->to_ps, t->to_ps != KC_PS_NEVER);
  if (t->skip_rows > 0) printf(" skip %s", kc_run_grouped(t->skip_rows, a));
  if (t->limit_rows != UINT64_MAX) printf(" limit %s", kc_run_grouped(t->limit_rows, a));
  print_fraction("sample", t->sample);
  print_duration("idle_cap", t->idle_cap_ps, t->idle_cap_ps != KC_PS_NEVER);
  print_fraction("rate", t->rate);
  print_duration("spread", t->spread_ps, t->spread_ps > 0);
  printf("\n");
}

static const char *by(bool said)
{
  return said ? "as told" : "by the format";
}

static void print_assumed(const struct kc_run *run)
{
  const struct kc_trace *t = &run->trace;
  const struct kc_trace_options *said = &run->scenario->workload.trace_options;
  if (t->time_unit != KC_UNIT_FORMAT) {
    printf("            times in %s (%s)\n", kc_time_unit_name(t->time_unit),
           by(said->time_unit != KC_UNIT_FORMAT));
  }
  if (!t->prefix_ids || t->block_tokens == 0) return;
  printf("            prefix ids of %u tokens (%s), tail %s (%s)", t->block_tokens,
         by(said->block_tokens > 0), kc_tail_rule_name(t->tail), by(said->tail != KC_TAIL_NONE));
  if (run->reuse.tokens > 0) {
    printf("; an infinite cache would find %.1f %% of their tokens",
           100.0 * (double)run->reuse.tokens_reused / (double)run->reuse.tokens);
  }
  printf("\n");
}

static void print_trace(const struct kc_run *run)
{
  char a[32];
  const struct kc_trace *t = &run->trace;
  print_loop(run);
  print_applied(&run->scenario->workload.transform);
  for (int i = 0; i < KC_CHANGES; i++) {
    if (run->change[i] == 0) continue;
    printf("            %s %s\n", kc_run_grouped(run->change[i], a),
           kc_trace_change_text((enum kc_trace_change)i));
  }
  for (int i = 0; i < KC_NOTES; i++) {
    if (t->note[i] == 0) continue;
    const char *names = kc_trace_note_names(t, (enum kc_trace_note)i);
    printf("            %s %s%s%s\n", kc_run_grouped(t->note[i], a),
           kc_trace_note_text((enum kc_trace_note)i), names[0] != '\0' ? ": " : "", names);
  }
  print_assumed(run);
}

static void print_workload(const struct kc_run *run)
{
  char a[32], b[32], c[32];
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_summary *s = &run->result.summary;
  if (work->is_closed) {
    printf("  workload  closed loop, %u at once (%s), %s request%s of %s + %s tokens\n",
           work->closed.concurrency, work->closed.mode == KC_CLOSED_WAVE ? "waves" : "steady",
           kc_run_grouped(s->requests_total, a), kc_plural(s->requests_total),
           kc_run_grouped(work->closed.input_tokens, b),
           kc_run_grouped(work->closed.output_tokens, c));
    return;
  }
  const struct kc_trace *t = &run->trace;
  const double span = (double)t->span_ps / 1e12;
  const char *slash = strrchr(t->path, '/');
  printf("  workload  %s (%s): %s request%s %s %.1f s", slash != NULL ? slash + 1 : t->path,
         t->format, kc_run_grouped(t->count, a), kc_plural(t->count),
         run->sessions ? "recorded over" : "in", span);
  if (span > 0 && !run->sessions) printf(" (%.2f/s)", (double)t->count / span);
  if (t->session_count > 0) {
    printf(" of %s session%s", kc_run_grouped(t->session_count, b), kc_plural(t->session_count));
  }
  printf(", %s in, %s out\n", kc_run_grouped(t->input_tokens, b),
         kc_run_grouped(t->output_tokens, c));
  static const char *const rules[] = {"the trace's output lengths", "a fixed number",
                                      "a ratio of the output length"};
  printf("            max_tokens: %s", rules[work->max_tokens_rule]);
  if (run->max_tokens_clipped > 0) {
    printf("; it cuts %s request%s short", kc_run_grouped(run->max_tokens_clipped, a),
           kc_plural(run->max_tokens_clipped));
  }
  printf("\n");
  print_trace(run);
}

static void print_memory(const struct kc_run *run)
{
  char pages[32], tokens[32], weights[48], budget[48];
  const struct kc_fit *fit = &run->fit;
  const uint32_t page_size = run->scenario->pool[0].sched.page_size;
  kc_format_bytes(fit->weights_bytes, 2, weights);
  kc_format_bytes(fit->kv_budget_bytes, 2, budget);
  printf("  memory    per GPU: weights %s, KV %s; pool of %s tokens (%s pages of %u)%s\n", weights,
         fit->kv_budget_bytes > 0 ? budget : "as given",
         kc_run_grouped((uint64_t)run->pages * page_size, tokens),
         kc_run_grouped(run->pages, pages), page_size,
         run->result.replicas > 1 ? " in each replica" : "");
  if (fit->windows_per_token) {
    printf("            every layer has a window; tokens are charged as if they were all kept\n");
  }
  if (run->bounded_bytes > 0) {
    char bounded[48], requests[32];
    kc_format_bytes(run->bounded_bytes, 2, bounded);
    printf("            of the KV, %s hold the windowed layers of %s running requests%s\n", bounded,
           kc_run_grouped(run->bounded_requests, requests),
           run->bounded_limit ? ", as many as fit with their pages: no more run at once" : "");
  }
}

static void print_requests(const struct kc_summary *s)
{
  char a[32];
  printf("\n  requests  %s completed",
         kc_run_grouped(s->requests_by_status[KC_STATUS_COMPLETED], a));
  for (int i = 1; i < KC_STATUSES; i++) {
    if (s->requests_by_status[i] == 0) continue;
    printf(", %s %s", kc_run_grouped(s->requests_by_status[i], a),
           kc_status_name((enum kc_status)i));
  }
  printf("\n");
  static const char *const meaning[KC_REASONS] = {
      [KC_REASON_PROMPT_TOO_LONG] = "prompt of max_model_len tokens or more",
      [KC_REASON_NEVER_FITS] = "prompt larger than the whole pool: the real server would block its "
                               "queue behind it for ever",
      [KC_REASON_PROMPT_OVER_BUDGET] = "prompt over max_batched_tokens with chunking off: the real "
                                       "server would block its queue behind it for ever",
      [KC_REASON_OUTGREW_POOL] = "grew past the whole pool while running alone",
      [KC_REASON_INTEGRITY] = "named a page that was not its own",
      [KC_REASON_QUEUE_FULL] = "came when as many waited as may wait",
      [KC_REASON_CANCELLED] = "cancelled by the client",
      [KC_REASON_TIMED_OUT] = "took longer than client or server allow",
      [KC_REASON_POOL_TOO_SMALL] = "prompt too long for the pool: the server refuses it"};
  for (int i = 1; i < KC_REASONS; i++) {
    if (s->requests_by_reason[i] == 0) continue;
    printf("            %s: %s\n", kc_run_grouped(s->requests_by_reason[i], a), meaning[i]);
  }
  if (s->tokens_clipped_requests > 0) {
    printf("            %s completed short of the trace's length (max_tokens or max_model_len)\n",
           kc_run_grouped(s->tokens_clipped_requests, a));
  }
}

static void print_latencies(const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  printf("\n  ms             mean        p50        p90        p95        p99        max   over"
         "   (%s)\n", trust_word(run));
  print_statistic("TTFT", &s->ttft, "request");
  print_statistic("TPOT", &s->tpot, "request");
  print_statistic("ITL", &s->itl, "gap");
  print_statistic("E2E", &s->e2e, "request");
}

static bool has_limits(const struct kc_scenario *scenario)
{
  const struct kc_clients_spec *clients = &scenario->workload.clients;
  bool any = scenario->slo_ttft_p95_ms > 0 || scenario->slo_tpot_p95_ms > 0;
  for (uint32_t i = 0; clients->classes_given && i < clients->class_count; i++) {
    any = any || clients->class[i].ttft_ms > 0 || clients->class[i].tpot_ms > 0;
  }
  return any;
}

/* Near a limit small errors of the step time become large errors of waiting times: say how near. */
static void print_headroom(const struct kc_run *run)
{
  static const double near = 0.15;
  const struct kc_run_load load = kc_run_load_of(run);
  if (!load.known) return;
  printf("  headroom  %.1f %%: %.1f %% of about %.2f requests/s that could be served for ever, "
         "however\n            late (%s); KV at %.1f %%, batch at %.1f %%\n", 100.0 * load.headroom,
         100.0 * load.rate, load.served_s, trust_word(run), 100.0 * load.kv, 100.0 * load.batch);
  if (has_limits(run->scenario) && load.rate < 1) {
    printf("            its limits end sooner: kvcap plan --max-rate finds the rate that keeps "
           "them\n");
  }
  if (load.headroom >= near) return;
  if (load.rate >= 1) {
    printf("            saturated: more arrives than can be served, and waiting grows as long as\n"
           "            it does\n");
  } else {
    printf("            near saturation: waiting times change far more than the step times they\n"
           "            rest on\n");
  }
}

/* With overlapped scheduling a last step may run for nobody after the last answer is out: the time
 * that counts ends with that answer. */
static double busy_percent(const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  const double whole = (double)s->makespan_ps * run->result.replicas;
  if (s->makespan_ps == 0) return 0.0;
  return (double)s->busy_ps < whole ? 100.0 * (double)s->busy_ps / whole : 100.0;
}

/* Several replicas: how alike they were, and the fullest one. */
static void print_replicas(const struct kc_run *run)
{
  char a[32];
  const struct kc_replay_result *r = &run->result;
  const struct kc_run_balance balance = kc_run_balance_of(r);
  const enum kc_router_policy policy = run->scenario->router.policy;
  if (r->replicas == 1) return;
  printf("  replicas  %u behind %s; the busiest had %.2f times the mean of requests, %.2f of busy\n"
         "            time; the fullest %u running and %.1f %% of its pages", r->replicas,
         kc_router_policy_name(policy), balance.requests, balance.busy, balance.max_running,
         100.0 * (double)balance.kv_peak_pages / (double)run->pages);
  if (policy == KC_ROUTER_SESSION_AFFINITY) {
    printf("; sessions moved %s times", kc_run_grouped(r->router_moves, a));
  }
  printf("\n");
}

static void print_load(const struct kc_run *run)
{
  char a[32], b[32], c[32];
  const struct kc_summary *s = &run->result.summary;
  const double rate = (double)s->output_tok_s_micro / 1e6;
  const uint64_t pages = (uint64_t)run->pages * run->result.replicas;
  printf("\n  output    %.1f tok/s, %.1f per GPU, over %.1f s in %s step%s; busy %.1f %% (%s)\n",
         rate, rate / kc_run_gpus(run->scenario), (double)s->makespan_ps / 1e12,
         kc_run_grouped(s->steps, a), kc_plural(s->steps), busy_percent(run), trust_word(run));
  printf("  load      at most %s running, %s waiting; %s preemptions\n",
         kc_run_grouped(s->max_running, a), kc_run_grouped(s->max_waiting, b),
         kc_run_grouped(s->preemptions, c));
  printf("  KV peak   %s of %s pages in use (%.1f %%)\n", kc_run_grouped(s->kv_peak_pages, a),
         kc_run_grouped(pages, b), 100.0 * (double)s->kv_peak_pages / (double)pages);
  print_replicas(run);
  print_headroom(run);
}

static void print_oom(const struct kc_run *run)
{
  char a[32], b[32], c[32];
  const struct kc_replay_result *r = &run->result;
  const bool closed = run->scenario->workload.is_closed;
  if (r->oom_ps == KC_PS_NEVER) {
    const uint64_t *reasons = r->summary.requests_by_reason;
    const uint64_t refused = reasons[KC_REASON_POOL_TOO_SMALL] + reasons[KC_REASON_NEVER_FITS];
    printf("  OOM       never: the KV of all requests %s stayed within the pool\n",
           refused > 0 ? "taken" : "offered");
    if (refused > 0) {
      printf("            but %s requests were refused: the pool is too small for each alone\n",
             kc_run_grouped(refused, a));
    }
    return;
  }
  printf("  OOM       at %.3f s (%s), request %s: the requests offered", (double)r->oom_ps / 1e12,
         trust_word(run), kc_run_grouped(r->oom_request, a));
  if (r->replicas > 1) printf(" to replica %u", r->oom_replica);
  printf(" %s %s pages, the pool has %s\n",
         closed ? "will need" : "needed", kc_run_grouped(r->oom_demand_pages, b),
         kc_run_grouped(r->pages, c));
  printf("            the policy answered with %s preemptions and at most %s waiting\n",
         kc_run_grouped(r->summary.preemptions, a), kc_run_grouped(r->summary.max_waiting, b));
}

static void print_slo(const struct kc_run *run, const char *name, double limit_ms,
                      const struct kc_statistic *s, enum kc_figure figure)
{
  const uint64_t lost = kc_run_lost(run), all = run->result.summary.requests_total;
  char a[32], b[32];
  if (limit_ms <= 0) return;
  if (s->count == 0) {
    printf("  SLO       %s p95 against %.2f: not known, %s\n", name, limit_ms,
           kc_figure_absence(run, figure));
    return;
  }
  const double value = (double)s->p95_ps / (double)KC_PS_PER_MS;
  printf("  SLO       %s p95 %.2f ms against %.2f: ", name, value, limit_ms);
  if (value <= limit_ms && kc_run_lost_beyond(run, 95)) {
    printf("missed, as %s of %s requests had no answer (%s)\n", kc_run_grouped(lost, a),
           kc_run_grouped(all, b), trust_word(run));
    return;
  }
  printf("%s (%s)", value <= limit_ms ? "met" : "missed", trust_word(run));
  if (lost > 0) {
    printf("; without %s of %s requests, which had no answer", kc_run_grouped(lost, a),
           kc_run_grouped(all, b));
  }
  printf("\n");
}

static void print_cost(const struct kc_run *run)
{
  const struct kc_scenario *scenario = run->scenario;
  print_slo(run, "TTFT", scenario->slo_ttft_p95_ms, &run->result.summary.ttft,
            KC_FIGURE_TTFT_P95_MS);
  print_slo(run, "TPOT", scenario->slo_tpot_p95_ms, &run->result.summary.tpot,
            KC_FIGURE_TPOT_P95_MS);
  kc_run_money_print(run);
  printf("  result    sha256 %s, seed %" PRIu64 "\n", run->result.summary.result_sha256,
         scenario->seed);
}

/* The headline; the JSON document has all. */
static const enum kc_figure interval_figures[] = {
    KC_FIGURE_OUTPUT_TOK_S, KC_FIGURE_TTFT_MEAN_MS, KC_FIGURE_TTFT_P95_MS, KC_FIGURE_TPOT_MEAN_MS,
    KC_FIGURE_TPOT_P95_MS, KC_FIGURE_E2E_MEAN_MS, KC_FIGURE_E2E_P95_MS, KC_FIGURE_USD_PER_MTOK};

static void print_intervals(const struct kc_intervals *intervals)
{
  if (intervals == NULL) return;
  const char *level = kc_cost_level_name(intervals->level);
  printf("\n  intervals of %u replicates: kernels %.2g %% (one deviation)%s%s (%s)\n",
         intervals->replicates, intervals->time_percent,
         intervals->left_out ? ", parameters of fits without one row"
             : intervals->host_unknown ? ", host up to 1 ms a step more" : ", host 10 %",
         intervals->seed_matters ? ", other seeds" : "; the workload has no random part", level);
  if (intervals->level != KC_LEVEL_CALIBRATED) {
    printf("            no end nearer than %.0f %% (assumed) to the figure above, which nothing "
           "measured\n            vouches for\n", 100 * KC_INTERVALS_LEAST);
  }
  printf("  %-14s %12s %12s %12s\n", "", "5 %", "median", "95 %");
  for (size_t f = 0; f < sizeof interval_figures / sizeof interval_figures[0]; f++) {
    const struct kc_interval *i = &intervals->figure[interval_figures[f]];
    if (i->count == 0) continue;
    printf("  %-14s %12.2f %12.2f %12.2f   %s\n", kc_figure_name(interval_figures[f]), i->low,
           i->median, i->high, level);
  }
}

int kc_run_print(const struct kc_run *run, const char *name, const struct kc_intervals *intervals)
{
  print_question(run, name);
  print_workload(run);
  print_memory(run);
  print_requests(&run->result.summary);
  print_latencies(run);
  print_load(run);
  print_oom(run);
  kc_run_groups_print(run);
  print_cost(run);
  print_intervals(intervals);
  return 0;
}
