/* The two faces of a finished plan, and of a highest rate. */
#ifndef KC_SIM_CLI_PLAN_OUTPUT_H
#define KC_SIM_CLI_PLAN_OUTPUT_H

#include <jansson.h>

#include "sim/plan/plan_details.h"
#include "sim/plan/rate.h"

struct kc_plan_answer {
  const struct kc_plan *plan;
  struct kc_plan_part part[KC_REQUIREMENTS_MAX]; /* of a plan that found nothing */
  struct kc_plan_lost lost;                      /* likewise */
  struct kc_plan_units units;                    /* of a winner */
  struct kc_plan_limits limits;                  /* likewise */
  uint32_t as_bought; /* entry of run[]: the winner, spare replicas and all, under the traffic as it
                         is recorded; the winner's own entry when that is the same */
  char *command;      /* heap: the `kvcap run` line that shows a winner, ready for a shell */
};

/* Fills in the command, of a plan that found something; false when memory ran out. */
bool kc_plan_command(struct kc_plan_answer *answer);

/* The document of `plan --json`; NULL when memory ran out. The caller owns it. */
json_t *kc_plan_json(const struct kc_plan_answer *answer);

/* The answer that a person reads in ten seconds, on stdout. */
void kc_plan_print(const struct kc_plan_answer *answer);

json_t *kc_rate_json(const struct kc_rate *rate);
void kc_rate_print(const struct kc_rate *rate, double tolerance);

/* "2 x 1 h100", "3 (1 spare) x 4 h200": written to out. */
const char *kc_plan_hardware(const struct kc_plan *plan, const struct kc_search_probe *probe,
                             char out[96]);

#endif
