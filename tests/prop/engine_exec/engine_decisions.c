/* label: ci
 * timeout: 600
 * The engine makes the simulator's decisions: random scenarios are run twice in virtual time, once
 * with the predicted executor and once with the CPU executor, which computes every token of a small
 * model, and the decision logs must be equal byte for byte. The engine writes its log from its own
 * tables.
 *
 *   engine_decisions [--seed N] [--runs N] [--requests N]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_twin.h"
#include "random_run.h"

static uint64_t all_outputs(const struct test_run *run)
{
  uint64_t sum = 0;
  if (run->closed) return (uint64_t)run->request_count * run->closed_config.output_tokens;
  for (uint32_t i = 0; i < run->request_count; i++) sum += run->requests[i].output_tokens;
  return sum;
}

static void execute(struct twin_engine *engine, const struct twin_model *model, uint64_t seed,
                    uint32_t requests_max, bool real)
{
  struct test_run run;
  random_run_draw(&run, seed, requests_max);
  *engine = (struct twin_engine){.model = model,
                                 .real = real,
                                 .instance = &run.instance,
                                 .requests = run.requests,
                                 .request_count = run.request_count,
                                 .output_tokens = all_outputs(&run)};
  run.wrap = twin_wrap;
  run.wrap_context = engine;
  test_run_execute(&run);
  free(run.requests);
  free(run.outcomes);
}

static bool compare(const struct twin_model *model, uint64_t seed, uint32_t requests_max,
                    uint64_t *bytes, uint64_t *tokens)
{
  static struct twin_engine simulated, computed;
  execute(&simulated, model, seed, requests_max, false);
  execute(&computed, model, seed, requests_max, true);
  const bool equal = twin_logs_equal(&simulated.log, &computed.log);
  if (!equal) printf("seed=%" PRIu64 " requests=%" PRIu32 ": logs differ\n", seed, requests_max);
  *bytes += simulated.log.bytes;
  *tokens += computed.cpu.tokens;
  twin_engine_free(&simulated);
  twin_engine_free(&computed);
  return equal;
}

int main(int argc, char **argv)
{
  struct twin_model model;
  const uint64_t seed = option_u64(argc, argv, "--seed", 1);
  const uint64_t runs = option_u64(argc, argv, "--runs", 200);
  const uint32_t requests = (uint32_t)option_u64(argc, argv, "--requests", 16);
  uint64_t wrong = 0, bytes = 0, tokens = 0;
  twin_model_make(&model);
  for (uint64_t i = 0; i < runs; i++) {
    wrong += !compare(&model, seed + i, requests, &bytes, &tokens);
  }
  printf("%" PRIu64 " runs, %" PRIu64 " tokens computed, %" PRIu64 " bytes of decisions, %" PRIu64
         " runs differ\n", runs, tokens, bytes, wrong);
  twin_model_free(&model);
  return wrong > 0 || tokens == 0 || bytes < 1000 * runs;
}
