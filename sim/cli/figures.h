/* Figures of a command: where the scripts are, where the files go, drawing (private to sim/cli).
 *
 *   kc_figures_find -> kc_figures_make_out -> (write OUT/NAME.csv, announce, draw) ... -> print
 */
#ifndef KC_SIM_CLI_FIGURES_H
#define KC_SIM_CLI_FIGURES_H

#include <jansson.h>

#include "engine/base/diag.h"

enum { KC_FIGURE_PATH_BYTES = 4096 };
enum kc_figure_format { KC_FIGURE_SVG, KC_FIGURE_PNG, KC_FIGURE_BOTH };

struct kc_figures {
  char folder[KC_FIGURE_PATH_BYTES]; /* reports/ of this installation */
  char out[KC_FIGURE_PATH_BYTES];    /* starts with '/' or "./" */
  json_t *files; /* names of the files written; NULL: printed at once. The command's reference */
};

/* Looks for reports/ in $KVCAP_DATA, the share folder and the source tree. KC_ERR_FILE. */
enum kc_err kc_figures_find(struct kc_figures *figures, struct kc_diag *diag);
/* Makes the folder `wanted`, with its parents. KC_ERR_FILE, KC_ERR_LIMIT. */
enum kc_err kc_figures_make_out(struct kc_figures *figures, const char *wanted,
                                struct kc_diag *diag);
/* "folder/name suffix". KC_ERR_LIMIT when that is too long. */
enum kc_err kc_figures_join(char out[KC_FIGURE_PATH_BYTES], const char *folder, const char *name,
                            const char *suffix, struct kc_diag *diag);
/* A file has been written. */
void kc_figures_announce(struct kc_figures *figures, const char *path);
/* OUT/name.csv to OUT/name.svg and OUT/name.png by reports/plots/name.gp, and announces them.
 * What has nothing to draw is left out with a note on stderr. KC_ERR_FILE when gnuplot is absent or
 * fails. */
enum kc_err kc_figures_draw(struct kc_figures *figures, const char *name,
                            enum kc_figure_format format, struct kc_diag *diag);
/* One JSON document of the names, when they were gathered. Returns the exit status. */
int kc_figures_print(const struct kc_figures *figures, int schema);

#endif
