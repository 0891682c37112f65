/* Bounds of an instance (see bound.h). Set-up code around runs: it may allocate.
 *
 * Lengths are rounded down to multiples of GRAIN tokens before the step model is asked, and what it
 * says is remembered: a floor stays a floor, and a workload of any size costs a few hundred
 * steps. */
#include "sim/plan/bound.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { GRAIN = 128, PARTS = 4 };

/* ---- the workload ---- */

static void sum_up(struct kc_bound_workload *workload)
{
  uint64_t input = 0, output = 0;
  KC_ASSERT(workload->count > 0);
  for (uint32_t i = 0; i < workload->count; i++) {
    input += workload->length[i].input;
    output += workload->length[i].output;
    if (workload->length[i].output > workload->output_max) {
      workload->output_max = workload->length[i].output;
    }
  }
  workload->output_tokens = (double)output * workload->copies;
  workload->mean_input = (uint32_t)(input / workload->count);
  workload->mean_output = (uint32_t)(output / workload->count);
  if (workload->mean_input == 0) workload->mean_input = 1;
  if (workload->mean_output == 0) workload->mean_output = 1;
}

static bool anybody_gives_up(const struct kc_run *run)
{
  const struct kc_clients_spec *clients = &run->scenario->workload.clients;
  for (uint32_t i = 0; i < clients->class_count; i++) {
    const struct kc_patience *patience = &clients->class[i].patience;
    if (patience->timeout_ps != KC_PS_NEVER || patience->queue_timeout_ps != KC_PS_NEVER) {
      return true;
    }
  }
  return run->clients.cancel_after_ps != NULL;
}

enum kc_err kc_bound_workload_of(struct kc_bound_workload *workload, const struct kc_run *run,
                                 struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_request *rows = run->sessions ? run->rows : run->requests;
  const uint64_t longest = run->replay.instance.sched.max_model_len;
  const uint32_t count = work->is_closed ? 1 : run->request_count;
  KC_ASSERT(run->request_count > 0 && rows != NULL);
  *workload = (struct kc_bound_workload){.timed = !work->is_closed && !run->sessions,
                                         .certain = !anybody_gives_up(run),
                                         .copies = work->is_closed ? run->request_count : 1,
                                         .at_once = work->is_closed ? work->closed.concurrency
                                                                    : UINT32_MAX};
  workload->length = calloc(count, sizeof *workload->length);
  if (workload->length == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the lengths");
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_request request =
        work->is_closed ? (struct kc_request){.input_tokens = work->closed.input_tokens,
                                              .output_tokens = work->closed.output_tokens,
                                              .max_tokens = work->closed.output_tokens}
                        : rows[i];
    if (request.input_tokens >= longest) {
      workload->refused++;
      continue;
    }
    workload->length[workload->count++] =
        (struct kc_bound_length){request.input_tokens, kc_request_output(&request, longest)};
  }
  if (workload->count == 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, run->scenario->path, 0, 0, "every prompt has at least "
                      "the %llu tokens of scheduler.max_model_len and would be refused",
                      (unsigned long long)longest);
  }
  sum_up(workload);
  if (!workload->timed) return KC_OK;
  workload->first_arrival_ps = rows[0].arrival_ps;
  workload->last_arrival_ps = rows[run->request_count - 1].arrival_ps;
  if (workload->last_arrival_ps > 0) {
    workload->rate_s = run->request_count / ((double)workload->last_arrival_ps / 1e12);
  }
  return KC_OK;
}

void kc_bound_workload_free(struct kc_bound_workload *workload)
{
  free(workload->length);
  workload->length = NULL;
  workload->count = 0;
}

double kc_bound_lost(const struct kc_run *run, const struct kc_bound_workload *workload)
{
  const uint64_t pool = (uint64_t)run->pages * run->replay.instance.sched.page_size;
  uint32_t lost = workload->refused;
  KC_ASSERT(workload->count > 0);
  for (uint32_t i = 0; i < workload->count; i++) {
    const struct kc_bound_length length = workload->length[i];
    lost += (uint64_t)length.input + length.output - 1 > pool; /* the last token needs no KV */
  }
  return (double)lost / ((double)workload->count + workload->refused);
}

/* ---- floors ---- */

struct floors {
  const struct kc_run *run;
  kc_ps *decode, *prompt; /* [length / GRAIN]; 0 = not asked yet */
  size_t entries;
};

/* One request alone on the server: a decode at `context`, or `count` tokens of its prompt that
 * follow `start`. */
