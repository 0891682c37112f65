/* Writing HTML: text that is escaped, numbers as people read them.
 *
 * Markup goes out by fprintf with fixed strings; whatever comes from the database goes out by
 * kc_html_text or kc_html_figure alone. A failed write shows in ferror(out) at the end. */
#ifndef KC_SIM_HTML_HTML_TEXT_H
#define KC_SIM_HTML_HTML_TEXT_H

#include <stdio.h>

/* How a number is rounded for reading. */
enum kc_rounding {
  KC_ROUND_COUNT,   /* whole: 1,234,567 */
  KC_ROUND_READING, /* three significant digits, whole from 100 on: 8.26, 41.7, 121, 1,198 */
  KC_ROUND_MONEY,   /* at least cents, three significant digits below a dollar: 5.59, 0.925 */
  KC_ROUND_TENTH    /* one decimal: 73.8 */
};
enum { KC_HTML_NUMBER_BYTES = 480 };

/* & < > " ' become character references, so that the text may stand in an attribute as well. */
void kc_html_text(FILE *out, const char *text);

/* `value` (finite) as `rounding` says, thousands grouped, into `out`; returns it. */
const char *kc_html_number(char out[KC_HTML_NUMBER_BYTES], double value, enum kc_rounding rounding);

/* Where a number stands in the database: of a run, or of a point of a sweep. */
struct kc_html_source {
  const char *kind; /* "run" or "point" */
  const char *id;
};

/* <TAG class=CLASS data-KIND=ID data-figure=FIGURE data-value=VALUE>rounded</TAG>, so that every
 * number of a page can be held against the database. `value` is the database's text; NULL writes
 * "–" without a value. `class` may be "". */
void kc_html_figure(FILE *out, const char *tag, const char *class, struct kc_html_source source,
                    const char *figure, const char *value, enum kc_rounding rounding);

#endif
