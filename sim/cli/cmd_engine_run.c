/* kvcap engine run: a scenario's requests, or prompts (engine_prompt.c), computed.
 *
 *   scenario --prepare--> run --tap--------------> decisions of the simulator     (virtual clock)
 *                         run --tap, CPU engine--> decisions of the engine, tokens
 *
 * In virtual time the engine takes its steps as long as the simulator says, so both must decide
 * alike: the command runs both and compares. With the wall clock steps last as long as they do
 * here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "sim/calibrate/serving_log.h"
#include "sim/cli/cmd_engine.h"
#include "sim/cli/engine_bill.h"
#include "sim/cli/engine_device.h"
#include "sim/cli/engine_injected.h"
#include "sim/cli/engine_model.h"
#include "sim/cli/engine_prompt.h"
#include "sim/cli/engine_setup.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/run_output.h"
#include "sim/cli/sets.h"

enum { ENGINE_SCHEMA = 1 };

struct arguments {
  char trace[KC_DIAG_PATH_BYTES];
  bool trace_given;
  struct kc_option_list sets;
  int clock, device, shapes;
  uint32_t threads;
  double limit_tflop;
  bool limit_given;
  char decisions[KC_DIAG_PATH_BYTES], tokens[KC_DIAG_PATH_BYTES], requests[KC_DIAG_PATH_BYTES];
  bool decisions_given, tokens_given, requests_given;
  bool json;
  struct kc_engine_prompts text; /* how prompts are answered; filled from here and above */
  char model[KC_DIAG_PATH_BYTES], prompt_file[KC_DIAG_PATH_BYTES];
  bool model_given, prompt_file_given, text_given;
};

#define FIELD(name) offsetof(struct arguments, name)

