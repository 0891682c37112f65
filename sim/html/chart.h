/* Small charts as inline SVG: an axis frame, and what is drawn into it.
 *
 *   kc_chart_open -> kc_chart_line, kc_chart_dot, kc_chart_limit ... -> kc_chart_close
 *
 * A chart is KC_CHART_WIDTH units wide and is shown at about one unit a pixel on a phone and on a
 * desk alike, so its letters keep their size. Colours, dashes and fonts are those of the page: an
 * element carries a class (s0 .. s7 for the series), the style sheet the rest, light and dark. */
#ifndef KC_SIM_HTML_CHART_H
#define KC_SIM_HTML_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { KC_CHART_WIDTH = 360, KC_CHART_HEIGHT = 212, KC_CHART_SERIES = 8 };

struct kc_axis {
  double low, high;  /* low < high; of a logarithmic axis both positive */
  bool logarithmic;
  const char *label; /* with its unit; escaped here */
};

struct kc_chart {
  FILE *out;
  struct kc_axis x, y;
  double left, right, top, bottom; /* of the frame, in units; top < bottom */
  double height;
};

/* Starts the picture, its text alternative (`title` and `description`, escaped here) and its axes.
 * `number` is unique in the page. */
void kc_chart_open(struct kc_chart *chart, int number, const char *title, const char *description);
void kc_chart_close(struct kc_chart *chart);

/* Only <svg>, its text alternative, and nothing in it: for pictures without axes. */
void kc_chart_open_bare(FILE *out, int number, double height, const char *title,
                        const char *description);

/* A frame that a chart of `height` units usually has. */
struct kc_chart kc_chart_frame(FILE *out, double height, struct kc_axis x, struct kc_axis y);

/* An axis from 0 with room above `most`; where everything is 0 it still has a height. */
struct kc_axis kc_axis_from_zero(double most, const char *label);
/* From `low` to `high`, logarithmic when that is more than a factor of 20. */
struct kc_axis kc_axis_range(double low, double high, const char *label);

/* Places in units. */
double kc_chart_x(const struct kc_chart *chart, double value);
double kc_chart_y(const struct kc_chart *chart, double value);

/* Through the points, in their order; `steps` holds each value to the next point. Points nearer
 * than half a unit to the last one drawn are left out, but for the end. */
void kc_chart_line(const struct kc_chart *chart, size_t series, const double *x, const double *y,
                   size_t count, bool steps);
/* A dot on a point; a ring goes around another dot. */
enum kc_dot { KC_DOT_LARGE, KC_DOT_SMALL, KC_DOT_HOLLOW, KC_DOT_RING };
void kc_chart_dot(const struct kc_chart *chart, size_t series, double x, double y, enum kc_dot dot);
/* A dashed upright line at `x` with a text at its top. Outside the axis: nothing. */
void kc_chart_limit(const struct kc_chart *chart, double x, const char *text);

/* A short number for a tick: 0.5, 250, 20k, 1.5M. */
enum { KC_TICK_BYTES = 32 };
const char *kc_chart_tick(char out[KC_TICK_BYTES], double value);

#endif
