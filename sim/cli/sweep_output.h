/* What `kvcap sweep` prints: a table for people, CSV, or one JSON document (private to sim/cli). */
#ifndef KC_SIM_CLI_SWEEP_OUTPUT_H
#define KC_SIM_CLI_SWEEP_OUTPUT_H

#include <jansson.h>

#include "sim/plan/sweep.h"

enum kc_sweep_format { KC_SWEEP_TABLE, KC_SWEEP_CSV, KC_SWEEP_JSON };

struct kc_sweep_output {
  const struct kc_sweep *sweep;   /* borrowed */
  enum kc_sweep_format format;
  uint32_t figure_count;
  enum kc_figure figure[KC_FIGURES]; /* columns, in order */
  json_t *points;                 /* JSON: gathered until the end */
};

/* "a,b,c" into the columns; NULL: the usual ones of a table, all others for the other formats. */
enum kc_err kc_sweep_output_figures(struct kc_sweep_output *out, const char *names,
                                    struct kc_diag *diag);

void kc_sweep_output_begin(struct kc_sweep_output *out);
enum kc_err kc_sweep_output_point(struct kc_sweep_output *out, uint64_t number,
                                  const struct kc_point_result *result, struct kc_diag *diag);
/* Returns the exit status. With `complete` false nothing more is printed, and JSON not at all. */
int kc_sweep_output_end(struct kc_sweep_output *out, const struct kc_sweep_totals *totals,
                        bool complete);

/* The command that computes one point alone: "kvcap run s.yaml --set a=b", quoted for a shell.
 * Heap; NULL when memory ran out. */
char *kc_sweep_command(const struct kc_sweep *sweep, uint64_t number);

#endif
