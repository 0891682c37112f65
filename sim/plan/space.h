/* What a plan may choose from, and how a choice is written as changes of the scenario.
 *
 *   --gpu h100,h200 --tensor 1,2 ... --> axes --> columns 0, 1, ... --> "pools.serve.gpu=h200", ...
 *
 * The columns are numbered in the order of preference that decides ties: the values of an axis as
 * they were listed, the GPU changing slowest, then weights, KV, tensor degree, page size, chunk,
 * and the batch cap fastest. An empty value changes nothing: the scenario's own.
 */
#ifndef KC_SIM_PLAN_SPACE_H
#define KC_SIM_PLAN_SPACE_H

#include "sim/scenario/scenario.h"

enum kc_plan_axis_id {
  KC_AXIS_GPU, KC_AXIS_WEIGHTS, KC_AXIS_KV, KC_AXIS_TENSOR, KC_AXIS_PAGE, KC_AXIS_CHUNK,
  KC_AXIS_CAP, KC_AXES
};
const char *kc_plan_axis_name(enum kc_plan_axis_id axis); /* as its option: "gpu", "max-running" */

enum {
  KC_AXIS_VALUES_MAX = 32,
  KC_AXIS_VALUE_BYTES = 128,
  KC_PLAN_REPLICAS_MAX = 256,
  KC_PLAN_SETS_MAX = 96,
  KC_PLAN_SET_BYTES = 320
};

struct kc_plan_axis {
  uint32_t count;
  char value[KC_AXIS_VALUES_MAX][KC_AXIS_VALUE_BYTES]; /* "" = as the scenario has it */
};

struct kc_plan_space {
  struct kc_plan_axis axis[KC_AXES]; /* count 0 before kc_space_complete: nothing was listed */
  uint32_t replicas[KC_PLAN_REPLICAS_MAX]; /* ascending */
  uint32_t replica_count;
  struct kc_plan_axis price;         /* "h100=2.5", as listed */
  char pool[48];                     /* the scenario's pool; filled by kc_space_complete */
  char own_gpu[KC_DIAG_PATH_BYTES];  /* the scenario's */
  enum kc_server server;
  bool plain[KC_AXIS_VALUES_MAX];    /* this GPU lacks the scenario's profile: its plain one */
  bool kv_apart;                     /* the scenario says K and V apart */
  bool mixed_price;                  /* and reserved or spot parts of its price */
};

/* Changes of a scenario, as kc_scenario_load takes them. */
struct kc_plan_sets {
  size_t count;
  char text[KC_PLAN_SETS_MAX][KC_PLAN_SET_BYTES];
};

/* Reads "h100,h200" into an axis. KC_ERR_USAGE for empty or repeated values, or too many. */
enum kc_err kc_space_axis_parse(struct kc_plan_space *space, enum kc_plan_axis_id axis,
                                const char *text, struct kc_diag *diag);

/* Reads "h100=2.5": what an hour of a listed GPU costs. */
enum kc_err kc_space_price_parse(struct kc_plan_space *space, const char *text,
                                 struct kc_diag *diag);

/* Reads "1..16" or "1,2,4,8" into the numbers of replicas. */
enum kc_err kc_space_replicas_parse(struct kc_plan_space *space, const char *text,
                                    struct kc_diag *diag);

/* Fills the axes that were not listed, from the scenario as it stands, and looks what the listed
 * GPUs lack. Errors KC_ERR_INPUT: more than one pool; KC_ERR_USAGE: a price of a GPU that is not
 * listed. */
enum kc_err kc_space_complete(struct kc_plan_space *space, const struct kc_scenario *scenario,
                              struct kc_diag *diag);

uint32_t kc_space_columns(const struct kc_plan_space *space);

/* Which value of each axis a column has. */
void kc_space_column(const struct kc_plan_space *space, uint32_t column, uint32_t at[KC_AXES]);

/* Appends what makes the scenario that column. */
void kc_space_sets(const struct kc_plan_space *space, uint32_t column, struct kc_plan_sets *sets);

/* Appends what gives the pool these formats: "fp8", "routed_experts=int4-g32+default=bf16",
 * "checkpoint"; "fp8-e4m3", "k=bf16+v=fp8-e4m3". `was_apart`: the scenario names K and V apart. */
void kc_space_add_weights(const char *pool, const char *value, struct kc_plan_sets *sets);
void kc_space_add_kv(const char *pool, const char *value, bool was_apart,
                     struct kc_plan_sets *sets);

/* Appends one change. */
void kc_sets_add(struct kc_plan_sets *sets, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
