/* The HTML page of stored results: one self-contained file for a phone, a desk and paper.
 *
 *   database --views (reports/sql/views.sql)--> tables in memory --> answer, pictures, latencies,
 *   what it rests on, assumptions, how to reproduce
 *
 * Nothing but the database decides its bytes. No script, no reference to anything outside. */
#ifndef KC_SIM_HTML_HTML_PAGE_H
#define KC_SIM_HTML_HTML_PAGE_H

#include <stdio.h>

#include "sim/store/store.h"

enum { KC_HTML_RUNS_MAX = 4 }; /* side by side on a phone */

struct kc_html_spec {
  const char *style;   /* the style sheet, put inline as it is; borrowed */
  const char *version; /* of this program; borrowed */
  bool runs;           /* the runs chosen last (kc_store_choose), at most KC_HTML_RUNS_MAX */
  bool sweep;          /* the sweep chosen last (kc_store_choose_sweep) */
  bool plan;           /* or the plan chosen like it, with reports/sql/plan.sql; not both */
};

/* Writes the page of what has been chosen, at least one of them. KC_ERR_LIMIT for too many runs;
 * KC_ERR_STORE; KC_ERR_INPUT when a stored scenario is no YAML. A failed write shows in
 * ferror(out). */
enum kc_err kc_html_write(FILE *out, struct kc_store *store, const struct kc_html_spec *spec,
                          struct kc_diag *diag);

#endif