static kc_ps alone(const struct kc_run *run, uint64_t context, uint64_t start, uint64_t count)
{
  const struct kc_sched_config *sched = &run->replay.instance.sched;
  struct kc_aggregates sum = {.logits = 1};
  KC_ASSERT((context > 0) != (count > 0));
  if (context > 0) {
    sum.decodes = 1;
    sum.decode_context = sum.decode_context_max = context;
  } else {
    sum.chunks = 1;
    sum.prefill_tokens = count;
    sum.prefill_context = start + count;
    sum.prefill_pairs = start * count + count * (count + 1) / 2;
  }
  const uint64_t end = context > 0 ? context : start + count;
  sum.table_entries = (end + sched->page_size - 1) / sched->page_size;
  for (uint32_t i = 0; i < sched->cap_count; i++) {
    const uint64_t cap = sched->cap[i];
    const uint64_t full = count < cap ? count : cap; /* at least: as if nothing came before */
    sum.decode_capped[i] = context < cap ? context : cap;
    sum.prefill_capped_context[i] = count;
    sum.prefill_capped_pairs[i] = full * (full + 1) / 2 + (count - full) * cap;
  }
  return kc_cost_step(&run->cost, &sum);
}

static kc_ps prompt_floor(struct floors *floors, uint64_t input)
{
  const struct kc_run *run = floors->run;
  if (run->scenario->pool[0].role == KC_ROLE_DECODE) return alone(run, input, 0, 0);
  if (run->prefix_cache) return alone(run, 0, 0, 1);
  kc_ps *known = &floors->prompt[input / GRAIN];
  KC_ASSERT(input / GRAIN < floors->entries);
  if (*known > 0) return *known;
  const uint64_t chunk = kc_run_prompt_chunk(run);
  input = input < GRAIN ? 1 : input - input % GRAIN;
  for (uint64_t start = 0; start < input;) {
    const uint64_t count = input - start < chunk ? input - start : chunk;
    *known += alone(run, 0, start, count);
    start += count;
  }
  return *known;
}

static kc_ps decode_floor(struct floors *floors, uint64_t context)
{
  kc_ps *known = &floors->decode[context / GRAIN];
  KC_ASSERT(context / GRAIN < floors->entries);
  if (*known == 0) {
    const uint64_t down = context - context % GRAIN;
    *known = alone(floors->run, down > 0 ? down : 1, 0, 0);
  }
  return *known;
}

/* Mean gap of an answer: contexts grow, so each part of it costs at least its first token. */
static kc_ps gap_floor(struct floors *floors, struct kc_bound_length length)
{
  kc_ps sum = 0;
  KC_ASSERT(length.output > 1);
  for (uint64_t part = 0; part < PARTS; part++) {
    sum += decode_floor(floors, length.input + 1 + (length.output - 1) * part / PARTS);
  }
  return sum / PARTS;
}

static void put_floors(struct kc_figure_set *set, enum kc_figure mean, kc_ps *values,
                       uint64_t count)
{
  struct kc_statistic s;
  kc_statistic_of(&s, values, count);
  if (count == 0) return;
  const kc_ps at[] = {s.mean_ps, s.p50_ps, s.p90_ps, s.p95_ps, s.p99_ps};
  for (int i = 0; i < 5; i++) {
    KC_ASSERT(at[i] >= 0);
    kc_figure_put(set, (enum kc_figure)((int)mean + i), (double)at[i] / (double)KC_PS_PER_MS);
  }
}

static void fill_floors(struct floors *floors, const struct kc_bound_workload *workload,
                        kc_ps *ttft, kc_ps *tpot, kc_ps *e2e, struct kc_figure_set *set)
{
  uint64_t gaps = 0;
  for (uint32_t i = 0; i < workload->count; i++) {
    const struct kc_bound_length length = workload->length[i];
    ttft[i] = prompt_floor(floors, length.input);
    e2e[i] = ttft[i];
    if (length.output < 2) continue;
    tpot[gaps] = gap_floor(floors, length);
    e2e[i] += tpot[gaps++] * (length.output - 1);
  }
  KC_ASSERT(gaps <= workload->count);
  put_floors(set, KC_FIGURE_TTFT_MEAN_MS, ttft, workload->count);
  put_floors(set, KC_FIGURE_TPOT_MEAN_MS, tpot, gaps);
  put_floors(set, KC_FIGURE_E2E_MEAN_MS, e2e, workload->count);
}

