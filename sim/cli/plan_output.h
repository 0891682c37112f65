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
  struct kc_plan_bought bought;                  /* likewise; its commands are heap */
};

/* The `kvcap run` line that gives the winner's figures, ready for a shell, with `path` as its
 * scenario: as it was judged, or as bought. Heap; NULL when memory ran out. */
char *kc_plan_command(const struct kc_plan *plan, const char *path, bool as_bought);

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
