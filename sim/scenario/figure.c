/* The table of figures (see figure.h), and where each comes from. */
#include "sim/scenario/figure.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/scenario/spending.h"

#define GIB 1073741824.0

struct figure_row {
  const char *name, *unit, *help;
  enum kc_figure_better better;
  bool run;
  int decimals;
};

static const struct figure_row rows[] = {
#define ROW(id, name, unit, better, run, decimals, help) \
  {name, unit, help, KC_BETTER_##better, run, decimals},
  KC_FIGURE_TABLE(ROW)
#undef ROW
};
static_assert(sizeof rows / sizeof rows[0] == KC_FIGURES, "one row a figure");

static const struct figure_row *row_of(enum kc_figure figure)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  return &rows[figure];
}

const char *kc_figure_name(enum kc_figure figure) { return row_of(figure)->name; }
const char *kc_figure_unit(enum kc_figure figure) { return row_of(figure)->unit; }
const char *kc_figure_help(enum kc_figure figure) { return row_of(figure)->help; }
bool kc_figure_needs_run(enum kc_figure figure) { return row_of(figure)->run; }
int kc_figure_decimals(enum kc_figure figure) { return row_of(figure)->decimals; }

enum kc_figure_better kc_figure_better(enum kc_figure figure)
{
  return row_of(figure)->better;
}

enum { DECIMALS_MAX = 15 };

/* "1 request", "2 requests", "12.40 ms"; the units that are counted end in an "s" of their own. */
static const char *write_text(const struct figure_row *row, double value, int decimals,
                              char out[KC_FIGURE_TEXT_BYTES])
{
  const size_t bytes = strlen(row->unit);
  const bool counted = row->decimals == 0 && bytes > 1 && row->unit[bytes - 1] == 's';
  KC_ASSERT(out != NULL);
  KC_ASSERT(decimals >= 0 && decimals <= DECIMALS_MAX);
  snprintf(out, KC_FIGURE_TEXT_BYTES, "%.*f%s%.*s", decimals, value, bytes > 0 ? " " : "",
           (int)(counted && value == 1 ? bytes - 1 : bytes), row->unit);
  return out;
}

const char *kc_figure_text(enum kc_figure figure, double value, char out[KC_FIGURE_TEXT_BYTES])
{
  const struct figure_row *row = row_of(figure);
  return write_text(row, value, row->decimals, out);
}

/* What `decimals` of a value say. */
static double said(double value, int decimals)
{
  char text[400];
  double back = value;
  KC_ASSERT(decimals >= 0 && decimals <= DECIMALS_MAX);
  const int length = snprintf(text, sizeof text, "%.*f", decimals, value);
  (void)kc_parse_double(text, (size_t)length, &back);
  return back;
}

static int side(double value, double limit)
{
  return (value > limit) - (value < limit);
}

const char *kc_figure_text_against(enum kc_figure figure, double value, double limit,
                                   char out[KC_FIGURE_TEXT_BYTES])
{
  const struct figure_row *row = row_of(figure);
  int decimals = row->decimals;
  KC_ASSERT(isfinite(value) && isfinite(limit));
  while (decimals < DECIMALS_MAX && side(said(value, decimals), limit) != side(value, limit)) {
    decimals++;
  }
  return write_text(row, value, decimals, out);
}

const char *kc_figure_text_floor(enum kc_figure figure, double floor,
                                 char out[KC_FIGURE_TEXT_BYTES])
{
  const struct figure_row *row = row_of(figure);
  double step = 1;
  KC_ASSERT(isfinite(floor));
  for (int d = 0; d < row->decimals; d++) step /= 10;
  const bool above = said(floor, row->decimals) > floor;
  return write_text(row, above ? floor - step : floor, row->decimals, out);
}

int kc_figure_percentile(enum kc_figure figure, enum kc_figure mean)
{
  static const int percents[] = {0, 50, 90, 95, 99};
  const int at = (int)figure - (int)mean;
  KC_ASSERT((unsigned)figure < KC_FIGURES && (unsigned)mean < KC_FIGURES);
  return at >= 0 && at < 5 ? percents[at] : -1;
}

