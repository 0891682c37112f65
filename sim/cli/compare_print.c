/* How a comparison looks (see compare_print.h). Differences are b - a, in percent of a. */
#include "sim/cli/compare_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"

static double percent(double a, double b)
{
  return a > 0 ? 100 * (b / a - 1) : 0;
}

/* The worse of two. */
static const char *worse(const char *a, const char *b)
{
  static const char *const order[] = {"measured", "calibrated", "extrapolated", "datasheet"};
  size_t at_a = 0, at_b = 0;
  while (at_a < sizeof order / sizeof order[0] && strcmp(a, order[at_a]) != 0) at_a++;
  while (at_b < sizeof order / sizeof order[0] && strcmp(b, order[at_b]) != 0) at_b++;
  return at_a > at_b ? a : b; /* unknown is worst */
}

void kc_compare_print_figures(const struct kc_comparison *c, const char *a, const char *trust_a,
                              const char *b, const char *trust_b)
{
  KC_ASSERT(c->rows > 0);
  printf("  %-5s %-5s %14.14s %14.14s %10s\n", "ms", "", a, b, "difference");
  printf("  %-5s %-5s %14.14s %14.14s %12s\n", "", "", trust_a, trust_b, worse(trust_a, trust_b));
  for (int m = 0; m < KC_LOG_METRICS; m++) {
    for (int k = 0; k < KC_LOG_FIGURES; k++) {
      const struct kc_compared_figure *f = &c->figure[m][k];
      if (!f->there) continue;
      printf("  %-5s %-5s %14.2f %14.2f %+8.2f %%\n",
             k == 0 ? kc_log_metric_name((enum kc_log_metric)m) : "", kc_log_figure_names[k],
             1e3 * f->a, 1e3 * f->b, percent(f->a, f->b));
    }
  }
}

/* What the sides do not tell apart, in the row that holds it. */
static const char *holds(enum kc_stage stage, enum kc_parts parts)
{
  if (parts == KC_PARTS_ALL) return "";
  if (stage == KC_STAGE_QUEUE) return "   with the wait for KV";
  if (stage == KC_STAGE_DECODE) return "   with the host";
  return parts == KC_PARTS_NONE ? "   with the queue and the host" : "   with the host";
}

/* Milliseconds of a difference; what vanishes in print has no sign. */
static double ms(double difference_s)
{
  return fabs(difference_s) < 5e-6 ? 0 : 1e3 * difference_s;
}

void kc_compare_print_stages(const struct kc_comparison *c, const char *trust_a,
                             const char *trust_b)
{
  printf("\n  mean of a request, ms (a %s, b %s)\n  %-10s %12s %12s %12s %12s %12s\n", trust_a,
         trust_b, "", "a", "b", "b - a", "of TTFT", "after it");
  for (int s = 0; s < KC_STAGES; s++) {
    const struct kc_compared_stage *stage = &c->stage[s];
    if (!kc_stage_is_known((enum kc_stage)s, c->parts)) continue;
    const double whole = stage->b_s - stage->a_s, first = stage->first_b_s - stage->first_a_s;
    printf("  %-10s %12.2f %12.2f %+12.2f %+12.2f %+12.2f%s\n", kc_stage_name((enum kc_stage)s),
           1e3 * stage->a_s, 1e3 * stage->b_s, ms(whole), ms(first), ms(whole - first),
           holds((enum kc_stage)s, c->parts));
  }
  printf("\n  requests that differ most, ms (a %s, b %s)\n  %8s %14s %14s %14s   carried by\n",
         trust_a, trust_b, "row", "E2E a", "E2E b", "b - a");
  for (uint32_t i = 0; i < c->worst_count; i++) {
    const struct kc_worst *w = &c->worst[i];
    printf("  %8zu %14.2f %14.2f %+14.2f   %s %+.2f\n", w->row, 1e3 * w->a_s, 1e3 * w->b_s,
           1e3 * (w->b_s - w->a_s), kc_stage_name(w->stage), 1e3 * w->share_s[w->stage]);
  }
}

/* Where to look: the samples of a side that has some; every second else. */
static double last_instant(const struct kc_serving_log *a, const struct kc_serving_log *b)
{
  const struct kc_serving_log *of = a->sample_count > 0 ? a : b;
  if (of->sample_count > 0) return of->sample[of->sample_count - 1].time_s;
  double last = 0;
  for (size_t i = 0; i < a->count; i++) {
    const double end = a->row[i].arrival_s + a->row[i].e2e_s;
    if (a->row[i].ok && end > last) last = end;
  }
  return last;
}

static double every(double last, uint32_t lines)
{
  KC_ASSERT(lines > 0);
  const double step = ceil(last / lines);
  return step < 1 ? 1 : step;
}

void kc_compare_print_seconds(const struct kc_serving_log *a, const struct kc_serving_log *b,
                              uint32_t lines)
{
  const double last = last_instant(a, b), step = every(last, lines);
  double run_a, wait_a, run_b, wait_b;
  printf("\n  requests by second (a %s, b %s)\n  %6s %12s %12s %12s %12s\n", a->trust, b->trust,
         "second", "running a", "running b", "waiting a", "waiting b");
  for (double t = step; t <= last; t += step) {
    kc_compare_state(a, t, &run_a, &wait_a);
    kc_compare_state(b, t, &run_b, &wait_b);
    printf("  %6.0f %12.0f %12.0f %12.0f %12.0f\n", t, run_a, run_b, wait_a, wait_b);
  }
}

