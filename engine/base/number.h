/* Strict numbers: the whole string, a range, a unit; no locale, no silent truncation.
 *
 * Every parser takes exactly [text, text + length), returns false unless the whole of it is valid,
 * and leaves *out untouched then. Callers write the sentence, because they know the name and unit.
 *
 * A number starts with a digit (no '+', no ".5"), a point has digits on both sides, and more than
 * 38 significant digits (128 characters for kc_parse_double) are refused. */
#ifndef KC_ENGINE_BASE_NUMBER_H
#define KC_ENGINE_BASE_NUMBER_H

#include "engine/base/vtime.h"

/* Decimal digits with optional suffix k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024), and
 * an exponent form of a whole number ("1e3", "2.5k" = 2500; a fraction must cancel exactly). */
bool kc_parse_u64(const char *text, size_t length, uint64_t *out);

/* The same with an optional leading '-'. */
bool kc_parse_i64(const char *text, size_t length, int64_t *out);

/* kc_parse_u64 with an optional trailing "B" ("56GiB", "56 GiB", "60129542144"). */
bool kc_parse_bytes(const char *text, size_t length, uint64_t *out);

/* Finite decimal number ("0.85", "1e-3", "-2"); no hex, inf or nan. Correctly rounded. */
bool kc_parse_double(const char *text, size_t length, double *out);

/* Decimal with unit ps ns us ms s min h d, exact to a picosecond ("10ms", "2.5 s"); the unit is
 * required except for "0". Non-negative. */
bool kc_parse_duration(const char *text, size_t length, kc_ps *out);

/* Plain decimal seconds (or other unit given as picoseconds per unit) to picoseconds, exactly:
 * "0.052" with KC_PS_PER_S -> 52000000000. Digits below one picosecond must be zero. Sign allowed.
 * No exponent. `picoseconds_per_unit` is a power of ten. */
bool kc_parse_decimal_ps(const char *text, size_t length, kc_ps picoseconds_per_unit, kc_ps *out);

/* "true"/"false" only. */
bool kc_parse_bool(const char *text, size_t length, bool *out);

/* "s" after a count, or "" after 1: "%llu page%s". */
static inline const char *kc_plural(uint64_t count)
{
  return count == 1 ? "" : "s";
}

/* Fixed-point decimal text of value / 10^decimals, trailing zeros trimmed ("12.5", "0", "-0.25").
 * `out` needs 48 bytes; returns the length. 0 <= decimals <= 18. */
size_t kc_format_fixed(kc_i128 value, unsigned decimals, char *out);

/* Bytes in the largest binary unit with `digits` decimals ("44.90 GiB"). `out` needs 48 bytes. */
size_t kc_format_bytes(uint64_t bytes, unsigned digits, char *out);

/* Edit distance (Levenshtein, case-insensitive), capped at 64 characters a side. */
unsigned kc_edit_distance(const char *a, const char *b);

/* Farthest distance from what was typed at which a suggestion still helps: 1 to 3, by its length.
 * Anything farther is another word. */
unsigned kc_edit_reach(const char *typed);

#endif