bool kc_figure_is_latency(enum kc_figure figure)
{
  static const enum kc_figure means[] = {KC_FIGURE_TTFT_MEAN_MS, KC_FIGURE_TPOT_MEAN_MS,
                                         KC_FIGURE_ITL_MEAN_MS, KC_FIGURE_E2E_MEAN_MS};
  for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
    if (kc_figure_percentile(figure, means[i]) >= 0) return true;
  }
  return false;
}

/* Names under which the document of a run states a figure, where they differ. */
static const struct {
  const char *name;
  enum kc_figure figure;
} aliases[] = {{"cost_usd_per_mtok", KC_FIGURE_USD_PER_MTOK},
               {"output_tok_s_per_gpu", KC_FIGURE_OUTPUT_TOK_S_GPU}};

enum kc_err kc_figure_parse(const char *name, size_t bytes, enum kc_figure *figure,
                            struct kc_diag *diag)
{
  char typed[64];
  unsigned least = UINT32_MAX;
  KC_ASSERT(name != NULL && figure != NULL);
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    if (strlen(aliases[i].name) != bytes || memcmp(aliases[i].name, name, bytes) != 0) continue;
    *figure = aliases[i].figure;
    return KC_OK;
  }
  snprintf(typed, sizeof typed, "%.*s", bytes < sizeof typed ? (int)bytes : 63, name);
  for (int f = 0; f < KC_FIGURES; f++) {
    const unsigned distance = kc_edit_distance(typed, rows[f].name);
    if (distance >= least) continue;
    least = distance;
    *figure = (enum kc_figure)f;
  }
  if (bytes < sizeof typed && strcmp(typed, kc_figure_name(*figure)) == 0) return KC_OK;
  const bool near = least <= kc_edit_reach(typed);
  return kc_fail(diag, KC_ERR_USAGE, "no figure is called \"%s\"%s%s%s `kvcap help figures` lists "
                 "them", typed, near ? "; did you mean " : ";", near ? kc_figure_name(*figure) : "",
                 near ? "?" : "");
}

void kc_figure_put(struct kc_figure_set *set, enum kc_figure figure, double value)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  KC_ASSERT(isfinite(value));
  set->known[figure] = true;
  set->value[figure] = value;
}

/* ---- of the bill ---- */

/* Requests of a closed workload's length: the same bill, asked for that length. */
static void put_requests_fit(const struct kc_scenario *scenario, struct kc_figure_set *set)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  struct kc_memory_config memory = pool->memory;
  struct kc_fit fit;
  struct kc_diag diag;
  KC_ASSERT(scenario->workload.is_closed);
  memory.context = (uint64_t)scenario->workload.closed.input_tokens +
                   scenario->workload.closed.output_tokens;
  memory.concurrency = 1;
  if (kc_fit_compute(&fit, &scenario->model, &pool->precision, &pool->gpu, &memory, &diag) !=
      KC_OK) {
    return;
  }
  kc_figure_put(set, KC_FIGURE_REQUESTS_FIT, (double)fit.concurrency_max);
}

void kc_figures_of_fit(const struct kc_scenario *scenario, const struct kc_fit *fit,
                       struct kc_figure_set *set)
{
  const double gpus = kc_run_gpus(scenario);
  const double checkpoint = (double)fit->checkpoint_bytes / GIB;
  KC_ASSERT(gpus >= 1);
  kc_figure_put(set, KC_FIGURE_FITS, fit->fits);
  kc_figure_put(set, KC_FIGURE_GPUS, gpus);
  kc_figure_put(set, KC_FIGURE_KV_TOKENS, (double)fit->kv_tokens);
  kc_figure_put(set, KC_FIGURE_KV_ROOM_GIB, (double)fit->kv_budget_bytes / GIB * gpus);
  kc_figure_put(set, KC_FIGURE_KV_TOKEN_BYTES, (double)fit->kv_token_bytes);
  kc_figure_put(set, KC_FIGURE_WEIGHTS_GPU_GIB, (double)fit->weights_bytes / GIB);
  kc_figure_put(set, KC_FIGURE_CHECKPOINT_GIB, checkpoint);
  kc_figure_put(set, KC_FIGURE_CHECKPOINT_GPU_GIB, checkpoint / gpus);
  if (scenario->workload.is_closed) put_requests_fit(scenario, set);
}