static const struct kc_option options[] = {
    {.key = "trace", .type = KC_OPTION_TEXT, .offset = FIELD(trace),
     .size = sizeof(((struct arguments *)0)->trace), .set_offset = FIELD(trace_given),
     .values = "FILE", .help = "Compute the requests of this trace instead of the scenario's."},
    {.key = "set", .type = KC_OPTION_LIST, .offset = FIELD(sets), .values = "KEY=VALUE",
     .help = "Override a scenario key, for example workload.limit=100; repeatable."},
    {.key = "clock", .type = KC_OPTION_CHOICE, .offset = FIELD(clock), .values = "virtual|wall",
     .fallback = "virtual",
     .help = "Steps last as long as the simulator says, and decisions are compared with its own; "
             "or as long as they do on this machine."},
    {.key = "device", .type = KC_OPTION_CHOICE, .offset = FIELD(device), .values = "cpu|cuda",
     .fallback = "cpu", .help = "What computes."},
    {.key = "shapes", .type = KC_OPTION_CHOICE, .offset = FIELD(shapes),
     .values = "tiny|scenario", .fallback = "tiny",
     .help = "Compute a model of under 100,000 parameters in place of the scenario's, or its own "
             "with synthetic weights: one rank where it is tensor parallel."},
    {.key = "threads", .type = KC_OPTION_U32, .offset = FIELD(threads), .min = 0,
     .max = KC_TEAM_MAX, .fallback = "0", .unit = "threads",
     .help = "Threads that compute; 0 = one for each processor. Tokens do not depend on it."},
    {.key = "limit-tflop", .type = KC_OPTION_DOUBLE, .offset = FIELD(limit_tflop),
     .set_offset = FIELD(limit_given), .min = 0, .max = 1e9, .fallback = "20",
     .unit = "10^12 operations",
     .help = "Refuse a scenario that is more work than this on a CPU, an hour or so of two "
             "threads; 0 = compute whatever it is."},
    {.key = "decisions", .type = KC_OPTION_TEXT, .offset = FIELD(decisions),
     .size = sizeof(((struct arguments *)0)->decisions), .set_offset = FIELD(decisions_given),
     .values = "FILE", .help = "Write the engine's decision log, a line for each decision."},
    {.key = "tokens", .type = KC_OPTION_TEXT, .offset = FIELD(tokens),
     .size = sizeof(((struct arguments *)0)->tokens), .set_offset = FIELD(tokens_given),
     .values = "FILE", .help = "Write the tokens, one JSON line for each request."},
    {.key = "requests", .type = KC_OPTION_TEXT, .offset = FIELD(requests),
     .size = sizeof(((struct arguments *)0)->requests), .set_offset = FIELD(requests_given),
     .values = "FILE",
     .help = "Write when each request was answered, as measured (--clock wall): a log that "
             "kvcap compare and kvcap calibrate serving --log read."},
    {.key = "model", .type = KC_OPTION_TEXT, .offset = FIELD(model),
     .size = sizeof(((struct arguments *)0)->model), .set_offset = FIELD(model_given),
     .values = "NAME",
     .help = "Answer prompts with this model instead of running a scenario: a folder with "
             "config.json and safetensors, or the name of one in scenarios/models."},
    {.key = "prompt", .type = KC_OPTION_LIST, .offset = FIELD(text.prompt), .values = "TEXT",
     .help = "What the model reads, as bytes; repeatable, all are answered in one batch."},
    {.key = "prompt-file", .type = KC_OPTION_TEXT, .offset = FIELD(prompt_file),
     .size = sizeof(((struct arguments *)0)->prompt_file),
     .set_offset = FIELD(prompt_file_given), .values = "FILE",
     .help = "One more prompt, from a file; - is standard input."},
    {.key = "generate", .type = KC_OPTION_U32, .offset = FIELD(text.tokens),
     .set_offset = FIELD(text_given), .min = 1, .max = 1 << 20, .fallback = "100",
     .unit = "tokens", .help = "Tokens that each prompt is answered with."},
    {.key = "temperature", .type = KC_OPTION_DOUBLE, .offset = FIELD(text.temperature),
     .set_offset = FIELD(text_given), .min = 0, .max = 100, .fallback = "0",
     .help = "Draw from the model's distribution, sharper below 1; 0 = the likeliest token."},
    {.key = "seed", .type = KC_OPTION_U64, .offset = FIELD(text.seed),
     .set_offset = FIELD(text_given), .min = 0, .max = 9e15, .fallback = "1",
     .help = "Of the draws: the same seed gives the same answers, whatever is in the batch."},
    {.key = "weights", .type = KC_OPTION_CHOICE, .offset = FIELD(text.weights),
     .set_offset = FIELD(text_given), .values = "bf16|fp8|int4-g32|int4-g128",
     .fallback = "bf16", .help = "Format of the model's attention, MLPs and experts."},
    {.key = "kv", .type = KC_OPTION_CHOICE, .offset = FIELD(text.kv),
     .set_offset = FIELD(text_given), .values = "bf16|fp8-e4m3", .fallback = "bf16",
     .help = "Format of the model's K and V."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the summary."},
};

static const struct kc_cli_usage usage = {
    .name = "engine run",
    .synopsis = "SCENARIO [options]  |  engine run --model NAME --prompt TEXT [options]",
    .about = "Runs the scenario's requests through the reference engine: its scheduler and page\n"
             "pool, with a synthetic model of under 100,000 parameters in place of its own.\n"
             "Exit status 1 when it decides otherwise than the simulator. Faults that the\n"
             "scenario injects strike the tables that attention reads; status 6 when one is\n"
             "missed or anybody else is hurt. With --model it continues prompts instead.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 0,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap engine run --model tiny-gqa --prompt 'In the beginning'\n"
                "  kvcap engine run --model tiny-mla-moe --prompt 'And God said' \\\n"
                "      --generate 300 --temperature 0.8 --seed 7 --kv fp8-e4m3\n"
                "  kvcap engine run scenarios/examples/llama-3.1-8b-starved.yaml \\\n"
                "      --set workload.limit=20\n"
                "  kvcap engine run scenarios/examples/llama-3.1-8b-h100.yaml \\\n"
                "      --trace traces/samples/tiny.csv --clock wall --requests measured.jsonl\n"};

/* ---- one run ---- */

/* Everything that the command owns. */
struct session {
  const struct arguments *arguments;
  struct kc_scenario scenario;
  struct kc_diag_list problems;
  struct kc_accelerator device;
  struct kc_engine_model model;
  struct kc_run run;
  struct kc_engine engine;
  struct kc_engine_faults faults;
  struct kc_log_answers answers; /* heap; of --requests */
  uint32_t threads;
  double host_seconds;
  char simulated[KC_SHA256_HEX_BYTES], decided[KC_SHA256_HEX_BYTES];
  char tokens[KC_SHA256_HEX_BYTES];
};

/* The engine is one instance. */
static enum kc_err check_replicas(const struct session *s, struct kc_diag *diag)
{
  const uint32_t replicas = s->scenario.pool[0].replicas;
  if (replicas == 1) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "the engine is one instance and the scenario has %u "
                 "replicas; add --set pools.%s.replicas=1", replicas, s->scenario.pool[0].name);
}

