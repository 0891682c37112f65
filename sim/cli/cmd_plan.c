/* kvcap plan: the cheapest deployment that meets an SLO on a trace. Reads arguments, lets sim/plan
 * search, hands the answer to a printer (plan_print.c for people, plan_json.c for programs). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/plan_output.h"
#include "sim/cli/progress.h"
#include "sim/cli/run_output.h"
#include "sim/cli/sets.h"
#include "sim/cli/sweep_setup.h"

struct arguments {
  char trace[KC_DIAG_PATH_BYTES];
  bool trace_given;
  struct kc_option_list sets, slo, prices;
  char axis[KC_AXES][512];
  bool axis_given[KC_AXES];
  char replicas[512];
  bool replicas_given;
  int objective;
  bool objective_given;
  double budget;
  char database[KC_DIAG_PATH_BYTES];
  bool database_given;
  uint32_t gpus_max, spare, threads;
  double headroom, lost, tolerance;
  bool tolerance_given;
  bool exhaustive, max_rate, json;
};

#define FIELD(name) offsetof(struct arguments, name)
#define AXIS(id, name, looks, sentence)                                                     \
  {.key = name, .type = KC_OPTION_TEXT, .offset = FIELD(axis) + (id) * 512, .size = 512,     \
   .set_offset = FIELD(axis_given) + (id) * sizeof(bool), .values = looks, .help = sentence}

static const struct kc_option options[] = {
    {.key = "slo", .type = KC_OPTION_LIST, .offset = FIELD(slo), .values = "FIGURE<=NUMBER",
     .help = "What has to hold, such as 'ttft_p95_ms<=2000'; repeatable; the scenario's slo unless "
             "given."},
    AXIS(KC_AXIS_GPU, "gpu", "NAME,...", "Kinds of GPU; the scenario's unless given."),
    AXIS(KC_AXIS_WEIGHTS, "weights", "FORMAT,...",
         "Weight formats: checkpoint, fp8, or CLASS=FORMAT+CLASS=FORMAT; the scenario's unless "
         "given."),
    AXIS(KC_AXIS_KV, "kv", "FORMAT,...",
         "KV formats; the scenario's unless given, and fp8-e4m3 where that is bf16."),
    AXIS(KC_AXIS_TENSOR, "tensor", "N,...",
         "Tensor degrees; unless given 1, 2, 4 and 8, where the model allows them."),
    AXIS(KC_AXIS_PAGE, "page-size", "N,...", "Tokens per page; the scenario's unless given."),
    AXIS(KC_AXIS_CHUNK, "chunk", "N,...",
         "Most tokens of a step (vllm) or of a prefill step (sglang); the scenario's, 2048 and "
         "8192 unless given."),
    AXIS(KC_AXIS_CAP, "max-running", "N,...",
         "Most requests in a batch; the scenario's, 64 and 256 unless given."),
    {.key = "replicas", .type = KC_OPTION_TEXT, .offset = FIELD(replicas),
     .size = sizeof(((struct arguments *)0)->replicas), .set_offset = FIELD(replicas_given),
     .values = "N..M", .help = "Replicas: a range or a list; 1..32 unless given."},
    {.key = "price", .type = KC_OPTION_LIST, .offset = FIELD(prices), .values = "GPU=USD",
     .help = "Price of a listed GPU for an hour; its file's first unless given; repeatable."},
    {.key = "objective", .type = KC_OPTION_CHOICE, .offset = FIELD(objective),
     .set_offset = FIELD(objective_given), .values = "usd|gpus|goodput|output_tok_s",
     .fallback = "usd",
     .help = "usd: the least price an hour; gpus: the fewest GPUs; the others: the most for "
             "the budget."},
    {.key = "budget-usd-hour", .type = KC_OPTION_DOUBLE, .offset = FIELD(budget), .min = 0,
     .max = 1e9, .fallback = "0", .unit = "USD", .help = "Nothing dearer; 0 = no limit."},
    {.key = "gpus-max", .type = KC_OPTION_U32, .offset = FIELD(gpus_max), .min = 0, .max = 1 << 20,
     .fallback = "0", .unit = "GPUs", .help = "Nothing larger; 0 = no limit."},
    {.key = "spare", .type = KC_OPTION_U32, .offset = FIELD(spare), .min = 0, .max = 64,
     .fallback = "0", .unit = "replicas",
     .help = "Replicas that may be down while the SLO holds: 1 = N+1."},
    {.key = "headroom", .type = KC_OPTION_DOUBLE, .offset = FIELD(headroom), .min = 0, .max = 1000,
     .fallback = "0", .unit = "percent",
     .help = "The SLO holds while the trace comes so many percent faster."},
    {.key = "lost", .type = KC_OPTION_DOUBLE, .offset = FIELD(lost), .min = 0, .max = 100,
     .fallback = "0", .unit = "percent",
     .help = "Requests that may be rejected, fail or time out."},
    {.key = "trace", .type = KC_OPTION_TEXT, .offset = FIELD(trace),
     .size = sizeof(((struct arguments *)0)->trace), .set_offset = FIELD(trace_given),
     .values = "FILE", .help = "Plan for this trace instead of the scenario's workload."},
    {.key = "set", .type = KC_OPTION_LIST, .offset = FIELD(sets), .values = "KEY=VALUE",
     .help = "Override a scenario key; repeatable."},
    {.key = "max-rate", .type = KC_OPTION_FLAG, .offset = FIELD(max_rate),
     .help = "Choose nothing: find the highest rate of the trace (or concurrency of a closed "
             "workload) at which the scenario's own deployment meets the SLO."},
    {.key = "tolerance", .type = KC_OPTION_DOUBLE, .offset = FIELD(tolerance),
     .set_offset = FIELD(tolerance_given), .min = 0.01, .max = 100, .fallback = "1",
     .unit = "percent",
     .help = "With --max-rate: how far above the answer a rate that fails may lie."},
    {.key = "exhaustive", .type = KC_OPTION_FLAG, .offset = FIELD(exhaustive),
     .help = "Run the whole grid as well, and end with status 1 if its best is another one."},
    {.key = "threads", .type = KC_OPTION_U32, .offset = FIELD(threads), .min = 0,
     .max = KC_SWEEP_THREADS_MAX, .fallback = "0", .unit = "threads",
     .help = "Runs at once; 0 = one for each processor. The answer does not depend on it."},
    {.key = "db", .type = KC_OPTION_TEXT, .offset = FIELD(database),
     .size = sizeof(((struct arguments *)0)->database), .set_offset = FIELD(database_given),
     .values = "FILE", .bare = "kvcap.db",
     .help = "Keep what is run in this database, as a sweep of the plan's name, and take from it "
             "what it has."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the summary."},
};

static const struct kc_cli_usage usage = {
    .name = "plan",
    .synopsis = "SCENARIO [options]",
    .about = "Finds the cheapest deployment that meets an SLO on the scenario's workload, among\n"
             "all combinations of the listed values and numbers of replicas. Few of them are\n"
             "run: those that do not fit, cost more than the best found, or cannot be fast\n"
             "enough are decided without; --exhaustive runs them all to check. Of equal prices\n"
             "fewer GPUs win, then what is listed first: GPU, then weights, KV, tensor, page\n"
             "size, chunk, max running. A value \"scenario\" stands for what the scenario says.\n"
             "Status 1: nothing meets the SLO; 5: nothing fits.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "What decides a candidate without a run:\n"
                "  price     it is dearer than the best found, or comes later in the order; exact\n"
                "  twin      one ran that never met the batch cap which tells them apart; exact\n"
                "  bound     its floors miss the SLO: requests alone on an empty server, or\n"
                "            longer than the pool; work for too few replicas; GPUs that cost too\n"
                "            much for as long as the trace or the work lasts; exact for dense\n"
                "            models with plain profiles, elsewhere 30 % are taken off the work\n"
                "  replicas  it failed clearly, by 3 %, with as many or more replicas; assumes\n"
                "            that more replicas never hurt (with a prefix cache: by 100 %);\n"
                "            a limit on a cost or on a figure per GPU, which more hardware can\n"
                "            miss, decides no candidate but its own\n"
                "  faster    one that is nowhere slower in 36 sample steps, with as many pages\n"
                "            and replicas, failed clearly; assumes that faster never hurts\n"
                "So the winner meets the SLO, because it ran; that nothing before it in the order\n"
                "does is certain but for what the last two decided, which the answer counts.\n"
                "--exhaustive makes it certain.\n"
                "\n"
                "Examples:\n"
                "  kvcap plan scenarios/examples/llama-3.1-8b-h100.yaml --gpu h100,h200,a100-80g\n"
                "  kvcap plan scenarios/examples/llama-3.1-8b-h100.yaml \\\n"
                "      --slo 'ttft_p95_ms<=300' --slo 'tpot_p95_ms<=20' --spare 1 --headroom 20\n"
                "  kvcap plan scenarios/examples/llama-3.1-8b-h100.yaml --max-rate\n"};

/* ---- arguments to a request ---- */

