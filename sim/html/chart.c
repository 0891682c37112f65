/* Axes, lines and marks. Numbers are printed with one decimal of a unit, so the bytes do not depend
 * on the last bits of a product. */
#include "sim/html/chart.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/random.h"
#include "sim/html/html_text.h"

/* ---- scales ---- */

/* ln of a positive number: libm's differs from machine to machine. */
static double natural_log(double value)
{
  static const double ln_2 = 0.693147180559945309;
  KC_ASSERT(value > 0 && isfinite(value));
  int exponent;
  const double mantissa = frexp(value, &exponent); /* in [0.5, 1) */
  const uint64_t fraction = (uint64_t)ldexp(mantissa, 64);
  return exponent * ln_2 - ldexp((double)kc_neg_ln_q32(fraction), -32);
}

/* Where a value lies on its axis: 0 at low, 1 at high. */
static double share(const struct kc_axis *axis, double value)
{
  KC_ASSERT(axis->low < axis->high);
  if (!axis->logarithmic) return (value - axis->low) / (axis->high - axis->low);
  const double low = natural_log(axis->low);
  return (natural_log(value) - low) / (natural_log(axis->high) - low);
}

double kc_chart_x(const struct kc_chart *chart, double value)
{
  return chart->left + share(&chart->x, value) * (chart->right - chart->left);
}

double kc_chart_y(const struct kc_chart *chart, double value)
{
  return chart->bottom - share(&chart->y, value) * (chart->bottom - chart->top);
}

struct kc_axis kc_axis_from_zero(double most, const char *label)
{
  KC_ASSERT(most >= 0);
  return (struct kc_axis){.low = 0, .high = most > 0 ? most * 1.08 : 1, .label = label};
}

struct kc_axis kc_axis_range(double low, double high, const char *label)
{
  KC_ASSERT(low <= high);
  if (low > 0 && high > 20 * low) {
    return (struct kc_axis){.low = low / 1.1, .high = high * 1.1, .logarithmic = true,
                            .label = label};
  }
  return kc_axis_from_zero(high, label);
}

/* ---- ticks ---- */

/* The largest power of ten that is at most `value` > 0. */
static double power_of_ten(double value)
{
  KC_ASSERT(value > 0 && isfinite(value));
  double power = 1;
  while (power > value) power /= 10;
  while (power * 10 <= value) power *= 10;
  return power;
}

/* A step of 1, 2 or 5 times a power of ten that gives at most `most` steps. */
static double nice_step(double range, double most)
{
  KC_ASSERT(range > 0 && most >= 1);
  const double rough = range / most;
  const double power = power_of_ten(rough);
  static const double factor[] = {1, 2, 5, 10};
  for (size_t i = 0; i < sizeof factor / sizeof factor[0]; i++) {
    if (factor[i] * power >= rough * (1 - 1e-9)) return factor[i] * power;
  }
  return 10 * power;
}

const char *kc_chart_tick(char out[KC_TICK_BYTES], double value)
{
  KC_ASSERT(isfinite(value));
  const double size = fabs(value);
  const double unit = size >= 1e6 ? 1e6 : size >= 1e4 ? 1e3 : 1;
  snprintf(out, KC_TICK_BYTES, "%.6g%s", value / unit, unit > 1e3 ? "M" : unit > 1 ? "k" : "");
  return out;
}

static void x_tick(const struct kc_chart *chart, double value)
{
  char text[KC_TICK_BYTES];
  const double x = kc_chart_x(chart, value);
  KC_ASSERT(isfinite(x));
  fprintf(chart->out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, chart->top, chart->bottom);
  fprintf(chart->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
          chart->bottom + 15, kc_chart_tick(text, value));
}