/* What the simulator decides: the digest of its log. */
static enum kc_err simulate(struct session *s, struct kc_diag *diag)
{
  enum kc_err err = kc_run_prepare(&s->run, &s->scenario, diag);
  s->run.replay.interrupted = kc_interrupt_wanted;
  if (err == KC_OK) err = kc_engine_attach_tap(&s->engine, &s->run, diag);
  if (err == KC_OK) err = kc_run_execute(&s->run, diag);
  if (err == KC_OK) kc_engine_log_end(&s->engine.log, s->simulated);
  kc_engine_free(&s->engine);
  kc_run_deinit(&s->run);
  return err;
}

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Keeps when the run's requests are answered. */
static enum kc_err note_answers(struct session *s, struct kc_diag *diag)
{
  struct kc_log_answers *answers = &s->answers;
  free(answers->row); /* of the run without faults */
  answers->count = s->run.request_count;
  answers->row = calloc(answers->count, sizeof answers->row[0]);
  if (answers->row == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the requests");
  s->run.replay.recorder = kc_log_recorder(answers);
  return KC_OK;
}

/* The scenario's own model or the tiny one, unless a CPU would compute for hours, or swap. */
static enum kc_err build_model(struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  const uint64_t longest = s->run.replay.instance.sched.max_model_len;
  const uint32_t positions = longest < 4194304 ? (uint32_t)longest : 4194304;
  const struct kc_site *site = &s->device.site;
  const bool tiny = a->shapes == 0;
  const struct kc_pool_spec *pool = &s->scenario.pool[0];
  const uint32_t tensor = tiny || pool->memory.tensor == 0 ? 1 : pool->memory.tensor;
  KC_ASSERT(s->scenario.pool_count > 0);
  if (tiny) KC_TRY(kc_engine_model_build(&s->model, site, positions, s->scenario.seed, diag));
  if (kc_site_is_host(site)) {
    const struct kc_model *shapes = tiny ? &s->model.shapes : &s->scenario.model;
    const struct kc_engine_bill bill = kc_engine_bill_of(&s->run, shapes, &pool->precision, tensor);
    KC_TRY(kc_engine_bill_check(&bill, a->limit_tflop, s->threads, diag));
  }
  if (tiny) return KC_OK;
  return kc_engine_model_build_own(&s->model, site, &s->scenario, positions, diag);
}

/* The engine's run, which stays in `s` for its results. */
static enum kc_err compute(struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  KC_TRY(kc_run_prepare(&s->run, &s->scenario, diag));
  s->run.replay.interrupted = kc_interrupt_wanted;
  s->run.replay.poll_every = 1; /* a step may take seconds */
  KC_TRY(build_model(s, diag));
  if (a->decisions_given) KC_TRY(kc_file_create(&s->engine.log.file, a->decisions, diag));
  KC_TRY(kc_engine_attach(&s->engine, &s->run, &s->model, (enum kc_engine_clock)a->clock,
                          s->threads, diag));
  if (a->requests_given) KC_TRY(note_answers(s, diag));
  const double begin = now_s();
  KC_TRY(kc_run_execute(&s->run, diag));
  s->host_seconds = now_s() - begin;
  kc_engine_log_end(&s->engine.log, s->decided);
  if (a->decisions_given) {
    FILE *file = s->engine.log.file;
    s->engine.log.file = NULL;
    KC_TRY(kc_file_finish(file, a->decisions, diag));
  }
  return KC_OK;
}

/* With faults: the run without them, for its tokens. */
static enum kc_err compute_sound(struct session *s, struct kc_diag *diag)
{
  KC_ASSERT(s->faults.asked.kinds != 0);
  enum kc_err err = compute(s, diag);
  if (err == KC_OK && s->run.sessions) {
    err = kc_fail(diag, KC_ERR_INPUT, "the scenario injects faults into sessions: who comes next "
                  "depends on who was aborted, so there is nothing to compare with; take an open "
                  "trace or a closed loop");
  }
  if (err == KC_OK) err = kc_engine_faults_keep(&s->faults, &s->engine, &s->run, diag);
  if (s->engine.log.file != NULL) (void)fclose(s->engine.log.file);
  kc_engine_free(&s->engine);
  kc_engine_model_free(&s->model);
  kc_run_deinit(&s->run);
  return err;
}

/* Digest of all tokens, by request; and the file, where one is wanted. */
static enum kc_err write_tokens(struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  struct kc_sha256 sha;
  FILE *file = NULL;
  if (a->tokens_given) KC_TRY(kc_file_create(&file, a->tokens, diag));
  kc_sha256_init(&sha);
  for (uint32_t i = 0; i < s->run.request_count; i++) {
    uint32_t count = 0;
    const int32_t *token = kc_exec_output(&s->engine.exec, i, &count);
    kc_sha256_update_u64(&sha, count);
    for (uint32_t t = 0; t < count; t++) kc_sha256_update_u64(&sha, (uint64_t)token[t]);
    if (file == NULL) continue;
    fprintf(file, "{\"request\": %u, \"tokens\": [", i);
    for (uint32_t t = 0; t < count; t++) fprintf(file, t == 0 ? "%d" : ", %d", token[t]);
    fputs("]}\n", file);
  }
  kc_sha256_final_hex(&sha, s->tokens);
  return file == NULL ? KC_OK : kc_file_finish(file, a->tokens, diag);
}

static enum kc_err write_requests(const struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  const struct kc_log_origin origin = {
      .device = kc_engine_device_name(&s->device),
      .model = s->model.tiny ? "synthetic" : s->model.shapes.name,
      .emulated = s->device.info.emulated};
  size_t left_out;
  if (!a->requests_given) return KC_OK;
  KC_TRY(kc_serving_log_write(&s->answers, &origin, a->requests, &left_out, diag));
  if (left_out > 0) {
    kc_cli_note("%zu of %zu requests did not complete and are not in %.200s", left_out,
                s->answers.count, a->requests);
  }
  return KC_OK;
}

/* ---- what came of it ---- */

static bool is_virtual(const struct session *s)
{
  KC_ASSERT(s->arguments != NULL);
  return s->arguments->clock == KC_ENGINE_VIRTUAL;
}

/* The simulator's faults strike elsewhere. */
static bool has_simulated(const struct session *s)
{
  return is_virtual(s) && s->faults.asked.kinds == 0;
}

static bool decides_alike(const struct session *s)
{
  return !has_simulated(s) || strcmp(s->simulated, s->decided) == 0;
}

static void print_device(const struct session *s)
{
  const struct kc_forward *forward = &s->engine.exec.forward[0];
  char n[2][32];
  KC_ASSERT(s->engine.exec.forward != NULL);
  if (kc_site_is_host(&s->device.site)) {
    printf("device      cpu, %u threads\n", s->threads);
    return;
  }
  printf("device      %s; %s graphs captured, %s launches of them\n",
         kc_engine_device_name(&s->device), kc_run_grouped(forward->graphs.captured, n[0]),
         kc_run_grouped(forward->graphs.launched, n[1]));
  printf("scratch     %s bytes of a pass, %s of them for INT4 weights as BF16\n",
         kc_run_grouped(forward->scratch.capacity_bytes, n[0]),
         kc_run_grouped(forward->dense_bytes, n[1]));
}

static void print_model(const struct session *s)
{
  const struct kc_weights *weights = &s->model.weights;
  char n[2][32];
  KC_ASSERT(s->model.tensor > 0);
  if (s->model.tiny) {
    printf("model       synthetic, %s parameters", kc_run_grouped(
           kc_engine_model_parameters(&s->model), n[0]));
  } else {
    printf("model       %s of synthetic weights, one rank of %u: %s bytes", s->model.shapes.name,
           s->model.tensor, kc_run_grouped(weights->weight_bytes, n[0]));
  }
  const struct kc_kv_layer *layer = &s->engine.cache.layer[0];
  const char *k = layer->k_format == KC_KV_BF16 ? "BF16" : "FP8";
  const char *v = layer->v_format == KC_KV_BF16 ? "BF16" : "FP8";
  if (layer->v == NULL || strcmp(k, v) == 0) printf("; %s pages of KV\n", k);
  else printf("; %s pages of K, %s pages of V\n", k, v);
}

static void print_text(const struct session *s)
{
  const struct kc_summary *sum = &s->run.result.summary;
  const struct kc_exec *exec = &s->engine.exec;
  char n[6][32];
  printf("%s\n\n", s->scenario.name);
  print_model(s);
  print_device(s);
  printf("requests    %s offered, %s completed\n", kc_run_grouped(sum->requests_total, n[0]),
         kc_run_grouped(sum->requests_by_status[KC_STATUS_COMPLETED], n[1]));
  printf("tokens      %s produced in %s steps; %s passed through the model\n",
         kc_run_grouped(exec->tokens, n[0]), kc_run_grouped(exec->steps, n[1]),
         kc_run_grouped(exec->rows, n[2]));
  printf("            %s found in the prefix cache, %s computed for nobody\n",
         kc_run_grouped(exec->rows_cached - exec->rows_repaired, n[0]),
         kc_run_grouped(exec->rows_discarded, n[1]));
  printf("page tags   %s checks of %s entries, %s violations\n",
         kc_run_grouped(exec->host.counter[KC_COUNT_CHECKS], n[0]),
         kc_run_grouped(exec->host.counter[KC_COUNT_ENTRIES], n[1]),
         kc_run_grouped(exec->host.counter[KC_COUNT_EVENTS], n[2]));
  kc_engine_faults_print(&s->faults, &s->engine);
  printf("clock       %s; makespan %.3f s, %.1f output tokens/s\n",
         is_virtual(s) ? "virtual" : "this machine's",
         (double)sum->makespan_ps / (double)KC_PS_PER_S, (double)sum->output_tok_s_micro / 1e6);
  printf("decisions   sha256 %s\n", s->decided);
  if (has_simulated(s)) {
    printf("            %s\n", decides_alike(s) ? "equal to the simulator's, byte for byte"
                                                : "NOT equal to the simulator's");
  }
  printf("outputs     sha256 %s\n", s->tokens);
}

static json_t *count(uint64_t value)
{
  return json_integer((json_int_t)value);
}

static int print_json(const struct session *s)
{
  const struct kc_summary *sum = &s->run.result.summary;
  const struct kc_exec *exec = &s->engine.exec;
  json_t *tokens = json_pack(
      "{s:o, s:o, s:o, s:o, s:o, s:s}", "produced", count(exec->tokens), "computed",
      count(exec->rows), "cached", count(exec->rows_cached), "cached_but_computed",
      count(exec->rows_repaired), "computed_for_nobody", count(exec->rows_discarded), "sha256",
      s->tokens);
  const uint64_t *counter = exec->host.counter;
  json_t *tags = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "checks",
                           count(counter[KC_COUNT_CHECKS]), "entries",
                           count(counter[KC_COUNT_ENTRIES]), "violations",
                           count(counter[KC_COUNT_EVENTS]), "writes",
                           count(counter[KC_COUNT_WRITES]), "writes_refused",
                           count(counter[KC_COUNT_WRITES_REFUSED]), "events",
                           kc_engine_events_json(exec));
  json_t *decisions = json_pack(
      "{s:s, s:o, s:o, s:o}", "sha256", s->decided, "bytes", count(s->engine.log.bytes),
      "simulator_sha256", has_simulated(s) ? json_string(s->simulated) : json_null(), "equal",
      has_simulated(s) ? json_boolean(decides_alike(s)) : json_null());
  json_t *host = json_pack("{s:f, s:i}", "host_seconds", s->host_seconds, "threads",
                           (int)s->threads);
  json_t *times = json_pack(
      "{s:f, s:f, s:o, s:o}", "makespan_s", (double)sum->makespan_ps / (double)KC_PS_PER_S,
      "output_tok_s", (double)sum->output_tok_s_micro / 1e6, "ttft_ms",
      kc_run_statistic_json(&sum->ttft, is_virtual(s) ? "predicted" : "measured"), "tpot_ms",
      kc_run_statistic_json(&sum->tpot, is_virtual(s) ? "predicted" : "measured"));
  json_t *root = json_pack(
      "{s:i, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
      ENGINE_SCHEMA,
      "name", kc_cli_json_string(s->scenario.name), "device",
      kc_cli_json_string(kc_engine_device_name(&s->device)), "clock",
      is_virtual(s) ? "virtual" : "wall", "model_parameters",
      count(kc_engine_model_parameters(&s->model)), "requests", count(sum->requests_total),
      "requests_completed", count(sum->requests_by_status[KC_STATUS_COMPLETED]), "steps",
      count(exec->steps), "tokens", tokens, "page_tags", tags, "faults",
      kc_engine_faults_json(&s->faults, &s->engine), "decisions", decisions, "times", times,
      "host", host);
  return kc_cli_print_json(root);
}