enum kc_err kc_bound_floors(const struct kc_run *run, const struct kc_bound_workload *workload,
                            struct kc_figure_set *set, struct kc_diag *diag)
{
  struct floors floors = {.run = run};
  uint64_t longest = 0;
  KC_ASSERT(workload->count > 0);
  memset(set, 0, sizeof *set);
  if (!workload->certain) return KC_OK;
  for (uint32_t i = 0; i < workload->count; i++) {
    const uint64_t length = (uint64_t)workload->length[i].input + workload->length[i].output;
    if (length > longest) longest = length;
  }
  floors.entries = longest / GRAIN + 1;
  floors.decode = calloc(2 * floors.entries, sizeof *floors.decode);
  kc_ps *values = calloc(3 * (size_t)workload->count, sizeof *values);
  if (floors.decode != NULL && values != NULL) {
    floors.prompt = floors.decode + floors.entries;
    fill_floors(&floors, workload, values, values + workload->count, values + 2 * workload->count,
                set);
  }
  const bool short_of_memory = floors.decode == NULL || values == NULL;
  free(floors.decode);
  free(values);
  return short_of_memory ? kc_fail(diag, KC_ERR_MEMORY, "no memory for the floors") : KC_OK;
}

/* ---- work ---- */

/* Totals of the cheapest part of a workload. Each is the least of its kind, so together they are no
 * more than those of any part of that size. */
struct totals {
  uint64_t prompt; /* tokens */
  uint64_t made;   /* tokens that decode steps make */
  uint64_t read;   /* sum of the contexts that they read */
};

static int descending(const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x < y) - (x > y);
}

/* Sum of `value` without the `missing` largest. */
static uint64_t least_sum(uint64_t *value, uint32_t count, uint32_t missing)
{
  uint64_t sum = 0;
  KC_ASSERT(missing <= count);
  if (missing > 0) qsort(value, count, sizeof *value, descending);
  for (uint32_t i = missing; i < count; i++) sum += value[i];
  return sum;
}

static bool totals_of(struct totals *totals, const struct kc_bound_workload *workload,
                      uint32_t missing)
{
  const uint32_t count = workload->count;
  uint64_t *value = calloc(count, sizeof *value);
  if (value == NULL) return false;
  uint64_t *const out[] = {&totals->prompt, &totals->made, &totals->read};
  for (int kind = 0; kind < 3; kind++) {
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t in = workload->length[i].input, made = workload->length[i].output - 1;
      value[i] = kind == 0   ? in
                 : kind == 1 ? made
                             : made * (in + 1) + made * (made > 0 ? made - 1 : 0) / 2;
    }
    *out[kind] = least_sum(value, count, missing) * workload->copies;
  }
  free(value);
  return true;
}

static uint64_t quotient_up(uint64_t value, uint64_t by)
{
  KC_ASSERT(by > 0);
  return value / by + (value % by != 0);
}

/* Fewest steps in which the decodes can be done, and in which everything can. */
struct fewest {
  uint64_t decode, all;
};

static struct fewest fewest_steps(const struct kc_run *run, const struct totals *totals,
                                  uint32_t at_once)
{
  const struct kc_sched_config *sched = &run->replay.instance.sched;
  const uint64_t pool = (uint64_t)run->pages * sched->page_size;
  const uint32_t batch = at_once < sched->max_running ? at_once : sched->max_running;
  struct fewest steps = {.decode = quotient_up(totals->made, batch)};
  const uint64_t by_pool = quotient_up(totals->read, pool);
  const uint64_t chunk = kc_run_prompt_chunk(run);
  if (by_pool > steps.decode) steps.decode = by_pool;
  steps.all = steps.decode > 0 ? steps.decode : 1;
  if (chunk < UINT64_MAX) { /* decodes share the step with the chunk or have one of their own */
    const uint64_t most = chunk + batch;
    const uint64_t by_tokens = quotient_up(totals->prompt + totals->made, most);
    if (by_tokens > steps.all) steps.all = by_tokens;
  }
  KC_ASSERT(steps.all >= steps.decode);
  return steps;
}

/* The mean of those steps. What reading a prompt's own past costs is left out: it is not known in
 * how many of them prompts take part. */