static enum kc_err fill_request(struct kc_plan_request *request, const struct arguments *a,
                                const char *path, const struct kc_cli_sets *base,
                                struct kc_diag *diag)
{
  *request = (struct kc_plan_request){.path = path,
                                      .sets = base->item,
                                      .set_count = base->count,
                                      .objective = (enum kc_plan_objective)a->objective,
                                      .budget_usd_hour = a->budget,
                                      .gpus_max = a->gpus_max,
                                      .spare = a->spare,
                                      .headroom = a->headroom / 100,
                                      .lost = a->lost / 100,
                                      .exhaustive = a->exhaustive,
                                      .threads = kc_sweep_threads(a->threads),
                                      .version = KVCAP_VERSION,
                                      .interrupted = kc_interrupt_wanted};
  KC_TRY(kc_requirements_parse(request->require, &request->require_count, a->slo.item,
                               a->slo.count, "slo", diag));
  KC_TRY(kc_requirements_agree(request->require, request->require_count, "slo", diag));
  kc_run_note_signs(request->require, request->require_count);
  for (int id = 0; id < KC_AXES; id++) {
    if (!a->axis_given[id]) continue;
    KC_TRY(kc_space_axis_parse(&request->space, (enum kc_plan_axis_id)id, a->axis[id], diag));
  }
  for (size_t i = 0; i < a->prices.count; i++) {
    KC_TRY(kc_space_price_parse(&request->space, a->prices.item[i], diag));
  }
  return a->replicas_given ? kc_space_replicas_parse(&request->space, a->replicas, diag) : KC_OK;
}

