/* Decimal numbers of any length, with an exponent, as scaled integers (private to traces/synth). */
#ifndef KC_TRACES_SYNTH_DECIMAL_SCAN_H
#define KC_TRACES_SYNTH_DECIMAL_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* Reads "1.3316666666666668", "600", "1.08e-05" at *at and moves *at behind it: *out is the value
 * times 10^decimals, rounded down; digits beyond the 19th significant one count as 0. False, with
 * *at and *out untouched, when no number starts there or it does not fit. No sign. decimals <= 18.
 */
bool kc_scan_decimal(const char **at, const char *end, unsigned decimals, uint64_t *out);

#endif
