/* A scenario: the whole question in one YAML file (design section 8), resolved to plain structs.
 *
 *   file --node.h--> tree --set overrides--> option tables --> struct kc_scenario (names resolved,
 *   defaults filled, everything validated at once)
 *
 * Names of models and GPUs are looked up beside the scenario, in $KVCAP_DATA, in the installed share
 * folder, in the build's source tree, in that order; a path works too; the file used is recorded.
 */
#ifndef KC_SIM_SCENARIO_SCENARIO_H
#define KC_SIM_SCENARIO_SCENARIO_H

#include "engine/memory/budget.h"
#include "engine/sched/policy.h"
#include "engine/kv/table.h"
#include "sim/replay/replay.h"
#include "traces/trace.h"

enum { KC_POOLS_MAX = 1 }; /* fleets come with routers */

/* What a client asks for as max_tokens. */
enum kc_max_tokens_rule { KC_MAX_TOKENS_TRACE, KC_MAX_TOKENS_COUNT, KC_MAX_TOKENS_RATIO };

struct kc_pool_spec {
  char name[48];
  enum kc_role role;
  char gpu_name[64];
  char profile_name[32];
  uint32_t replicas;            /* 1 until fleets exist; other values are refused */
  struct kc_memory_config memory;   /* tensor, pipeline, page_size, draft_layers inside */
  struct kc_precision precision;
  enum kc_integrity integrity;
  char policy_name[32];
  const struct kc_policy *policy;
  struct kc_sched_config sched;
  struct kc_gpu gpu;
  const struct kc_gpu_profile *profile;
};

struct kc_workload_spec {
  bool is_closed;
  struct kc_closed_config closed;
  char trace_path[KC_DIAG_PATH_BYTES]; /* as found */
  struct kc_trace_options trace_options;
  char trace_format[16];
  enum kc_max_tokens_rule max_tokens_rule;
  uint64_t max_tokens_count;
  double max_tokens_ratio;
};

struct kc_scenario {
  char name[128];
  char path[KC_DIAG_PATH_BYTES];
  char sha256[65];
  struct kc_model model;
  uint32_t pool_count;
  struct kc_pool_spec pool[KC_POOLS_MAX];
  struct kc_workload_spec workload;
  double slo_ttft_p95_ms, slo_tpot_p95_ms; /* 0 = not stated */
  double price_gpu_hour_usd;               /* from the GPU file unless the scenario says */
  bool price_known;
  uint64_t seed;
};

/* Loads, overrides (`sets`: "key=value" strings), resolves, validates. Every problem found is in
 * `problems`; returns kc_diag_list_result(problems). */
enum kc_err kc_scenario_load(struct kc_scenario *scenario, const char *path,
                             const char *const *sets, size_t set_count,
                             struct kc_diag_list *problems);

/* Finds `name` ("h200", "kimi-k2.6", or a path) of `folder` ("gpus", "models") with `suffix`
 * (".yaml", ".json"); `beside` is the scenario's path or NULL. Error names every place searched and
 * the nearest name. */
enum kc_err kc_data_find(const char *folder, const char *name, const char *suffix,
                         const char *beside, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag);

/* Canonical text of the resolved scenario (YAML that loads again to the same struct). Returns a
 * heap string. */
char *kc_scenario_resolved(const struct kc_scenario *scenario);

#endif
