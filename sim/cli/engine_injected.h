/* Faults that a scenario injects, in the engine's own tables (engine/exec/tag_fault.h): a run
 * without them first, then one with them, and the tokens of both compared. */
#ifndef KC_SIM_CLI_ENGINE_INJECTED_H
#define KC_SIM_CLI_ENGINE_INJECTED_H

#include <jansson.h>

#include "engine/instance/inject.h"
#include "sim/cli/engine_setup.h"

struct kc_engine_faults {
  struct kc_inject_config asked; /* kinds 0: none */
  /* of the run without faults; heap */
  int32_t *token;
  uint64_t *first;               /* [requests + 1] */
  uint32_t requests;
  /* results */
  uint64_t whole;                /* requests with all tokens of the run without faults */
  uint64_t cut;                  /* with the first of them: victims, and who came to another end */
  uint64_t wrong;                /* with other tokens, or not hit and yet cut short: 0 */
};

/* Takes the faults out of the scenario: the instance's own are another matter. KC_ERR_INPUT when
 * the engine cannot have them there. */
enum kc_err kc_engine_faults_take(struct kc_engine_faults *faults, struct kc_scenario *scenario,
                                  struct kc_diag *diag);
/* What the engine does with them: set before kc_engine_attach of the second run. "reused" strikes
 * before the check and, as often, between the check and the write. */
void kc_engine_faults_arm(const struct kc_engine_faults *faults, struct kc_engine *engine);
/* Keeps the tokens of the first run. KC_ERR_MEMORY. */
enum kc_err kc_engine_faults_keep(struct kc_engine_faults *faults, const struct kc_engine *engine,
                                  const struct kc_run *run, struct kc_diag *diag);
/* Compares those of the second one. */
void kc_engine_faults_compare(struct kc_engine_faults *faults, const struct kc_engine *engine,
                              const struct kc_run *run);
/* All victims aborted, nobody else, and no other token. */
bool kc_engine_faults_held(const struct kc_engine_faults *faults, const struct kc_engine *engine);
void kc_engine_faults_print(const struct kc_engine_faults *faults, const struct kc_engine *engine);
/* A new reference; null without faults. */
json_t *kc_engine_faults_json(const struct kc_engine_faults *faults,
                              const struct kc_engine *engine);
/* The violation ring: the first events that checks and writes have seen. A new reference. */
json_t *kc_engine_events_json(const struct kc_exec *exec);
void kc_engine_faults_free(struct kc_engine_faults *faults);

#endif
