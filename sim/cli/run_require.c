/* What `kvcap run --require` demanded, and how the run did: in the JSON document and for people. */
#include <stdio.h>

#include "sim/cli/cli.h"
#include "sim/cli/run_output.h"

enum kc_err kc_run_demands_parse(struct kc_run_demands *demands, const struct kc_option_list *texts,
                                 struct kc_diag *diag)
{
  KC_ASSERT(texts->count <= KC_OPTION_LIST_MAX);
  return kc_requirements_parse(demands->item, &demands->count, texts->item, texts->count,
                               "require", diag);
}

void kc_run_note_signs(const struct kc_requirement *require, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    const bool low = kc_require_wants_low(require[i].sense);
    if (low == (kc_figure_better(require[i].figure) == KC_BETTER_LOWER)) continue;
    kc_cli_note("%s asks for %s of a figure of which %s is better; is %s meant?", require[i].text,
                low ? "less" : "more", low ? "more" : "less", low ? ">=" : "<=");
  }
}

/* True when more requests had no answer than a percentile leaves out: what was answered meets it,
 * all requests do not. */
static bool lost_too_many(const struct kc_requirement *r, const struct kc_run *run)
{
  static const enum kc_figure means[] = {KC_FIGURE_TTFT_MEAN_MS, KC_FIGURE_TPOT_MEAN_MS,
                                         KC_FIGURE_ITL_MEAN_MS, KC_FIGURE_E2E_MEAN_MS};
  if (!kc_require_wants_low(r->sense)) return false;
  for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
    const int p = kc_figure_percentile(r->figure, means[i]);
    if (p > 0) return kc_run_lost_beyond(run, (unsigned)p);
  }
  return false;
}

/* Looks at the run; returns how many were missed. */
static uint32_t check(const struct kc_run_demands *demands, const struct kc_run *run,
                      struct kc_require_outcome outcome[KC_REQUIREMENTS_MAX])
{
  struct kc_figure_set figures;
  uint32_t missed = 0;
  KC_ASSERT(demands->count <= KC_REQUIREMENTS_MAX);
  if (demands->count == 0) return 0;
  kc_figures_of_run(run, &figures);
  for (uint32_t i = 0; i < demands->count; i++) {
    outcome[i] = kc_requirement_check(&demands->item[i], &figures);
    outcome[i].met = outcome[i].met && !lost_too_many(&demands->item[i], run);
    missed += !outcome[i].met;
  }
  return missed;
}

uint32_t kc_run_demands_missed(const struct kc_run_demands *demands, const struct kc_run *run)
{
  struct kc_require_outcome outcome[KC_REQUIREMENTS_MAX];
  return check(demands, run, outcome);
}

/* How far the value is from the limit, in percent of the limit; false when that is 0. */
static bool percent_away(double value, double limit, double *percent)
{
  const double size = limit < 0 ? -limit : limit;
  KC_ASSERT(percent != NULL);
  if (size <= 0) return false;
  *percent = 100 * (value - limit) / size;
  return true;
}

/* ---- JSON ---- */

json_t *kc_run_demands_json(const struct kc_run_demands *demands, const struct kc_run *run)
{
  struct kc_require_outcome outcome[KC_REQUIREMENTS_MAX];
  json_t *array = json_array();
  (void)check(demands, run, outcome);
  for (uint32_t i = 0; i < demands->count; i++) {
    const struct kc_requirement *r = &demands->item[i];
    const struct kc_require_outcome *o = &outcome[i];
    json_t *object = json_object();
    double percent;
    const bool has_percent = o->known && percent_away(o->value, r->limit, &percent);
    json_object_set_new(object, "requirement", json_string(r->text));
    json_object_set_new(object, "figure", json_string(kc_figure_name(r->figure)));
    json_object_set_new(object, "unit", json_string(kc_figure_unit(r->figure)));
    json_object_set_new(object, "sign", json_string(kc_require_sign(r->sense)));
    json_object_set_new(object, "limit", json_real(r->limit));
    json_object_set_new(object, "met", json_boolean(o->met));
    json_object_set_new(object, "value", o->known ? json_real(o->value) : json_null());
    json_object_set_new(object, "difference",
                        o->known ? json_real(o->value - r->limit) : json_null());
    json_object_set_new(object, "difference_percent",
                        has_percent ? json_real(percent) : json_null());
    json_object_set_new(object, "reason",
                        !o->known ? json_string(kc_figure_absence(run, r->figure))
                        : lost_too_many(r, run) ? json_string("more requests had no answer than "
                                                              "the percentile leaves out")
                                                : json_null());
    json_array_append_new(array, object);
  }
  return array;
}

/* ---- for people ---- */

static void print_demand(const struct kc_requirement *r, const struct kc_require_outcome *o,
                         const struct kc_run *run)
{
  char text[KC_FIGURE_TEXT_BYTES];
  double percent;
  printf("  require   %s: ", r->text);
  if (!o->known) {
    printf("MISSED, not known: %s\n", kc_figure_absence(run, r->figure));
    return;
  }
  printf("%s, %s", o->met ? "met" : "MISSED", kc_figure_text(r->figure, o->value, text));
  const double over = o->value - r->limit;
  if (lost_too_many(r, run)) {
    printf(" of those that got so far; %llu of %llu requests had no answer\n",
           (unsigned long long)kc_run_lost(run),
           (unsigned long long)run->result.summary.requests_total);
    return;
  }
  if (!o->met && over == 0) printf(", the bound itself");
  if (!o->met && over != 0) {
    printf("; %s too %s", kc_figure_text(r->figure, over < 0 ? -over : over, text),
           over < 0 ? "little" : "much");
    if (percent_away(o->value, r->limit, &percent)) printf(" (%+.2f %%)", percent);
  }
  printf("\n");
}

void kc_run_demands_print(const struct kc_run_demands *demands, const struct kc_run *run)
{
  struct kc_require_outcome outcome[KC_REQUIREMENTS_MAX];
  (void)check(demands, run, outcome);
  if (demands->count > 0) printf("\n");
  for (uint32_t i = 0; i < demands->count; i++) print_demand(&demands->item[i], &outcome[i], run);
}
