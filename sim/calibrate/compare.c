/* The arithmetic of a comparison (see compare.h); it prints nothing and keeps nothing. */
#include "sim/calibrate/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

const char *kc_stage_name(enum kc_stage stage)
{
  static const char *const names[KC_STAGES] = {"queue", "KV wait", "prefill", "decode", "host"};
  KC_ASSERT((unsigned)stage < KC_STAGES);
  return names[stage];
}

bool kc_stage_is_known(enum kc_stage stage, enum kc_parts parts)
{
  KC_ASSERT((unsigned)stage < KC_STAGES);
  KC_ASSERT((unsigned)parts <= KC_PARTS_ALL);
  if (stage == KC_STAGE_QUEUE) return parts != KC_PARTS_NONE;
  return parts == KC_PARTS_ALL || stage == KC_STAGE_PREFILL || stage == KC_STAGE_DECODE;
}

/* What a side tells apart of a request. */
static enum kc_parts parts_of(const struct kc_log_request *r)
{
  return r->parted ? KC_PARTS_ALL : r->queue_s >= 0 ? KC_PARTS_QUEUE : KC_PARTS_NONE;
}

static bool both(const struct kc_serving_log *a, const struct kc_serving_log *b, size_t i)
{
  return i < a->count && i < b->count && a->row[i].ok && b->row[i].ok;
}

static enum kc_err join(struct kc_comparison *out, const struct kc_serving_log *a,
                        const struct kc_serving_log *b, struct kc_diag *diag)
{
  const size_t most = a->count > b->count ? a->count : b->count;
  size_t other = 0, answered_a = 0, answered_b = 0;
  out->parts = KC_PARTS_ALL;
  for (size_t i = 0; i < most; i++) {
    const bool in_a = i < a->count && a->row[i].ok, in_b = i < b->count && b->row[i].ok;
    answered_a += in_a;
    answered_b += in_b;
    out->only_a += in_a && !in_b;
    out->only_b += in_b && !in_a;
    if (!in_a || !in_b) continue;
    out->rows++;
    other += a->row[i].input_tokens != b->row[i].input_tokens;
    if (parts_of(&a->row[i]) < out->parts) out->parts = parts_of(&a->row[i]);
    if (parts_of(&b->row[i]) < out->parts) out->parts = parts_of(&b->row[i]);
  }
  if (out->rows == 0) {
    return kc_fail(diag, KC_ERR_INPUT, "no request was answered on both sides: %s answered "
                   "%zu of %zu and %s %zu of %zu", a->path, answered_a, a->count, b->path,
                   answered_b, b->count);
  }
  if (other > 0) {
    return kc_fail(diag, KC_ERR_INPUT, "%zu of %zu requests have another prompt length on the "
                   "other side: these are not two answers to the same load", other, out->rows);
  }
  return KC_OK;
}

