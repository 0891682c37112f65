/* The bracket of the highest load (see rate.h). Set-up code around runs: it may allocate. */
#include "sim/plan/rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/judge.h"
#include "sim/plan/sweep.h"

enum { NONE = UINT32_MAX, SETS_MAX = KC_SWEEP_BASE_SETS_MAX + 2 };

struct finding {
  struct kc_rate *rate;
  const struct kc_rate_request *request;
  struct kc_point *scratch;
  struct kc_known_points known;
  uint64_t unit, most; /* load to begin with; none above it is tried */
};

/* The changes that make the scenario's load `load`; returns how many. */
static size_t load_sets(const struct finding *finding, uint64_t load, char text[2][96])
{
  const struct kc_workload_spec *work = &finding->rate->base.scenario.workload;
  KC_ASSERT(load > 0);
  if (finding->rate->closed) {
    const uint64_t requests = work->closed.requests > load ? work->closed.requests : load;
    snprintf(text[0], 96, "workload.closed.concurrency=%llu", (unsigned long long)load);
    snprintf(text[1], 96, "workload.closed.requests=%llu", (unsigned long long)requests);
    return 2;
  }
  const struct kc_fraction rate = work->transform.rate;
  snprintf(text[0], 96, "workload.rate=%llu/%llu", (unsigned long long)(rate.numerator * load),
           (unsigned long long)(rate.denominator * KC_RATE_UNIT));
  return 1;
}

/* ---- the database ---- */

static enum kc_err begin_stored(struct finding *finding, struct kc_diag *diag)
{
  const struct kc_rate_request *request = finding->request;
  const struct kc_rate *rate = finding->rate;
  char name[160], axes[KC_REQUIREMENTS_MAX * KC_REQUIREMENT_BYTES + 96];
  size_t used = 0;
  if (request->store == NULL) return KC_OK;
  snprintf(name, sizeof name, KC_RATE_NAME "%s", rate->base.scenario.name);
  for (uint32_t i = 0; i < rate->require_count; i++) {
    used += (size_t)snprintf(axes + used, sizeof axes - used, "%s\n", rate->require[i].text);
  }
  used += (size_t)snprintf(axes + used, sizeof axes - used, "lost=%.17g tolerance=%.17g\n",
                           request->lost, request->tolerance);
  KC_ASSERT(used < sizeof axes);
  const struct kc_question question = {.name = name, .path = request->path,
                                       .sets = request->sets, .set_count = request->set_count,
                                       .axes = axes, .kind = "rate",
                                       .points = KC_RATE_PROBES_MAX};
  KC_TRY(kc_question_begin(request->store, &question, &finding->rate->sweep_id, diag));
  return kc_known_open(&finding->known, request->store, diag);
}

/* Fills a result that is known, or writes one that is not. */
static enum kc_err exchange(struct finding *finding, struct kc_point_result *result,
                            const char *const *sets, size_t set_count, struct kc_diag *diag)
{
  struct kc_rate *rate = finding->rate;
  struct kc_stored_point point;
  bool there = false;
  if (finding->request->store == NULL) return KC_OK;
  if (result->known) {
    rate->known++;
    KC_TRY(kc_known_read(&finding->known, rate->sweep_id, rate->probe_count, result, &there,
                         diag));
  }
  if (there) return KC_OK;
  struct kc_point_row *row = calloc(1, sizeof *row);
  if (row == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory to store a point");
  KC_ASSERT(rate->probe_count < KC_RATE_PROBES_MAX);
  kc_point_row_fill(row, rate->probe_count, result, sets, set_count, &point);
  const enum kc_err err =
      kc_store_points_write(finding->request->store, rate->sweep_id, &point, 1, diag);
  free(row);
  return err;
}

/* ---- the bracket ---- */

/* Evaluates a load, as the next probe. */
static enum kc_err probe_load(struct finding *finding, uint64_t load, bool *holds,
                              struct kc_diag *diag)
{
  struct kc_rate *rate = finding->rate;
  const struct kc_rate_request *request = finding->request;
  const char *sets[SETS_MAX];
  char text[2][96];
  if (rate->probe_count == KC_RATE_PROBES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %d loads were tried: ask for a larger tolerance",
                   KC_RATE_PROBES_MAX);
  }
  struct kc_rate_probe *probe = &rate->probe[rate->probe_count];
  for (size_t i = 0; i < request->set_count; i++) sets[i] = request->sets[i];
  const size_t own = load_sets(finding, load, text);
  for (size_t i = 0; i < own; i++) sets[request->set_count + i] = text[i];
  const struct kc_point_spec spec = {.path = request->path, .sets = sets,
                                     .set_count = request->set_count + own};
  const struct kc_point_context context = {
      .inputs = request->inputs, .version = request->version, .interrupted = request->interrupted,
      .known = request->store != NULL ? kc_known_answer : NULL, .known_context = &finding->known};
  const enum kc_err err = kc_point_evaluate(&context, &spec, finding->scratch, &probe->result);
  if (err != KC_OK) return kc_fail(diag, err, "interrupted");
  KC_TRY(exchange(finding, &probe->result, &sets[request->set_count], own, diag));
  if (probe->result.status != KC_POINT_DONE) {
    *diag = probe->result.why;
    return diag->code;
  }
  const struct kc_judgement judgement =
      kc_judge(rate->require, rate->require_count, request->lost, &probe->result);
  probe->load = load;
  probe->excess = judgement.excess;
  probe->worst = judgement.worst;
  *holds = probe->holds = judgement.excess <= 1;
  if (*holds && (rate->best == NONE || load > rate->probe[rate->best].load)) {
    rate->best = rate->probe_count;
  }
  if (!*holds && (rate->above == NONE || load < rate->probe[rate->above].load)) {
    rate->above = rate->probe_count;
  }
  rate->probe_count++;
  return KC_OK;
}