static struct kc_aggregates mean_step(const struct kc_run *run, const struct totals *totals,
                                      uint64_t steps)
{
  struct kc_aggregates mean = {.decodes = (uint32_t)(totals->made / steps),
                               .logits = (uint32_t)(totals->made / steps),
                               .prefill_tokens = totals->prompt / steps};
  const uint32_t caps = run->replay.instance.sched.cap_count;
  KC_ASSERT(steps > 0);
  if (mean.decodes == 0) { /* a chunk in every one */
    mean.chunks = 1;
    if (mean.prefill_tokens == 0) mean.prefill_tokens = 1;
    mean.prefill_pairs = mean.prefill_context = mean.prefill_tokens;
  } else {
    mean.decode_context = caps > 0 ? mean.decodes : totals->read / steps; /* windows read less */
    if (mean.decode_context < mean.decodes) mean.decode_context = mean.decodes;
    mean.decode_context_max = mean.decode_context / mean.decodes;
  }
  for (uint32_t i = 0; i < caps; i++) {
    mean.decode_capped[i] = mean.decodes;
    mean.prefill_capped_pairs[i] = mean.prefill_capped_context[i] = mean.prefill_pairs;
  }
  return mean;
}

/* Fixed part of what decodes cost a step, in seconds. */
static double decode_latency_s(const struct kc_cost *cost)
{
  uint64_t latency = 0;
  KC_ASSERT(cost->context_ops <= cost->op_count);
  for (uint32_t i = 0; i < cost->context_ops; i++) {
    if (cost->op[i].kind == KC_COST_DECODE_ATTENTION) latency += cost->op[i].latency;
  }
  return (double)(latency >> KC_COST_FRACTION_BITS) / 1e12;
}

double kc_bound_work_s(const struct kc_run *run, const struct kc_bound_workload *workload,
                       uint32_t missing)
{
  struct totals totals;
  const struct kc_cost *cost = &run->cost;
  KC_ASSERT(workload->count > 0);
  KC_ASSERT(workload->copies == 1 || missing == 0);
  if (missing >= workload->count || !totals_of(&totals, workload, missing)) return 0;
  const bool free_prompts = run->prefix_cache || kc_run_prompt_chunk(run) == UINT64_MAX ||
                            run->scenario->pool[0].role == KC_ROLE_DECODE;
  if (free_prompts) totals.prompt = 0;
  const struct fewest steps = fewest_steps(run, &totals, workload->at_once);
  if (free_prompts && totals.made < steps.all) return 0;
  const struct kc_aggregates mean = mean_step(run, &totals, steps.all);
  double seconds = (double)kc_cost_step(cost, &mean) / 1e12 * (double)steps.all;
  if (mean.decodes > 0) seconds -= decode_latency_s(cost) * (double)(steps.all - steps.decode);
  const bool convex = cost->tables == NULL && cost->experts == 0 && cost->eager_floor == 0;
  KC_ASSERT(seconds > 0);
  return convex ? seconds : seconds * (1 - KC_BOUND_SLACK);
}

/* ---- span ---- */

double kc_bound_span_s(const struct kc_bound_workload *workload, const struct kc_figure_set *floors)
{
  KC_ASSERT(workload->count > 0 && workload->at_once > 0);
  if (workload->timed) {
    return (double)(workload->last_arrival_ps - workload->first_arrival_ps) / 1e12;
  }
  if (workload->at_once == UINT32_MAX || !floors->known[KC_FIGURE_E2E_MEAN_MS]) return 0;
  /* Each place of the loop is taken by one request after another, each for its time at least. */
  const double requests = (double)workload->count * workload->copies;
  return floors->value[KC_FIGURE_E2E_MEAN_MS] / 1e3 * requests / workload->at_once;
}

/* ---- panel ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* No step is larger than what this instance can form: tables of measured kernels end there. */
uint32_t kc_bound_panel(const struct kc_run *run, uint64_t *panel, uint32_t max)
{
  static const uint32_t decodes[] = {1, 8, 32, 128};
  static const uint64_t contexts[] = {256, 2048, 16384}, chunks[] = {0, 512, 2048};
  const struct kc_sched_config *sched = &run->replay.instance.sched;
  const uint64_t longest = least(kc_run_prompt_chunk(run), sched->max_model_len);
  uint32_t count = 0;
  for (size_t i = 0; i < 4; i++) {
    for (size_t j = 0; j < 3; j++) {
      for (size_t k = 0; k < 3 && count < max; k++) {
        const struct kc_aggregates sum = kc_run_uniform_step(
            sched, (uint32_t)least(decodes[i], sched->max_running),
            least(contexts[j], sched->max_model_len), least(chunks[k], longest));
        const kc_ps time = kc_cost_step(&run->cost, &sum);
        KC_ASSERT(time > 0);
        panel[count++] = (uint64_t)time;
      }
    }
  }
  return count;
}
