/* Two answers to the same load, side by side: measured and predicted, or two runs.
 *
 *   side A, side B --joined by row--> figures of each metric, what carries the difference,
 *                                     requests that differ most, running and waiting by second
 */
#ifndef KC_SIM_CALIBRATE_COMPARE_H
#define KC_SIM_CALIBRATE_COMPARE_H

#include "sim/calibrate/serving_log.h"

/* What the time of a request goes to; the terms add up to TTFT before the first token, to E2E less
 * TTFT after it. Only our own runs part all of it. A measured log may say when a request was taken
 * up: then KV_WAIT lies within QUEUE, and HOST within PREFILL and DECODE, on both sides. If it does
 * not, QUEUE lies within PREFILL, too. */
enum kc_stage {
  KC_STAGE_QUEUE,   /* waiting, for a slot or for its turn in the budget of tokens */
  KC_STAGE_KV_WAIT, /* waiting for want of pages, after a preemption too */
  KC_STAGE_PREFILL, /* kernels of the steps before the first token */
  KC_STAGE_DECODE,  /* kernels of the steps after it */
  KC_STAGE_HOST,    /* host's part of both */
  KC_STAGES
};
const char *kc_stage_name(enum kc_stage stage);

enum kc_parts { KC_PARTS_NONE, KC_PARTS_QUEUE, KC_PARTS_ALL };
/* Are terms of this kind told apart? */
bool kc_stage_is_known(enum kc_stage stage, enum kc_parts parts);

struct kc_compared_figure {
  bool there;                /* both sides have it */
  double a, b;               /* seconds */
};

enum { KC_WORST_MAX = 10, KC_SECONDS_MAX = 100000 };

struct kc_worst {
  size_t row;
  double a_s, b_s;           /* E2E */
  enum kc_stage stage;       /* that carries most of it */
  double share_s[KC_STAGES]; /* what each carries, b - a */
};

/* Mean seconds of a request. */
struct kc_compared_stage {
  double a_s, b_s;             /* whole life */
  double first_a_s, first_b_s; /* of that, before the first token */
};

struct kc_comparison {
  size_t rows;               /* that both sides answered */
  size_t only_a, only_b;     /* that one side alone did */
  struct kc_compared_figure figure[KC_LOG_METRICS][KC_LOG_FIGURES];
  enum kc_parts parts;       /* what both sides tell apart */
  struct kc_compared_stage stage[KC_STAGES]; /* over `rows` */
  uint32_t worst_count;
  struct kc_worst worst[KC_WORST_MAX]; /* largest |E2E b - a| first */
};

/* Rows are joined by position. KC_ERR_INPUT when no request has an answer on both sides, or when
 * lengths show that these are not the same requests; KC_ERR_MEMORY. */
enum kc_err kc_compare(struct kc_comparison *out, const struct kc_serving_log *a,
                       const struct kc_serving_log *b, bool linear, struct kc_diag *diag);

/* State of a side at `time_s`: of its series if it has one (false beyond its end), else counted
 * from its requests: running from the first step (or the first token, when the queue is not
 * known). */
bool kc_compare_state(const struct kc_serving_log *side, double time_s, double *running,
                      double *waiting);

#endif