static enum kc_err compare_metric(struct kc_comparison *out, const struct kc_serving_log *a,
                                  const struct kc_serving_log *b, enum kc_log_metric metric,
                                  bool linear, struct kc_diag *diag)
{
  double figure_a[KC_LOG_FIGURES], figure_b[KC_LOG_FIGURES];
  double *value = malloc(2 * out->rows * sizeof *value), *value_b = value + out->rows;
  if (value == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the comparison");
  size_t count = 0;
  for (size_t i = 0; i < a->count; i++) {
    if (!both(a, b, i) || !kc_log_value(&a->row[i], metric, &value[count]) ||
        !kc_log_value(&b->row[i], metric, &value_b[count])) continue;
    count++;
  }
  if (count > 0) {
    kc_log_figures(value, count, linear, figure_a);
    kc_log_figures(value_b, count, linear, figure_b);
    for (int k = 0; k < KC_LOG_FIGURES; k++) {
      out->figure[metric][k] = (struct kc_compared_figure){true, figure_a[k], figure_b[k]};
    }
  }
  free(value);
  return KC_OK;
}

/* Gaps between tokens are not joined: each side's own. */
static enum kc_err compare_gaps(struct kc_comparison *out, const struct kc_serving_log *a,
                                const struct kc_serving_log *b, bool linear, struct kc_diag *diag)
{
  if (a->gap_count == 0 || b->gap_count == 0) return KC_OK;
  double *copy = malloc((a->gap_count + b->gap_count) * sizeof *copy);
  double figure_a[KC_LOG_FIGURES], figure_b[KC_LOG_FIGURES];
  if (copy == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the comparison");
  memcpy(copy, a->gap_s, a->gap_count * sizeof *copy);
  memcpy(copy + a->gap_count, b->gap_s, b->gap_count * sizeof *copy);
  kc_log_figures(copy, a->gap_count, linear, figure_a);
  kc_log_figures(copy + a->gap_count, b->gap_count, linear, figure_b);
  for (int k = 0; k < KC_LOG_FIGURES; k++) {
    out->figure[KC_LOG_ITL][k] = (struct kc_compared_figure){true, figure_a[k], figure_b[k]};
  }
  free(copy);
  return KC_OK;
}

/* The terms of a request: before the first token, and of its whole life. */
static void stages_of(const struct kc_log_request *r, enum kc_parts parts,
                      double first[KC_STAGES], double whole[KC_STAGES])
{
  memset(first, 0, KC_STAGES * sizeof *first);
  const double after = r->e2e_s - r->ttft_s;
  first[KC_STAGE_QUEUE] = parts == KC_PARTS_NONE ? 0 : r->queue_s;
  first[KC_STAGE_PREFILL] = r->ttft_s - first[KC_STAGE_QUEUE];
  memcpy(whole, first, KC_STAGES * sizeof *whole);
  whole[KC_STAGE_DECODE] = after;
  if (parts != KC_PARTS_ALL) return;
  KC_ASSERT(r->parted);
  first[KC_STAGE_KV_WAIT] = r->first.kv_wait_s;
  first[KC_STAGE_QUEUE] -= r->first.kv_wait_s;
  first[KC_STAGE_HOST] = r->first.host_s;
  first[KC_STAGE_PREFILL] -= r->first.host_s;
  const double resident = r->whole.resident_s - r->first.resident_s;
  const double kv_wait = r->whole.kv_wait_s - r->first.kv_wait_s;
  const double host = r->whole.host_s - r->first.host_s;
  memcpy(whole, first, KC_STAGES * sizeof *whole);
  whole[KC_STAGE_QUEUE] += after - resident - kv_wait;
  whole[KC_STAGE_KV_WAIT] += kv_wait;
  whole[KC_STAGE_DECODE] = resident - host;
  whole[KC_STAGE_HOST] += host;
}

static void keep_worst(struct kc_comparison *out, const struct kc_worst *w)
{
  uint32_t at = out->worst_count;
  while (at > 0 && fabs(out->worst[at - 1].b_s - out->worst[at - 1].a_s) < fabs(w->b_s - w->a_s)) {
    at--;
  }
  if (at >= KC_WORST_MAX) return;
  const uint32_t kept = out->worst_count < KC_WORST_MAX ? out->worst_count++ : KC_WORST_MAX - 1;
  for (uint32_t i = kept; i > at; i--) out->worst[i] = out->worst[i - 1];
  out->worst[at] = *w;
}

static void compare_stages(struct kc_comparison *out, const struct kc_serving_log *a,
                           const struct kc_serving_log *b)
{
  double first_a[KC_STAGES], first_b[KC_STAGES], whole_a[KC_STAGES], whole_b[KC_STAGES];
  const double rows = (double)out->rows;
  for (size_t i = 0; i < a->count; i++) {
    if (!both(a, b, i)) continue;
    struct kc_worst w = {.row = i, .a_s = a->row[i].e2e_s, .b_s = b->row[i].e2e_s};
    stages_of(&a->row[i], out->parts, first_a, whole_a);
    stages_of(&b->row[i], out->parts, first_b, whole_b);
    for (int s = 0; s < KC_STAGES; s++) {
      struct kc_compared_stage *stage = &out->stage[s];
      stage->a_s += whole_a[s] / rows;
      stage->b_s += whole_b[s] / rows;
      stage->first_a_s += first_a[s] / rows;
      stage->first_b_s += first_b[s] / rows;
      w.share_s[s] = whole_b[s] - whole_a[s];
      if (fabs(w.share_s[s]) > fabs(w.share_s[w.stage])) w.stage = (enum kc_stage)s;
    }
    keep_worst(out, &w);
  }
}

enum kc_err kc_compare(struct kc_comparison *out, const struct kc_serving_log *a,
                       const struct kc_serving_log *b, bool linear, struct kc_diag *diag)
{
  KC_ASSERT(out != NULL && a != NULL && b != NULL);
  memset(out, 0, sizeof *out);
  KC_TRY(join(out, a, b, diag));
  for (int m = 0; m < KC_LOG_METRICS; m++) {
    if (m == KC_LOG_ITL) continue;
    KC_TRY(compare_metric(out, a, b, (enum kc_log_metric)m, linear, diag));
  }
  KC_TRY(compare_gaps(out, a, b, linear, diag));
  compare_stages(out, a, b);
  KC_ASSERT(out->worst_count > 0);
  return KC_OK;
}

bool kc_compare_state(const struct kc_serving_log *side, double time_s, double *running,
                      double *waiting)
{
  *running = *waiting = 0;
  if (side->sample_count > 0) { /* the last sample at or before the instant */
    size_t low = 0, high = side->sample_count;
    if (time_s > side->sample[side->sample_count - 1].time_s) return false;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      if (side->sample[middle].time_s <= time_s) low = middle; else high = middle;
    }
    *running = side->sample[low].running;
    *waiting = side->sample[low].waiting;
    return true;
  }
  bool later = false;
  for (size_t i = 0; i < side->count; i++) {
    const struct kc_log_request *r = &side->row[i];
    if (!r->ok) continue;
    later = later || r->arrival_s + r->e2e_s > time_s;
    if (r->arrival_s > time_s || r->arrival_s + r->e2e_s <= time_s) continue;
    const double starts = r->arrival_s + (r->queue_s >= 0 ? r->queue_s : r->ttft_s);
    *(starts <= time_s ? running : waiting) += 1;
  }
  return later;
}
