/* Arithmetic on virtual time that is more than an inline: scaling by a ratio, rounded once.
 *
 *   a (64 bits) * b (64 bits) -> 128 bits -> / c -> back to 64 bits, or an assertion
 *
 * Pure functions of integers. Rates become integers where a model or trace is loaded; from there on
 * every rounding of a time happens here, half up, so that it is the same in every build. */
#include "engine/base/vtime.h"

uint64_t kc_muldiv_round(uint64_t a, uint64_t b, uint64_t c)
{
  KC_ASSERT(c > 0);
  /* (2^64 - 1)^2 + 2^63 < 2^128: the sum cannot wrap. Adding floor(c / 2) is exact half-up: for an
   * odd c no quotient lies half-way. */
  const kc_u128 quotient = ((kc_u128)a * b + c / 2) / c;
  KC_ASSERT(quotient <= UINT64_MAX);
  return (uint64_t)quotient;
}