/* Doubles or halves the load until one holds and one fails. */
static enum kc_err find_bracket(struct finding *finding, struct kc_diag *diag)
{
  bool first, holds;
  uint64_t load = finding->unit;
  KC_TRY(probe_load(finding, load, &first, diag));
  holds = first;
  for (int i = 0; i < KC_RATE_DOUBLINGS && holds == first; i++) {
    if (first ? load > finding->most / 2 : load < 2) return KC_OK;
    load = first ? 2 * load : load / 2;
    KC_TRY(probe_load(finding, load, &holds, diag));
  }
  KC_ASSERT(finding->rate->probe_count > 0);
  return KC_OK;
}

static enum kc_err narrow(struct finding *finding, struct kc_diag *diag)
{
  const struct kc_rate *rate = finding->rate;
  while (rate->best != NONE && rate->above != NONE) {
    const uint64_t low = rate->probe[rate->best].load, high = rate->probe[rate->above].load;
    bool holds;
    if (high <= low + 1) return KC_OK; /* below: holding was not monotone */
    if ((double)(high - low) <= finding->request->tolerance * (double)low) return KC_OK;
    KC_TRY(probe_load(finding, low + (high - low) / 2, &holds, diag));
  }
  return KC_OK;
}

/* Requests a second of the trace, as the scenario has it. */
static enum kc_err measure_arrivals(struct kc_rate *rate, struct kc_inputs *inputs,
                                    struct kc_diag *diag)
{
  struct kc_run *run = calloc(1, sizeof *run);
  KC_ASSERT(!rate->closed);
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  const enum kc_err err = kc_run_prepare_from(run, &rate->base.scenario, inputs, diag);
  if (err == KC_OK && run->trace.span_ps > 0) {
    rate->arrivals_s = run->request_count / ((double)run->trace.span_ps / 1e12);
  }
  kc_run_deinit(run);
  free(run);
  return err;
}

static enum kc_err check(struct kc_rate *rate, const struct kc_rate_request *request,
                         struct kc_diag *diag)
{
  const struct kc_scenario *scenario = &rate->base.scenario;
  memcpy(rate->require, request->require, sizeof rate->require);
  rate->require_count = request->require_count;
  KC_ASSERT(request->tolerance > 0);
  if (rate->require_count == 0) rate->require_count = kc_judge_slo(scenario, rate->require);
  if (rate->require_count > 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0, "states no slo, so it holds any "
                    "load: add slo: {ttft_p95_ms: ..., tpot_p95_ms: ...} or give --slo, such as "
                    "--slo 'ttft_p95_ms<=2000'");
}

static enum kc_err find(struct finding *finding, struct kc_diag *diag)
{
  struct kc_rate *rate = finding->rate;
  const struct kc_workload_spec *work = &rate->base.scenario.workload;
  KC_TRY(check(rate, finding->request, diag));
  rate->closed = work->is_closed;
  finding->unit = rate->closed ? work->closed.concurrency : KC_RATE_UNIT;
  finding->most = rate->closed ? 65536 : (uint64_t)KC_RATE_UNIT << KC_RATE_DOUBLINGS;
  KC_ASSERT(finding->unit > 0);
  if (!rate->closed) KC_TRY(measure_arrivals(rate, finding->request->inputs, diag));
  KC_TRY(begin_stored(finding, diag));
  KC_TRY(find_bracket(finding, diag));
  return narrow(finding, diag);
}

enum kc_err kc_rate_find(struct kc_rate *rate, const struct kc_rate_request *request,
                         struct kc_diag_list *problems)
{
  struct kc_diag diag = {0};
  memset(rate, 0, sizeof *rate);
  rate->best = rate->above = NONE;
  KC_ASSERT(request->set_count + 2 <= SETS_MAX);
  KC_TRY(kc_point_load(&rate->base, request->path, request->sets, request->set_count, problems));
  struct finding finding = {.rate = rate, .request = request,
                            .scratch = calloc(1, sizeof *finding.scratch)};
  const enum kc_err err = finding.scratch == NULL
                              ? kc_fail(&diag, KC_ERR_MEMORY, "no memory for a scenario")
                              : find(&finding, &diag);
  free(finding.scratch);
  kc_known_close(&finding.known);
  if (err == KC_OK) return KC_OK;
  return kc_diag_list_add(problems, diag.code, diag.path, diag.line, diag.column, "%s", diag.text);
}
