/* A scenario: the whole question in one YAML file, resolved to plain structs.
 *
 *   file --node.h--> tree --set overrides--> option tables --> struct kc_scenario (names resolved,
 *   defaults filled, everything validated at once)
 *
 * Names of models and GPUs are looked up beside the scenario, in $KVCAP_DATA, in the installed
 * share folder, in the build's source tree, in that order; a path works too; the file used is
 * recorded.
 * A scenario is large: pass it by pointer.
 */
#ifndef KC_SIM_SCENARIO_SCENARIO_H
#define KC_SIM_SCENARIO_SCENARIO_H

#include "engine/memory/budget.h"
#include "engine/sched/policy.h"
#include "engine/kv/table.h"
#include "sim/replay/replay.h"
#include "sim/scenario/clients.h"
#include "sim/scenario/expect.h"
#include "traces/trace.h"
#include "traces/transform/transform.h"

enum {
  KC_POOLS_MAX = 1,                   /* of any number of equal instances */
  KC_CLOSED_REQUESTS_MAX = 100000000, /* of a closed workload, like the rows of a trace */
  KC_MAX_TOKENS_MAX = 1 << 30
};

/* What a client asks for as max_tokens. */
enum kc_max_tokens_rule { KC_MAX_TOKENS_TRACE, KC_MAX_TOKENS_COUNT, KC_MAX_TOKENS_RATIO };

/* What decides when a request of a trace is offered. AUTO: closed when the trace says which request
 * waits for which. */
enum kc_loop {
  KC_LOOP_AUTO,
  KC_LOOP_OPEN,  /* its recorded time */
  KC_LOOP_CLOSED /* the end of the request that it waits for, and the recorded wait */
};

/* Whether prompts are cached. AUTO: where the workload says what prompts hold, in role serve. */
enum kc_caching { KC_CACHING_AUTO, KC_CACHING_ON, KC_CACHING_OFF };

struct kc_pool_spec {
  char name[48];
  enum kc_role role;
  char gpu_name[KC_DIAG_PATH_BYTES]; /* as given: a name or a path */
  char profile_name[KC_PROFILE_NAME_BYTES];
  uint32_t replicas;            /* equal instances behind the router, 1 to KC_REPLICAS_MAX */
  /* tensor, pipeline, page_size, draft_layers inside; fraction filled in; `context` and
     `concurrency` are 0, because a run asks what happens and only `fit` asks whether it would */
  struct kc_memory_config memory;
  struct kc_precision precision;
  enum kc_integrity integrity;
  double moe_skew;              /* of the routing of experts: power-law exponent, 0 = balanced */
  char policy_name[32];
  const struct kc_policy *policy;
  struct kc_sched_config sched; /* prefix_cache and key_count are known when the workload is */
  bool max_running_given;       /* else the policy may choose it once the pool's size is known */
  enum kc_caching caching;
  bool share_tenants;           /* tenants find each other's prompts in the cache */
  uint32_t queue_limit;         /* 0 = none */
  struct kc_inject_config inject; /* kinds 0: none */
  struct kc_gpu gpu;
  struct kc_gpu_profile profile; /* as named; of a fit with a row left out, a copy of its own */
};

/* Who of the pool's replicas gets a request (sim/fleet/router.h). */
struct kc_router_spec {
  enum kc_router_policy policy;
  struct kc_fraction overflow;  /* session-affinity, prefix-aware: >= 1 */
  uint32_t prefix_tokens;       /* session-affinity without sessions: prompts that begin with the
                                   same so many tokens, in whole blocks of ids, belong together */
};

struct kc_workload_spec {
  bool is_closed;
  struct kc_closed_config closed;
  char trace_name[KC_DIAG_PATH_BYTES]; /* as given */
  char trace_path[KC_DIAG_PATH_BYTES]; /* as found */
  struct kc_trace_options trace_options; /* its format is NULL (detect) or a literal */
  char trace_format[16];               /* "auto", or as declared */
  enum kc_loop loop;
  struct kc_transform transform;       /* what is done to the trace once it is read */
  enum kc_max_tokens_rule max_tokens_rule;
  uint64_t max_tokens_count;
  double max_tokens_ratio;  /* max_tokens = ratio * true output length */
  uint32_t shared_prefix_tokens; /* closed: the first tokens of every prompt, the same for all */
  struct kc_clients_spec clients;
};

