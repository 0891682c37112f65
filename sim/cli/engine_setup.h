/* The engine behind a scenario's run: a small synthetic model, its KV pool, the computing executor,
 * and a tap that takes the decision log.
 *
 *   kc_run (prepared) --attach--> replay.executor = tap -> executor -> clock
 *                                                            |            (predicted or wall)
 *                                          model, KV pool, threads
 *
 * The scheduler, the page pool and the requests are the scenario's; only what is computed is small.
 * So the decisions are those of the real deployment, and a laptop can compute its tokens.
 */
#ifndef KC_SIM_CLI_ENGINE_SETUP_H
#define KC_SIM_CLI_ENGINE_SETUP_H

#include <stdio.h>

#include "engine/base/digest.h"
#include "engine/exec/executor.h"
#include "engine/exec/decision.h"
#include "engine/exec/tag_fault.h"
#include "sim/scenario/scenario_run.h"

enum kc_engine_clock { KC_ENGINE_VIRTUAL, KC_ENGINE_WALL };

/* What the tap writes to. */
struct kc_engine_log {
  struct kc_sha256 sha;
  FILE *file; /* NULL: only the digest is taken */
  uint64_t bytes;
};

struct kc_engine_model {
  struct kc_model shapes;
  struct kc_weights weights;
  uint64_t seed;
  uint32_t tensor; /* the weights are those of one rank of so many */
  bool tiny;       /* not the scenario's own shapes */
};

/* What one rank waits for the others, by the measured kernels of a profile. */
struct kc_engine_peers {
  const struct kc_profile *kernels; /* borrowed */
  struct kc_device device;
  uint32_t tensor;
};
/* `peers` outlives what comes of it; nobody waits where there is one rank. */
struct kc_collective kc_engine_collective(const struct kc_engine_peers *peers);

struct kc_engine {
  struct kc_arena arena;
  struct kc_cache cache;
  struct kc_team *team;
  struct kc_exec exec;
  struct kc_executor predicted; /* of the run, as prepared */
  struct kc_synthetic_prompts prompts;
  struct kc_content_prompts texts;
  struct kc_decision_tap tap;
  struct kc_engine_log log;
  uint32_t fault_kinds, fault_every; /* every 0: no faults */
  struct kc_engine_peers peers;
  struct kc_tag_faults faults;
  struct kc_exec_probe probe;
};

/* The model's parameters: under 100,000. `positions`: tokens a sequence may have. `site` NULL: the
 * host; the engine computes where its model lies. */
enum kc_err kc_engine_model_build(struct kc_engine_model *model, const struct kc_site *site,
                                  uint32_t positions, uint64_t seed, struct kc_diag *diag);
/* The scenario's own model with synthetic weights, in its pool's precision: one rank of the tensor
 * degree that it says. */
enum kc_err kc_engine_model_build_own(struct kc_engine_model *model, const struct kc_site *site,
                                      const struct kc_scenario *scenario, uint32_t positions,
                                      struct kc_diag *diag);
/* Of the tiny model, or of the scenario's whole one. */
uint64_t kc_engine_model_parameters(const struct kc_engine_model *model);
void kc_engine_model_free(struct kc_engine_model *model);

/* A tap alone, before the predicted executor: what the simulator decides. */
enum kc_err kc_engine_attach_tap(struct kc_engine *engine, struct kc_run *run,
                                 struct kc_diag *diag);
/* Everything. `engine` is zeroed by the caller, but for log.file and what it says of faults. A
 * device takes no threads. */
enum kc_err kc_engine_attach(struct kc_engine *engine, struct kc_run *run,
                             const struct kc_engine_model *model, enum kc_engine_clock clock,
                             uint32_t threads, struct kc_diag *diag);
/* Ends the digest. */
void kc_engine_log_end(struct kc_engine_log *log, char hex[KC_SHA256_HEX_BYTES]);
void kc_engine_free(struct kc_engine *engine);

#endif
