/* Is the unit of a trace's times the right one? A bare number does not say: `timestamp` counts
 * milliseconds in one public format and seconds in another with otherwise the same keys, and files
 * that mix them up are about (kvcache-ai/Mooncake issue 4, vllm-project/guidellm issue 948). */
#ifndef KC_TRACES_TRANSFORM_UNIT_DOUBT_H
#define KC_TRACES_TRANSFORM_UNIT_DOUBT_H

#include "traces/transform/trace_stats.h"

enum kc_unit_reason {
  KC_UNIT_FITS,  /* nothing speaks against it */
  KC_UNIT_EPOCH, /* the first time is a date of our days in another unit, and none in this one */
  KC_UNIT_FAST,  /* more requests or tokens a second than any public service has */
  KC_UNIT_SLOW   /* a log without sessions that sees less than a request a minute */
};

struct kc_unit_doubt {
  enum kc_unit_reason reason;
  enum kc_time_unit better;       /* gives a plausible rate */
  uint64_t rate_micro;            /* requests per 10^6 s as read, rounded down */
  uint64_t better_rate_micro;     /* the same in the better unit */
  uint64_t span_ms, better_span_ms;
  uint64_t tokens_per_s;          /* input and output, as read */
};

/* reason stays KC_UNIT_FITS when the times are dates, are too few to judge, or when no other unit
 * would make more sense. O(1). */
void kc_trace_doubt_unit(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                         struct kc_unit_doubt *doubt);

#endif