/* ---- of a run ---- */

static double milliseconds(kc_ps time_ps)
{
  return (double)time_ps / (double)KC_PS_PER_MS;
}

/* Five figures in the order of the table, from the first of them on. */
static void put_latency(struct kc_figure_set *set, enum kc_figure first,
                        const struct kc_statistic *of)
{
  const kc_ps part[] = {of->mean_ps, of->p50_ps, of->p90_ps, of->p95_ps, of->p99_ps};
  KC_ASSERT(first + 4 < KC_FIGURES);
  if (of->count == 0) return;
  for (int i = 0; i < 5; i++) {
    kc_figure_put(set, (enum kc_figure)((int)first + i), milliseconds(part[i]));
  }
}

static void put_rates(const struct kc_run *run, struct kc_figure_set *set)
{
  const struct kc_summary *s = &run->result.summary;
  const double seconds = (double)s->makespan_ps / (double)KC_PS_PER_S;
  const double output = (double)s->output_tok_s_micro / 1e6;
  KC_ASSERT(s->busy_ps >= 0);
  kc_figure_put(set, KC_FIGURE_MAKESPAN_S, seconds);
  if (s->makespan_ps == 0) return;
  const double input = (double)s->input_tokens_completed / seconds;
  kc_figure_put(set, KC_FIGURE_OUTPUT_TOK_S, output);
  kc_figure_put(set, KC_FIGURE_OUTPUT_TOK_S_GPU, output / kc_run_gpus(run->scenario));
  kc_figure_put(set, KC_FIGURE_INPUT_TOK_S, input);
  kc_figure_put(set, KC_FIGURE_TOTAL_TOK_S, input + output);
  kc_figure_put(set, KC_FIGURE_REQUEST_S,
                (double)s->requests_by_status[KC_STATUS_COMPLETED] / seconds);
  kc_figure_put(set, KC_FIGURE_BUSY_SHARE,
                (double)s->busy_ps / (double)s->makespan_ps / run->result.replicas);
  if (s->tpot.count > 0 && s->tpot.mean_ps > 0) {
    kc_figure_put(set, KC_FIGURE_OUTPUT_TOK_S_USER, 1e3 / milliseconds(s->tpot.mean_ps));
  }
  double goodput;
  if (kc_run_goodput(run, &goodput)) kc_figure_put(set, KC_FIGURE_GOODPUT_REQ_S, goodput);
}

static void put_requests(const struct kc_run *run, struct kc_figure_set *set)
{
  static const struct {
    enum kc_figure figure;
    enum kc_status status;
  } ended[] = {{KC_FIGURE_COMPLETED_SHARE, KC_STATUS_COMPLETED},
               {KC_FIGURE_REJECTED_SHARE, KC_STATUS_REJECTED},
               {KC_FIGURE_FAILED_SHARE, KC_STATUS_FAILED},
               {KC_FIGURE_TIMED_OUT_SHARE, KC_STATUS_TIMED_OUT},
               {KC_FIGURE_CANCELLED_SHARE, KC_STATUS_CANCELLED}};
  const struct kc_summary *s = &run->result.summary;
  const double all = (double)s->requests_total;
  double goodput;
  KC_ASSERT(s->requests_total > 0);
  for (size_t i = 0; i < sizeof ended / sizeof ended[0]; i++) {
    kc_figure_put(set, ended[i].figure, (double)s->requests_by_status[ended[i].status] / all);
  }
  if (kc_run_goodput(run, &goodput)) {
    kc_figure_put(set, KC_FIGURE_SLO_SHARE, (double)s->slo_met / all);
  }
  kc_figure_put(set, KC_FIGURE_PREEMPTIONS, (double)s->preemptions);
  kc_figure_put(set, KC_FIGURE_MAX_RUNNING, s->max_running);
  kc_figure_put(set, KC_FIGURE_MAX_WAITING, s->max_waiting);
}