static int report(struct session *s)
{
  int status = 0;
  struct kc_diag diag = {0};
  if (write_tokens(s, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (write_requests(s, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (s->arguments->json) status = print_json(s);
  else print_text(s);
  fflush(stdout);
  if (status == 0 && !kc_engine_faults_held(&s->faults, &s->engine)) {
    kc_cli_note("a fault was missed, or somebody was aborted or changed by mistake: please report "
                "the scenario");
    return 6;
  }
  if (status != 0 || decides_alike(s)) return status;
  kc_cli_note("the engine decided otherwise than the simulator: please report the scenario");
  return 1;
}

/* ---- the command ---- */

static enum kc_err load_scenario(struct session *s, const char *path)
{
  const struct arguments *a = s->arguments;
  struct kc_cli_sets sets;
  kc_cli_sets_fill(&sets, &a->sets, a->trace_given ? a->trace : NULL, NULL);
  return kc_scenario_load(&s->scenario, path, sets.item, sets.count, &s->problems);
}

static int run_session(struct session *s, const char *path)
{
  struct kc_diag diag = {0};
  if (s->arguments->trace_given &&
      kc_cli_trace_check(s->arguments->trace, path, &diag) != KC_OK) {
    diag.code = KC_ERR_FILE;
    return kc_cli_fail(&diag);
  }
  if (load_scenario(s, path) != KC_OK) return kc_cli_fail_list(&s->problems);
  kc_interrupt_catch();
  enum kc_err err = check_replicas(s, &diag);
  if (err == KC_OK) err = kc_engine_faults_take(&s->faults, &s->scenario, &diag);
  if (err == KC_OK && has_simulated(s)) err = simulate(s, &diag);
  if (err == KC_OK && s->faults.asked.kinds != 0) err = compute_sound(s, &diag);
  if (err == KC_OK) kc_engine_faults_arm(&s->faults, &s->engine);
  if (err == KC_OK) err = compute(s, &diag);
  if (err == KC_OK && s->faults.asked.kinds != 0) {
    kc_engine_faults_compare(&s->faults, &s->engine, &s->run);
  }
  const int status = err == KC_OK ? report(s) : kc_cli_fail(&diag);
  if (s->engine.log.file != NULL) (void)fclose(s->engine.log.file);
  kc_engine_free(&s->engine);
  kc_engine_model_free(&s->model);
  kc_run_deinit(&s->run);
  kc_engine_faults_free(&s->faults);
  free(s->answers.row);
  return status;
}

/* Each output is a file of its own, and no input. */
static enum kc_err check_outputs(const struct arguments *a, const char *scenario,
                                 struct kc_diag *diag)
{
  enum { OUTPUTS = 3, FILES = OUTPUTS + 2 };
  const char *const file[FILES] = {a->decisions_given ? a->decisions : NULL,
                                   a->tokens_given ? a->tokens : NULL,
                                   a->requests_given ? a->requests : NULL, scenario,
                                   a->trace_given ? a->trace : NULL};
  KC_ASSERT(scenario != NULL);
  for (int i = 0; i < OUTPUTS; i++) {
    for (int k = i + 1; k < FILES; k++) {
      if (file[i] == NULL || file[k] == NULL || !kc_file_same(file[i], file[k])) continue;
      return kc_fail(diag, KC_ERR_USAGE, "the output \"%.200s\" is also %s; name another file",
                     file[i], k < OUTPUTS ? "that of another option" : "an input");
    }
  }
  return KC_OK;
}

/* A scenario or a model; options of one do not go with the other. */
static enum kc_err check_usage(const struct arguments *a, size_t paths, struct kc_diag *diag)
{
  const bool prompts = a->text.prompt.count > 0 || a->prompt_file_given;
  if (!a->model_given && paths == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "name a scenario, or a model with --model and a prompt: see "
                   "kvcap engine run --help");
  }
  if (!a->model_given && a->requests_given && a->clock == KC_ENGINE_VIRTUAL) {
    return kc_fail(diag, KC_ERR_USAGE, "--requests writes measured times, and those of the "
                   "virtual clock are the simulator's; add --clock wall");
  }
  if (!a->model_given) {
    if (!prompts && !a->text_given) return KC_OK;
    return kc_fail(diag, KC_ERR_USAGE, "--prompt, --prompt-file, --generate, --temperature, "
                   "--seed, --weights and --kv go with --model; a scenario has its own");
  }
  if (paths > 0 || a->trace_given || a->sets.count > 0 || a->decisions_given || a->tokens_given ||
      a->requests_given || a->clock != KC_ENGINE_VIRTUAL || a->shapes != 0 || a->limit_given) {
    return kc_fail(diag, KC_ERR_USAGE, "--model answers prompts: a scenario, --trace, --set, "
                   "--clock, --shapes, --limit-tflop, --decisions, --tokens and --requests do not "
                   "go with it");
  }
  if (a->text.temperature > 0 && a->text.temperature < 0.001) { /* scores would leave FP32 */
    return kc_fail(diag, KC_ERR_USAGE, "--temperature: expected 0, or a number from 0.001 to 100");
  }
  if (prompts) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--model needs a prompt: --prompt TEXT or --prompt-file FILE");
}

static int answer_prompts(const struct arguments *a)
{
  struct kc_engine_prompts prompts = a->text;
  KC_ASSERT(a->model_given);
  prompts.model = a->model;
  prompts.file = a->prompt_file_given ? a->prompt_file : NULL;
  prompts.threads = a->threads;
  prompts.device = a->device;
  prompts.json = a->json;
  return kc_engine_run_prompts(&prompts);
}

int kc_cmd_engine_run(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_diag diag = {0};
  const char *path[1];
  size_t paths;
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, path, &paths);
  if (usage_status >= 0) return usage_status;
  if (check_usage(&a, paths, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (a.model_given) return answer_prompts(&a);
  if (check_outputs(&a, path[0], &diag) != KC_OK) return kc_cli_fail(&diag);
  struct session *s = calloc(1, sizeof *s);
  if (s == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the run");
    return kc_cli_fail(&diag);
  }
  s->arguments = &a;
  s->threads = kc_engine_threads(a.threads);
  int status = 0;
  if (kc_engine_device_open(&s->device, (enum kc_engine_device)a.device, &diag) != KC_OK) {
    status = kc_cli_fail(&diag);
  } else {
    status = run_session(s, path[0]);
  }
  kc_accelerator_close(&s->device);
  free(s);
  return status;
}