void kc_compare_note_failures(const struct kc_serving_log *log, const char *what)
{
  char text[KC_LOG_FAILURES_BYTES], path[KC_DIAG_PATH_BYTES];
  if (kc_serving_log_failures(log, text) == 0) return;
  snprintf(path, sizeof path, "%s", log->path);
  kc_text_clean(path);
  kc_cli_note("%s: %s: %s", path, what, text);
}

/* ---- JSON ---- */

static json_t *metrics_json(const struct kc_comparison *c)
{
  json_t *root = json_object();
  for (int m = 0; m < KC_LOG_METRICS; m++) {
    json_t *metric = json_object();
    for (int k = 0; k < KC_LOG_FIGURES; k++) {
      const struct kc_compared_figure *f = &c->figure[m][k];
      if (!f->there) continue;
      json_object_set_new(metric, kc_log_figure_names[k],
                          json_pack("{s:f, s:f, s:f}", "a_ms", 1e3 * f->a, "b_ms", 1e3 * f->b,
                                    "difference_percent", percent(f->a, f->b)));
    }
    json_object_set_new(root, kc_log_metric_name((enum kc_log_metric)m), metric);
  }
  return root;
}

/* "kv_wait": keys are names without spaces and capitals. */
static const char *stage_key(enum kc_stage stage)
{
  return stage == KC_STAGE_KV_WAIT ? "kv_wait" : kc_stage_name(stage);
}

static json_t *stages_json(const struct kc_comparison *c)
{
  json_t *root = json_object();
  for (int s = 0; s < KC_STAGES; s++) {
    const struct kc_compared_stage *stage = &c->stage[s];
    if (!kc_stage_is_known((enum kc_stage)s, c->parts)) continue;
    json_object_set_new(root, stage_key((enum kc_stage)s),
                        json_pack("{s:f, s:f, s:f, s:f}", "a_ms", 1e3 * stage->a_s, "b_ms",
                                  1e3 * stage->b_s, "ttft_a_ms", 1e3 * stage->first_a_s,
                                  "ttft_b_ms", 1e3 * stage->first_b_s));
  }
  return root;
}

static json_t *shares_json(const struct kc_comparison *c, const struct kc_worst *w)
{
  json_t *root = json_object();
  for (int s = 0; s < KC_STAGES; s++) {
    if (!kc_stage_is_known((enum kc_stage)s, c->parts)) continue;
    json_object_set_new(root, stage_key((enum kc_stage)s), json_real(1e3 * w->share_s[s]));
  }
  return root;
}

static json_t *worst_json(const struct kc_comparison *c)
{
  json_t *root = json_array();
  for (uint32_t i = 0; i < c->worst_count; i++) {
    const struct kc_worst *w = &c->worst[i];
    json_array_append_new(root, json_pack("{s:I, s:f, s:f, s:s, s:o}", "row", (json_int_t)w->row,
                                          "a_ms", 1e3 * w->a_s, "b_ms", 1e3 * w->b_s, "stage",
                                          stage_key(w->stage), "difference_ms", shares_json(c, w)));
  }
  return root;
}

static json_t *seconds_json(const struct kc_serving_log *a, const struct kc_serving_log *b)
{
  json_t *root = json_array();
  const double last = last_instant(a, b), step = every(last, 1000);
  double run_a, wait_a, run_b, wait_b;
  for (double t = step; t <= last; t += step) {
    kc_compare_state(a, t, &run_a, &wait_a);
    kc_compare_state(b, t, &run_b, &wait_b);
    json_array_append_new(root, json_pack("[f, f, f, f, f]", t, run_a, run_b, wait_a, wait_b));
  }
  return root;
}

json_t *kc_compare_json(const struct kc_comparison *c, const struct kc_serving_log *a,
                        const struct kc_serving_log *b)
{
  json_t *root = json_object();
  KC_ASSERT(c->rows > 0);
  json_object_set_new(root, "a", kc_cli_json_string(a->path));
  json_object_set_new(root, "b", kc_cli_json_string(b->path));
  json_object_set_new(root, "trust_a", json_string(a->trust));
  json_object_set_new(root, "trust_b", json_string(b->trust));
  json_object_set_new(root, "trust_difference", json_string(worse(a->trust, b->trust)));
  json_object_set_new(root, "requests", json_integer((json_int_t)c->rows));
  json_object_set_new(root, "only_a", json_integer((json_int_t)c->only_a));
  json_object_set_new(root, "only_b", json_integer((json_int_t)c->only_b));
  json_object_set_new(root, "metrics", metrics_json(c));
  json_object_set_new(root, "stages", stages_json(c));
  json_object_set_new(root, "differ_most", worst_json(c));
  json_object_set_new(root, "seconds_running_ab_waiting_ab", seconds_json(a, b));
  return root;
}
