/* Times of trace rows, exact to a picosecond: calendar dates and decimal seconds.
 *
 * An instant is kept as whole seconds and picoseconds apart, because 64 bits of picoseconds span
 * 106 days and a date is 54 years from the epoch. Only differences of instants become kc_ps. */
#ifndef KC_TRACES_READERS_TRACE_TIME_H
#define KC_TRACES_READERS_TRACE_TIME_H

#include "engine/base/vtime.h"

struct kc_instant {
  int64_t seconds; /* dates: since 1970-01-01T00:00:00Z, may be negative; seconds: since 0 */
  kc_ps fraction_ps; /* [0, 10^12) */
};

enum kc_time_fault {
  KC_TIME_OK,
  KC_TIME_SHAPE,    /* does not look like one */
  KC_TIME_DAY,      /* no such day in the calendar */
  KC_TIME_CLOCK,    /* no such time of day; a leap second :60 counts as none */
  KC_TIME_DIGITS,   /* more than 12 digits after the point of a date */
  KC_TIME_ZONE,     /* an offset beyond 18:00, or minutes beyond 59 */
  KC_TIME_NEGATIVE, /* seconds below 0 */
  KC_TIME_RANGE     /* 10^18 seconds or more */
};

/* What was wrong and what was expected, to follow a quoted cell: "is not ...". */
const char *kc_time_fault_text(enum kc_time_fault fault);

/* Days from 1970-01-01 to a day of the proleptic Gregorian calendar. month 1..12, day 1..31. */
int64_t kc_days_from_civil(int64_t year, unsigned month, unsigned day);

/* Rows of a trace mostly share their day; the last one is kept. Zero it before first use. */
struct kc_day_memo {
  bool known;
  char text[10];   /* "2023-11-16" */
  int64_t seconds; /* of its midnight */
};

/* "2023-11-16 18:17:03.9799600", "2024-05-12 00:00:00+00:00", "2024-10-15T12:00:00.269Z": 'T', 't'
 * or one space; 0 to 12 fraction digits; zone absent, Z, +hh, +hhmm or +hh:mm. *zoned says whether
 * a zone was given; without one the time counts as UTC. */
enum kc_time_fault kc_time_parse_date(struct kc_day_memo *memo, const char *text, size_t bytes,
                                      struct kc_instant *out, bool *zoned);

/* "0", "0.052", "98.18900000000001", "1e-05" (as Python writes 10 us): non-negative decimal
 * seconds. *rounded says whether digits below one picosecond were lost (rounded half up). */
enum kc_time_fault kc_time_parse_seconds(const char *text, size_t bytes, struct kc_instant *out,
                                         bool *rounded);

/* The same for a number that counts 10^-scale seconds: 3 for ms, 6 for us, 9 for ns, 12 for ps. */
enum kc_time_fault kc_time_parse_scaled(const char *text, size_t bytes, unsigned scale,
                                        struct kc_instant *out, bool *rounded);

/* a - b in picoseconds; false when the distance does not fit in 106 days. */
bool kc_instant_minus(const struct kc_instant *a, const struct kc_instant *b, kc_ps *out);

#endif
