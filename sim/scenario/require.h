/* What a figure has to be: "ttft_p95_ms<=500". The one syntax of `run --require`, of a plan's SLO
 * and of whoever else demands something of a run.
 *
 *   text --parse--> {figure, sense, limit} --check against a figure set--> value, ratio, met or not
 */
#ifndef KC_SIM_SCENARIO_REQUIRE_H
#define KC_SIM_SCENARIO_REQUIRE_H

#include "sim/scenario/figure.h"

enum { KC_REQUIREMENTS_MAX = 32, KC_REQUIREMENT_BYTES = 80 };

enum kc_require_sense { KC_REQUIRE_AT_MOST, KC_REQUIRE_LESS, KC_REQUIRE_AT_LEAST,
                        KC_REQUIRE_MORE };

struct kc_requirement {
  char text[KC_REQUIREMENT_BYTES]; /* normalised: "ttft_p95_ms<=500" */
  enum kc_figure figure;
  enum kc_require_sense sense;
  double limit;                    /* finite */
};

/* Reads "FIGURE<=NUMBER" (also <, >=, >; blanks around the sign are fine). KC_ERR_USAGE, naming the
 * nearest figure where that is unknown. */
enum kc_err kc_requirement_parse(struct kc_requirement *requirement, const char *text,
                                 struct kc_diag *diag);

/* The same from its parts. */
void kc_requirement_make(struct kc_requirement *requirement, enum kc_figure figure,
                         enum kc_require_sense sense, double limit);

/* Reads what --`option` was given, at most KC_REQUIREMENTS_MAX texts. KC_ERR_USAGE, naming the
 * option. */
enum kc_err kc_requirements_parse(struct kc_requirement require[KC_REQUIREMENTS_MAX],
                                  uint32_t *count, const char *const *texts, size_t given,
                                  const char *option, struct kc_diag *diag);

/* KC_ERR_USAGE when no value of a figure meets two of them. */
enum kc_err kc_requirements_agree(const struct kc_requirement *require, uint32_t count,
                                  const char *option, struct kc_diag *diag);

const char *kc_require_sign(enum kc_require_sense sense); /* "<=" */
bool kc_require_wants_low(enum kc_require_sense sense);   /* <= and < */

/* A requirement on a figure that the set does not know is not met. */
struct kc_require_outcome {
  bool known, met;
  double value;  /* 0 unless known */
  double excess; /* how far the value is on the wrong side: value / limit, or limit / value where
                    more is wanted; at most 1 exactly when met, KC_REQUIRE_HOPELESS when there is no
                    such ratio */
};
#define KC_REQUIRE_HOPELESS 1e9
struct kc_require_outcome kc_requirement_check(const struct kc_requirement *requirement,
                                               const struct kc_figure_set *figures);

#endif
