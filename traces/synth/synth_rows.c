/* Arrivals of a spec, and independent requests.
 *
 *   gap (mean 1) --> along the rate curve --> arrival      stream "synth arrivals"
 *   lengths                                                stream "synth lengths", one a request
 *
 * Streams are apart, so another arrival process leaves the lengths as they were. */
#include "traces/synth/synth_build.h"

#include <string.h>

enum kc_err kc_arrivals_init(struct kc_arrivals *arrivals, const struct kc_synth_spec *spec,
                             struct kc_diag *diag)
{
  const kc_ps end_ps = spec->duration_ps > 0 ? spec->duration_ps : KC_PS_NEVER - 1;
  memset(arrivals, 0, sizeof *arrivals);
  KC_ASSERT(spec->rows > 0 || spec->duration_ps > 0);
  KC_TRY(kc_rate_curve_build(&arrivals->curve, &spec->rate, end_ps, spec->seed, diag));
  kc_rate_cursor_init(&arrivals->cursor, &arrivals->curve);
  kc_gap_init(&arrivals->gap, spec->family, spec->shape_nano);
  kc_random_init(&arrivals->random, spec->seed, "synth arrivals", 0);
  return KC_OK;
}

bool kc_arrivals_next(struct kc_arrivals *arrivals, kc_ps *when_ps)
{
  const uint64_t gap_q32 = arrivals->started
                               ? kc_gap_draw_q32(&arrivals->gap, &arrivals->random)
                               : kc_gap_first_q32(&arrivals->gap, &arrivals->random);
  arrivals->started = true;
  return kc_rate_advance(&arrivals->cursor, gap_q32, when_ps);
}

void kc_arrivals_free(struct kc_arrivals *arrivals)
{
  kc_rate_curve_free(&arrivals->curve);
}

enum kc_err kc_arrivals_check(const struct kc_synth_spec *spec, uint64_t count,
                              struct kc_diag *diag)
{
  if (spec->rows == 0 || spec->duration_ps > 0 || count >= spec->rows) return KC_OK;
  return kc_fail(diag, KC_ERR_LIMIT,
                 "only %llu of %llu requests arrive within 106 days, the longest trace; raise the "
                 "rate", (unsigned long long)count, (unsigned long long)spec->rows);
}

static enum kc_err fill(struct kc_synth_build *build, struct kc_arrivals *arrivals,
                        const struct kc_synth_spec *spec, struct kc_diag *diag)
{
  struct kc_random random;
  kc_random_init(&random, spec->seed, "synth lengths", 0);
  while (spec->rows == 0 || build->count < spec->rows) {
    struct kc_synth_item item = {.after = KC_SYNTH_NO_ROW};
    if (!kc_arrivals_next(arrivals, &item.arrival_ps)) break;
    kc_lengths_draw(spec->lengths, &random, &item.input_tokens, &item.output_tokens);
    KC_TRY(kc_synth_add(build, item, diag));
  }
  return kc_arrivals_check(spec, build->count, diag);
}

enum kc_err kc_synth_rows(struct kc_trace *trace, const struct kc_synth_spec *spec,
                          struct kc_diag *diag)
{
  const struct kc_synth_shape plain = {0};
  struct kc_synth_build build = {0};
  struct kc_arrivals arrivals;
  KC_ASSERT(spec->lengths != NULL);
  memset(trace, 0, sizeof *trace);
  enum kc_err err = kc_arrivals_init(&arrivals, spec, diag);
  if (err == KC_OK) err = fill(&build, &arrivals, spec, diag);
  if (err == KC_OK) err = kc_synth_finish(&build, &plain, trace, diag);
  kc_arrivals_free(&arrivals);
  kc_synth_build_free(&build);
  return err;
}
