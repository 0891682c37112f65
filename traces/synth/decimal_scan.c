/* Decimal text to a scaled integer.
 *
 *   "1.3316e-2", 9 decimals:   mantissa 13316, exponent -4 - 2 + 9 = 3   ->   13316000
 *
 * Integers only: a double in between would round twice. */
#include "traces/synth/decimal_scan.h"

#include "engine/base/vtime.h"

enum { DIGITS_MAX = 19, EXPONENT_MAX = 400 };

struct number {
  uint64_t mantissa; /* at most DIGITS_MAX significant digits */
  int exponent;      /* of ten */
  unsigned significant, digits;
};

static bool is_digit(const char *c, const char *end)
{
  return c < end && *c >= '0' && *c <= '9';
}

/* A run of digits; `fraction`: each moves the point. */
static const char *scan_digits(const char *c, const char *end, bool fraction, struct number *n)
{
  for (; is_digit(c, end); c++) {
    n->digits++;
    if (n->significant < DIGITS_MAX) {
      n->mantissa = n->mantissa * 10 + (uint64_t)(*c - '0');
      if (n->mantissa > 0) n->significant++;
      if (fraction) n->exponent--;
    } else if (!fraction) {
      n->exponent++;
    }
  }
  return c;
}

/* "e-05"; without digits behind it the 'e' is not part of the number. */
static const char *scan_exponent(const char *c, const char *end, struct number *n)
{
  const char *digit = c + 1;
  int power = 0;
  if (c >= end || (*c != 'e' && *c != 'E')) return c;
  const bool negative = digit < end && *digit == '-';
  if (digit < end && (*digit == '-' || *digit == '+')) digit++;
  if (!is_digit(digit, end)) return c;
  for (; is_digit(digit, end); digit++) {
    if (power < EXPONENT_MAX) power = power * 10 + (*digit - '0');
  }
  n->exponent += negative ? -power : power;
  return digit;
}

bool kc_scan_decimal(const char **at, const char *end, unsigned decimals, uint64_t *out)
{
  struct number n = {0};
  KC_ASSERT(*at <= end);
  KC_ASSERT(decimals <= 18);
  const char *c = scan_digits(*at, end, false, &n);
  if (n.digits == 0) return false;
  if (c < end && *c == '.' && is_digit(c + 1, end)) c = scan_digits(c + 1, end, true, &n);
  c = scan_exponent(c, end, &n);
  kc_u128 value = n.mantissa;
  int exponent = n.exponent + (int)decimals;
  for (; exponent < 0 && value > 0; exponent++) value /= 10;
  for (; exponent > 0 && value > 0 && value <= UINT64_MAX; exponent--) value *= 10;
  if (value > UINT64_MAX) return false;
  *at = c;
  *out = (uint64_t)value;
  return true;
}