static void put_memory(const struct kc_run *run, struct kc_figure_set *set)
{
  const struct kc_run_load load = kc_run_load_of(run);
  const bool oom = run->result.oom_ps != KC_PS_NEVER;
  double hit_rate;
  KC_ASSERT(run->pages > 0);
  const struct kc_run_balance balance = kc_run_balance_of(&run->result);
  kc_figure_put(set, KC_FIGURE_MAX_RUNNING_REPLICA, balance.max_running);
  kc_figure_put(set, KC_FIGURE_KV_PEAK_SHARE, (double)balance.kv_peak_pages / run->pages);
  kc_figure_put(set, KC_FIGURE_OOM, oom);
  if (oom) {
    kc_figure_put(set, KC_FIGURE_OOM_S, (double)run->result.oom_ps / (double)KC_PS_PER_S);
  }
  if (kc_run_hit_rate(run, &hit_rate)) kc_figure_put(set, KC_FIGURE_HIT_RATE, hit_rate);
  if (load.known) kc_figure_put(set, KC_FIGURE_HEADROOM, load.headroom);
}

static void put_maybe(struct kc_figure_set *set, enum kc_figure figure, struct kc_maybe maybe)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  if (maybe.known) kc_figure_put(set, figure, maybe.value);
}

static void put_spending(const struct kc_run *run, struct kc_figure_set *set)
{
  struct kc_spending s;
  double usd;
  KC_ASSERT(run->result.replicas >= 1);
  kc_run_spending(run, &s);
  kc_figure_put(set, KC_FIGURE_GPU_HOURS, s.gpu_hours);
  kc_figure_put(set, KC_FIGURE_KWH, s.kwh);
  put_maybe(set, KC_FIGURE_USD_TOTAL, s.usd);
  if (kc_run_cost(run, &usd)) kc_figure_put(set, KC_FIGURE_USD_PER_MTOK, usd);
  put_maybe(set, KC_FIGURE_USD_PER_MTOK_INPUT, s.input_mtok_usd);
  put_maybe(set, KC_FIGURE_USD_PER_MTOK_CACHED, s.cached_mtok_usd);
  put_maybe(set, KC_FIGURE_USD_PER_MTOK_OUTPUT, s.decode_mtok_usd);
  put_maybe(set, KC_FIGURE_API_USD, s.api_usd);
  put_maybe(set, KC_FIGURE_API_RATIO, s.api_ratio);
  put_maybe(set, KC_FIGURE_BREAK_EVEN_REQ_S, s.break_even_req_s);
  put_maybe(set, KC_FIGURE_BREAK_EVEN_SHARE, s.break_even_share);
  put_maybe(set, KC_FIGURE_JOULES_PER_TOKEN, s.joules_per_token);
  kc_figure_put(set, KC_FIGURE_IMBALANCE, kc_run_balance_of(&run->result).busy);
}

void kc_figures_of_run(const struct kc_run *run, struct kc_figure_set *set)
{
  const struct kc_summary *s = &run->result.summary;
  memset(set, 0, sizeof *set);
  kc_figures_of_fit(run->scenario, &run->fit, set);
  put_rates(run, set);
  put_requests(run, set);
  put_latency(set, KC_FIGURE_TTFT_MEAN_MS, &s->ttft);
  put_latency(set, KC_FIGURE_TPOT_MEAN_MS, &s->tpot);
  put_latency(set, KC_FIGURE_ITL_MEAN_MS, &s->itl);
  put_latency(set, KC_FIGURE_E2E_MEAN_MS, &s->e2e);
  put_memory(run, set);
  put_spending(run, set);
}