static void y_tick(const struct kc_chart *chart, double value)
{
  char text[KC_TICK_BYTES];
  const double y = kc_chart_y(chart, value);
  KC_ASSERT(isfinite(y));
  fprintf(chart->out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", chart->left, y, chart->right);
  fprintf(chart->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
          chart->left - 6, y + 3.8, kc_chart_tick(text, value));
}

typedef void (*tick_fn)(const struct kc_chart *chart, double value);

static void ticks_even(const struct kc_chart *chart, const struct kc_axis *axis, double most,
                       tick_fn tick)
{
  const double step = nice_step(axis->high - axis->low, most);
  KC_ASSERT(step > 0);
  for (double i = ceil(axis->low / step - 1e-9); i * step <= axis->high * (1 + 1e-12); i += 1) {
    tick(chart, i == 0 ? 0 : i * step); /* no -0 */
  }
}

/* Powers of ten, with 2 and 5 between them where there are few. */
static void ticks_logarithmic(const struct kc_chart *chart, const struct kc_axis *axis,
                              tick_fn tick)
{
  KC_ASSERT(axis->low > 0);
  const double first = power_of_ten(axis->low);
  const double decades = axis->high / first;
  for (double power = first; power <= axis->high; power *= 10) {
    static const double factor[] = {1, 2, 5};
    const size_t factors = decades < 2e3 ? 3 : 1;
    for (size_t i = 0; i < factors; i++) {
      const double value = factor[i] * power;
      if (value >= axis->low && value <= axis->high) tick(chart, value);
    }
  }
}

static void ticks(const struct kc_chart *chart, const struct kc_axis *axis, double most,
                  tick_fn tick)
{
  if (axis->logarithmic) {
    ticks_logarithmic(chart, axis, tick);
  } else {
    ticks_even(chart, axis, most, tick);
  }
}

/* ---- the frame ---- */

void kc_chart_open_bare(FILE *out, int number, double height, const char *title,
                        const char *description)
{
  KC_ASSERT(number > 0 && height > 0);
  fprintf(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-labelledby=\"p%d-t p%d-d\">\n",
          KC_CHART_WIDTH, height, number, number);
  fprintf(out, "<title id=\"p%d-t\">", number);
  kc_html_text(out, title);
  fprintf(out, "</title><desc id=\"p%d-d\">", number);
  kc_html_text(out, description);
  fputs("</desc>\n", out);
}

struct kc_chart kc_chart_frame(FILE *out, double height, struct kc_axis x, struct kc_axis y)
{
  KC_ASSERT(height > 100);
  return (struct kc_chart){.out = out, .x = x, .y = y, .left = 40, .right = KC_CHART_WIDTH - 8,
                           .top = 22, .bottom = height - 34, .height = height};
}

void kc_chart_open(struct kc_chart *chart, int number, const char *title, const char *description)
{
  FILE *const out = chart->out;
  KC_ASSERT(chart->left < chart->right && chart->top < chart->bottom);
  kc_chart_open_bare(out, number, chart->height, title, description);
  ticks(chart, &chart->x, 6, x_tick);
  ticks(chart, &chart->y, 4.5, y_tick);
  fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", chart->left, chart->bottom,
          chart->right);
  fputs("<text class=\"label\" x=\"0\" y=\"10\">", out);
  kc_html_text(out, chart->y.label);
  fprintf(out, "</text>\n<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
          chart->right, chart->bottom + 30);
  kc_html_text(out, chart->x.label);
  fputs("</text>\n", out);
}

void kc_chart_close(struct kc_chart *chart)
{
  KC_ASSERT(chart->out != NULL);
  fputs("</svg>\n", chart->out);
}

/* ---- what is drawn ---- */

void kc_chart_line(const struct kc_chart *chart, size_t series, const double *x, const double *y,
                   size_t count, bool steps)
{
  double last_x = -1e9, last_y = -1e9;
  KC_ASSERT(series < KC_CHART_SERIES);
  if (count == 0) return;
  fprintf(chart->out, "<path class=\"line s%zu\" d=\"", series);
  for (size_t i = 0; i < count; i++) {
    const double at_x = kc_chart_x(chart, x[i]), at_y = kc_chart_y(chart, y[i]);
    if (i > 0 && i + 1 < count && fabs(at_x - last_x) < 0.5 && fabs(at_y - last_y) < 0.5) continue;
    if (i == 0) {
      fprintf(chart->out, "M%.1f %.1f", at_x, at_y);
    } else if (steps) {
      fprintf(chart->out, "H%.1fV%.1f", at_x, at_y);
    } else {
      fprintf(chart->out, "L%.1f %.1f", at_x, at_y);
    }
    last_x = at_x;
    last_y = at_y;
  }
  fputs("\"/>\n", chart->out);
}

void kc_chart_dot(const struct kc_chart *chart, size_t series, double x, double y, enum kc_dot dot)
{
  static const struct {
    const char *class;
    double radius;
  } looks[] = {[KC_DOT_LARGE] = {"mark", 4}, [KC_DOT_SMALL] = {"mark", 3.4},
               [KC_DOT_HOLLOW] = {"hollow", 3}, [KC_DOT_RING] = {"best", 5.5}};
  KC_ASSERT(series < KC_CHART_SERIES);
  fprintf(chart->out, "<circle class=\"%s s%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n",
          looks[dot].class, series, kc_chart_x(chart, x), kc_chart_y(chart, y), looks[dot].radius);
}

void kc_chart_limit(const struct kc_chart *chart, double x, const char *text)
{
  KC_ASSERT(text != NULL);
  if (x <= chart->x.low || x > chart->x.high) return;
  const double at = kc_chart_x(chart, x);
  const bool on_the_right = at > (chart->left + chart->right) / 2;
  fprintf(chart->out, "<path class=\"limit\" d=\"M%.1f %.1fV%.1f\"/>\n", at, chart->top - 6,
          chart->bottom);
  fprintf(chart->out, "<text class=\"limit-text\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
          on_the_right ? at - 5 : at + 5, chart->top - 1, on_the_right ? "end" : "start");
  kc_html_text(chart->out, text);
  fputs("</text>\n", chart->out);
}
