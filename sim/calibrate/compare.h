/* Two answers to the same load, side by side: measured and predicted, or two runs.
 *
 *   side A, side B --joined by row--> figures of each metric, shares of the difference by stage,
 *                                     requests that differ most, running and waiting by second
 */
#ifndef KC_SIM_CALIBRATE_COMPARE_H
#define KC_SIM_CALIBRATE_COMPARE_H

#include "sim/calibrate/serving_log.h"

/* Stages of a request's life that add up to E2E. QUEUE is from arrival to the first step; a side
 * that
 * does not know it has it within PREFILL. AGAIN is time without a slot after that, for want of KV.
 * */
enum kc_stage { KC_STAGE_QUEUE, KC_STAGE_PREFILL, KC_STAGE_DECODE, KC_STAGES };
const char *kc_stage_name(enum kc_stage stage);

struct kc_compared_figure {
  bool there;                /* both sides have it */
  double a, b;               /* seconds */
};

enum { KC_WORST_MAX = 10, KC_SECONDS_MAX = 100000 };

struct kc_worst {
  size_t row;
  double a_s, b_s;           /* E2E */
  enum kc_stage stage;       /* that carries most of it */
  double share_s;            /* what it carries, b - a */
};

struct kc_comparison {
  size_t rows;               /* that both sides answered */
  size_t only_a, only_b;     /* that one side alone did */
  struct kc_compared_figure figure[KC_LOG_METRICS][KC_LOG_FIGURES];
  bool queue_known;          /* by both sides; else QUEUE is within PREFILL */
  double stage_a_s[KC_STAGES], stage_b_s[KC_STAGES]; /* means over `rows` */
  uint32_t worst_count;
  struct kc_worst worst[KC_WORST_MAX]; /* largest |E2E b - a| first */
};

/* Rows are joined by position. KC_ERR_INPUT when no request has an answer on both sides, or when
 * lengths show that these are not the same requests; KC_ERR_MEMORY. */
enum kc_err kc_compare(struct kc_comparison *out, const struct kc_serving_log *a,
                       const struct kc_serving_log *b, bool linear, struct kc_diag *diag);

/* State of a side at `time_s`: of its series if it has one (false beyond its end), else counted
 * from
 * its requests: running from the first step (or the first token, when the queue is not known). */
bool kc_compare_state(const struct kc_serving_log *side, double time_s, double *running,
                      double *waiting);

#endif
