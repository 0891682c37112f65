/* label: soak
 * timeout: 1500
 * The same for a public trace under each policy: the first 2,000 requests of Azure's conversation
 * trace of 2023, 400 times as dense as recorded (the tiny model answers in milliseconds), on a pool
 * that is too small for them, so that requests queue and are preempted. Skipped where the trace is
 * not.
 *
 *   engine_trace [--limit N]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_twin.h"
#include "random_run.h"
#include "sim/scenario/scenario_run.h"

static const char scenario_text[] =
    "name: the engine and the simulator\n"
    "model: ./tiny.json\n"
    "pools:\n"
    "  - name: serve\n"
    "    gpu: h100\n"
    "    kv: {format: bf16, page_size: %u}\n"
    "    memory: {pages: %u}\n"
    "    scheduler: {policy: %s, max_running: 48, %s: 512, max_model_len: 8192}\n"
    "workload:\n"
    "  trace: %s\n"
    "  limit: %" PRIu64 "\n"
    "  rate: 400\n"
    "  max_tokens: trace\n"
    "seed: 1\n";

/* Each with the page size that it is used with, over the same 22,400 tokens. */
static const struct policy {
  const char *name, *chunk_key;
  uint32_t page_size, pages;
} policies[] = {{"vllm-0.19", "max_batched_tokens", 16, 1400},
                {"sglang-0.5", "chunked_prefill_size", 64, 350}};

static void fail(const char *what, const char *why)
{
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void write_file(const char *folder, const char *name, const char *text)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) fail(path, "cannot be written");
}

/* One run of the scenario; the log is in `engine`. Returns how often somebody was preempted. */
static uint64_t execute(struct twin_engine *engine, const struct twin_model *model,
                        const struct kc_scenario *scenario, bool real)
{
  static struct kc_run run;
  struct kc_diag diag = {0};
  if (kc_run_prepare(&run, scenario, &diag) != KC_OK) fail("prepare", diag.text);
  *engine = (struct twin_engine){.model = model,
                                 .real = real,
                                 .instance = &run.replay.instance,
                                 .requests = run.requests,
                                 .request_count = run.request_count};
  for (uint32_t i = 0; i < run.request_count; i++) {
    engine->output_tokens += run.requests[i].output_tokens;
  }
  run.replay.executor = twin_wrap(engine, &run.replay.executor);
  if (kc_run_execute(&run, &diag) != KC_OK) fail("run", diag.text);
  const uint64_t preempted = run.result.summary.preemptions;
  kc_run_deinit(&run);
  return preempted;
}

/* True when both decide alike, in a run that preempts somebody. */
static bool compare(const struct policy *policy, const char *folder, const char *trace,
                    uint64_t limit)
{
  static struct kc_scenario scenario;
  static struct kc_diag_list problems;
  static struct twin_engine simulated, computed;
  struct twin_model model;
  char text[2048], path[256];
  snprintf(text, sizeof text, scenario_text, policy->page_size, policy->pages, policy->name,
           policy->chunk_key, trace, limit);
  write_file(folder, "scenario.yaml", text);
  snprintf(path, sizeof path, "%s/scenario.yaml", folder);
  if (kc_scenario_load(&scenario, path, NULL, 0, &problems) != KC_OK) {
    fail("scenario", problems.items[0].text);
  }
  twin_model_make(&model, NULL);
  const uint64_t preempted = execute(&simulated, &model, &scenario, false);
  (void)execute(&computed, &model, &scenario, true);
  const bool equal = twin_logs_equal(&simulated.log, &computed.log);
  printf("%s: %zu bytes of decisions, %" PRIu64 " preemptions, %" PRIu64 " steps, %" PRIu64
         " tokens computed: %s\n", policy->name, simulated.log.bytes, preempted,
         computed.exec.steps, computed.exec.tokens, equal ? "equal" : "different");
  twin_engine_free(&simulated);
  twin_engine_free(&computed);
  twin_model_free(&model);
  return equal && preempted > 0;
}

int main(int argc, char **argv)
{
  char folder[] = "engine_trace_XXXXXX", trace[512], command[64];
  const char *shared = getenv("KVCAP_SHARED");
  bool good = true;
  snprintf(trace, sizeof trace, "%s/traces/azure2023/AzureLLMInferenceTrace_conv.csv",
           shared == NULL ? "." : shared);
  if (access(trace, R_OK) != 0) {
    printf("no %s\n", trace);
    return 77;
  }
  if (mkdtemp(folder) == NULL) fail(folder, "cannot be made");
  write_file(folder, "tiny.json", twin_config);
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
    good = compare(&policies[i], folder, trace, option_u64(argc, argv, "--limit", 2000)) && good;
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) != 0 || !good;
}