/* ---- a plan ---- */

static enum kc_err write_commands(const struct kc_plan *plan, const char *path,
                                  struct kc_plan_bought *bought, struct kc_diag *diag)
{
  const bool apart = bought->run != plan->winner;
  KC_ASSERT(plan->found);
  bought->command = kc_plan_command(plan, path, false);
  bought->command_bought = apart ? kc_plan_command(plan, path, true) : NULL;
  if (bought->command != NULL && (bought->command_bought != NULL || !apart)) return KC_OK;
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for the command");
}

static void free_commands(struct kc_plan_bought *bought)
{
  free(bought->command);
  free(bought->command_bought);
}

static enum kc_err find_details(struct kc_plan *plan, struct kc_plan_answer *answer,
                                struct kc_diag *diag)
{
  if (!plan->found) return kc_plan_explain(plan, answer->part, &answer->lost, diag);
  answer->bought.run = plan->winner;
  if (plan->request.spare > 0 || plan->request.headroom > 0) {
    const struct kc_search_probe probe = plan->run[plan->winner].probe;
    struct kc_plan_sets *sets = calloc(1, sizeof *sets);
    if (sets == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the changes");
    kc_plan_sets_of(plan, &probe, true, sets);
    const enum kc_err err = kc_plan_evaluate(plan, &probe, sets, &answer->bought.run, diag);
    free(sets);
    if (err != KC_OK) return err;
  }
  KC_TRY(kc_plan_next_units(plan, &answer->units, diag));
  KC_TRY(kc_plan_limits(plan, &answer->limits, diag));
  return write_commands(plan, plan->request.path, &answer->bought, diag);
}

/* Paths are a machine's own: the database has the scenario's text, and its file's name alone. */
static enum kc_err keep_answer(struct kc_plan *plan, const struct kc_plan_answer *answer,
                               struct kc_diag *diag)
{
  struct kc_plan_bought bought = {.run = answer->bought.run};
  enum kc_err err = KC_OK;
  if (plan->request.store == NULL) return KC_OK;
  if (plan->found) {
    const char *slash = strrchr(plan->request.path, '/');
    err = write_commands(plan, slash == NULL ? plan->request.path : slash + 1, &bought, diag);
  }
  if (err == KC_OK) err = kc_plan_keep(plan, &answer->units, &answer->limits, &bought, diag);
  free_commands(&bought);
  return err;
}

static enum kc_err add_details(struct kc_plan *plan, struct kc_plan_answer *answer,
                               struct kc_diag *diag)
{
  KC_TRY(find_details(plan, answer, diag));
  return keep_answer(plan, answer, diag);
}

static int print_plan(const struct kc_plan_answer *answer, bool json)
{
  const struct kc_plan *plan = answer->plan;
  int status = 0;
  if (json) status = kc_cli_print_json(kc_plan_json(answer));
  if (!json) kc_plan_print(answer);
  if (status != 0) return status;
  const bool disagrees = plan->request.exhaustive && !plan->agrees;
  return kc_cli_finish(plan->found && !disagrees ? 0 : 1);
}

static void tell_stored(const char *database, int64_t sweep_id, uint64_t known)
{
  char path[KC_DIAG_PATH_BYTES];
  snprintf(path, sizeof path, "%s", database);
  kc_text_clean(path);
  kc_cli_note("the runs are sweep %lld of %s; %llu of them were known", (long long)sweep_id, path,
              (unsigned long long)known);
}

static void show_progress(void *context, uint64_t done, uint64_t all)
{
  kc_progress_show(context, done, all);
}

static int make_plan(struct kc_plan_request *request, const struct arguments *a)
{
  struct kc_progress progress;
  struct kc_diag diag = {0};
  struct kc_plan *plan = calloc(1, sizeof *plan);
  struct kc_plan_answer *answer = calloc(1, sizeof *answer);
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  int status;
  if (plan == NULL || answer == NULL || problems == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the plan");
    status = kc_cli_fail(&diag);
  } else if (a->database_given &&
             kc_store_open(&request->store, a->database, &diag) != KC_OK) {
    status = kc_cli_fail(&diag);
  } else if (kc_plan_open(plan, request, problems) != KC_OK) {
    status = kc_cli_fail_list(problems);
  } else {
    answer->plan = plan;
    kc_progress_start(&progress, "runs");
    plan->request.progress = show_progress;
    plan->request.progress_context = &progress;
    enum kc_err err = kc_plan_solve(plan, &diag);
    if (err == KC_OK) err = add_details(plan, answer, &diag);
    kc_progress_end(&progress);
    if (err == KC_OK && a->database_given) {
      tell_stored(a->database, plan->sweep_id, plan->count.known);
    }
    status = err != KC_OK ? kc_cli_fail(&diag) : print_plan(answer, a->json);
  }
  if (plan != NULL) kc_plan_free(plan);
  kc_store_close(request->store);
  free(plan);
  if (answer != NULL) free_commands(&answer->bought);
  free(answer);
  free(problems);
  return status;
}

/* ---- a highest rate ---- */

static int print_rate(const struct kc_rate *rate, const struct arguments *a)
{
  int status = 0;
  if (a->json) status = kc_cli_print_json(kc_rate_json(rate));
  if (!a->json) kc_rate_print(rate, a->tolerance / 100);
  return status != 0 ? status : kc_cli_finish(rate->best != UINT32_MAX ? 0 : 1);
}

static int find_rate_stored(struct kc_rate *rate, struct kc_rate_request *request,
                            struct kc_diag_list *problems, const struct arguments *a)
{
  struct kc_diag diag = {0};
  if (a->database_given && kc_store_open(&request->store, a->database, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  const enum kc_err err = kc_rate_find(rate, request, problems);
  kc_store_close(request->store);
  if (err != KC_OK) return kc_cli_fail_list(problems);
  if (a->database_given) tell_stored(a->database, rate->sweep_id, rate->known);
  return print_rate(rate, a);
}

static int find_rate(const struct kc_plan_request *plan, const struct arguments *a)
{
  struct kc_diag diag = {0};
  struct kc_rate *rate = calloc(1, sizeof *rate);
  struct kc_rate_request *request = calloc(1, sizeof *request);
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  struct kc_inputs *inputs = kc_inputs_create();
  int status;
  if (rate == NULL || request == NULL || problems == NULL || inputs == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the search");
    status = kc_cli_fail(&diag);
  } else {
    *request = (struct kc_rate_request){.path = plan->path, .sets = plan->sets,
                                        .set_count = plan->set_count, .lost = plan->lost,
                                        .require_count = plan->require_count,
                                        .tolerance = a->tolerance / 100,
                                        .inputs = inputs, .version = plan->version,
                                        .interrupted = plan->interrupted};
    memcpy(request->require, plan->require, sizeof request->require);
    status = find_rate_stored(rate, request, problems, a);
  }
  kc_inputs_destroy(inputs);
  free(rate);
  free(request);
  free(problems);
  return status;
}

/* Options that choose among deployments mean nothing where there is one. */
static enum kc_err check_rate_options(const struct arguments *a, struct kc_diag *diag)
{
  const char *stray = NULL;
  if (!a->max_rate && a->tolerance_given) {
    return kc_fail(diag, KC_ERR_USAGE, "--tolerance is how narrow --max-rate makes its answer; a "
                   "plan has none");
  }
  if (!a->max_rate) return KC_OK;
  for (int id = KC_AXES - 1; id >= 0; id--) {
    if (a->axis_given[id]) stray = kc_plan_axis_name((enum kc_plan_axis_id)id);
  }
  if (a->replicas_given) stray = "replicas";
  if (a->exhaustive) stray = "exhaustive";
  if (a->spare > 0) stray = "spare";
  if (a->headroom > 0) stray = "headroom";
  if (a->prices.count > 0) stray = "price";
  if (a->budget > 0) stray = "budget-usd-hour";
  if (a->gpus_max > 0) stray = "gpus-max";
  if (a->objective_given) stray = "objective";
  if (stray == NULL) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--max-rate is about the scenario's own deployment, so --%s "
                 "does not apply; change the scenario with --set", stray);
}

int kc_cmd_plan(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_cli_sets base;
  struct kc_diag diag = {0};
  const char *path[1];
  size_t given;
  const int status = kc_cli_arguments(&usage, &a, argc, argv, path, &given);
  if (status >= 0) return status;
  if (check_rate_options(&a, &diag) != KC_OK ||
      (a.trace_given && kc_cli_trace_check(a.trace, path[0], &diag) != KC_OK)) {
    return kc_cli_fail(&diag);
  }
  struct kc_plan_request *request = calloc(1, sizeof *request);
  kc_cli_sets_fill(&base, &a.sets, a.trace_given ? a.trace : NULL, NULL);
  const enum kc_err err = request == NULL
                              ? kc_fail(&diag, KC_ERR_MEMORY, "no memory for the plan")
                              : fill_request(request, &a, path[0], &base, &diag);
  int result;
  if (err != KC_OK) {
    result = kc_cli_fail(&diag);
  } else {
    kc_interrupt_catch();
    result = a.max_rate ? find_rate(request, &a) : make_plan(request, &a);
  }
  free(request);
  return result;
}