/* What a GPU costs, and what the same tokens would cost elsewhere. */
struct kc_price_part {
  double share;                 /* of the GPUs, 0 to 1 */
  double gpu_hour_usd;
};
struct kc_price_spec {
  bool on_demand_known;
  double on_demand_usd;         /* from the GPU file unless the scenario says */
  struct kc_price_part reserved, spot; /* the rest of the GPUs is on demand */
  double spot_lost;             /* of a spot GPU's time, paid for and lost to interruptions, < 1 */
  kc_ps cold_start_ps;          /* paid before a replica serves */
  bool has_api;
  double api_input_usd, api_cached_usd, api_output_usd; /* per million tokens */
};
struct kc_energy_spec {
  double usd_per_kwh;           /* 0 = not stated */
  double pue;                   /* power of the site / power of its machines, >= 1 */
};

/* Dollars for one GPU-hour that serves, of the mix; false when a part's price is not known. */
bool kc_price_mix(const struct kc_price_spec *price, double *gpu_hour_usd);

struct kc_scenario {
  char name[128];
  char path[KC_DIAG_PATH_BYTES];
  char sha256[65];                         /* of the file's bytes, before overrides */
  char model_name[KC_DIAG_PATH_BYTES];     /* as given: a name or a path */
  struct kc_model model;
  uint32_t pool_count;
  struct kc_pool_spec pool[KC_POOLS_MAX];
  struct kc_router_spec router;
  struct kc_workload_spec workload;
  double slo_ttft_p95_ms, slo_tpot_p95_ms; /* 0 = not stated */
  struct kc_price_spec price;
  double price_gpu_hour_usd;               /* of the mix that `price` states */
  bool price_known;
  struct kc_energy_spec energy;
  uint64_t seed;
  uint32_t expect_count;
  struct kc_expect expect[KC_EXPECT_MAX];  /* figures to be met: `kvcap verify` looks at them */
};

/* Loads, overrides (`sets`: "key=value" strings, see kc_document_set), resolves, validates. Every
 * problem found is in `problems` (initialised here); returns kc_diag_list_result(problems). After
 * an error the scenario must not be used. Nothing in it needs freeing. */
enum kc_err kc_scenario_load(struct kc_scenario *scenario, const char *path,
                             const char *const *sets, size_t set_count,
                             struct kc_diag_list *problems);

/* Finds `name` ("h200", "kimi-k2.6", or a path) of `folder` ("gpus", "models") with `suffix`
 * (".yaml", ".json"); `beside` is the scenario's path or NULL. A name with a slash or with the
 * suffix is a path: relative ones are tried beside the scenario, then in the current folder. Error
 * (KC_ERR_INPUT) names every place searched and the nearest name, or all when none is near. */
enum kc_err kc_data_find(const char *folder, const char *name, const char *suffix,
                         const char *beside, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag);
/* The same for the value of a command's option: a name that nothing has is KC_ERR_USAGE there, as
 * it is in a --set, and `option` ("--gpu") is its place. */
enum kc_err kc_data_find_option(const char *option, const char *folder, const char *name,
                                const char *suffix, const char *beside,
                                char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag);

/* The file of measured kernels that a profile names: beside the GPU's file; in a folder of layered
 * profiles, that of the model and tensor degree. Error KC_ERR_FILE. */
enum kc_err kc_kernels_find(const struct kc_gpu *gpu, const char *kernels, const char *model,
                            uint32_t tensor, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag);

/* The first folder of that name ("published") in the data folders. KC_ERR_FILE. */
enum kc_err kc_data_folder(const char *folder, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag);

/* A file, or a folder of them: what may be a trace. */
bool kc_trace_exists(const char *path);

/* The share folder that belongs to the running program (of PREFIX/bin/kvcap: PREFIX/share/kvcap),
 * so that an installed tree can be moved. False when there is none. */
bool kc_data_share(char out[KC_DIAG_PATH_BYTES]);

/* Finds a trace: beside the scenario, in the current folder, in the data folders, and in their
 * traces/samples; a folder of trace files only in the first two. */
enum kc_err kc_trace_find(const char *name, const char *beside, char out[KC_DIAG_PATH_BYTES],
                          struct kc_diag *diag);

/* Canonical text of the resolved scenario: every default spelled out, YAML that loads again to the
 * same struct (but for path and sha256). Names of files stand as the user gave them, so the text is
 * the same on every machine. Returns a heap string, NULL when memory ran out. */
char *kc_scenario_resolved(const struct kc_scenario *scenario);

#endif
