/* What precisions cost in quality, as somebody measured it: never predicted here, only shown beside
 * the predictions, each figure with its source.
 *
 *   scenarios/quality/NAME.yaml, ... --kc_quality_load--> entries of one model
 */
#ifndef KC_SIM_PLAN_QUALITY_H
#define KC_SIM_PLAN_QUALITY_H

#include "engine/base/diag.h"

enum { KC_QUALITY_MAX = 256, KC_STAND_INS_MAX = 64 };

/* One figure of one precision, and the same of the precision that it is compared with. */
struct kc_quality {
  char model[64];            /* name of the model's config: "kimi-k2.6"; "any": of a small model
                                that stands in where nobody measured the model itself */
  char weights[128], kv[128]; /* as `kvcap precision` lists them; "checkpoint": as shipped; "any" */
  char metric[48], unit[16]; /* "MMLU", "%" */
  char better[8];       /* "higher" or "lower" */
  double value, base;        /* base: with the weights and KV named by `against` */
  char against[64];
  char source[200];
};

struct kc_quality_list {
  uint32_t count;
  struct kc_quality entry[KC_QUALITY_MAX]; /* of the model, in the order of files and lines */
  uint32_t stand_ins;
  struct kc_quality stand_in[KC_STAND_INS_MAX]; /* of "any", likewise */
};

/* Reads every *.yaml of the data folder `quality`, in the order of their names, and keeps what is
 * said of `model`. No folder is no entry. Errors: KC_ERR_INPUT with file and line; KC_ERR_LIMIT. */
enum kc_err kc_quality_load(struct kc_quality_list *list, const char *model,
                            struct kc_diag *diag);

/* True when the entry is about these formats; `as_shipped`: they are those of the checkpoint. */
bool kc_quality_is_of(const struct kc_quality *entry, const char *weights, bool as_shipped,
                      const char *kv);

#endif
