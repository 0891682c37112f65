/* log2, exp2 and powers from + - * / alone.
 *
 * libm picks its code by processor at run time and its results differ in the last bit, so a run may
 * not call it. IEEE 754 fixes every bit of the four operations, and the build forbids contraction.
 *
 *   log2(2^e m) = e + log2(m),  m in [sqrt(1/2), sqrt 2),
 *   ln m = 2 (s + s^3/3 + s^5/5 + ...),  s = (m - 1) / (m + 1),  |s| < 0.1716
 *   2^(i + f)   = 2^i e^(f ln 2),  |f| <= 1/2, by the series of e^x, |x| < 0.3466
 */
#include <math.h>
#include <string.h>

#include "sim/cost/profile_internal.h"

#define LN2 0.69314718055994530942

/* x = *mantissa * 2^result, mantissa in [sqrt(1/2), sqrt 2). Powers of two are exact. */
static int split(double x, double *mantissa)
{
  int exponent;
  double m = frexp(x, &exponent); /* exact */
  KC_ASSERT(m >= 0.5 && m < 1.0);
  if (m < 0.70710678118654752440) {
    m *= 2.0;
    exponent -= 1;
  }
  *mantissa = m;
  return exponent;
}

double kc_log2_exact(double x)
{
  double m;
  KC_ASSERT(x > 0.0);
  KC_ASSERT(x < 1e300);
  const int exponent = split(x, &m);
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int odd = 21; odd >= 1; odd -= 2) sum = sum * square + 1.0 / odd;
  return exponent + 2.0 * s * sum / LN2;
}

double kc_exp2_exact(double x)
{
  KC_ASSERT(x > -1000.0);
  KC_ASSERT(x < 1000.0);
  const double whole = floor(x + 0.5); /* exact */
  const double t = (x - whole) * LN2;
  double sum = 1.0;
  for (int n = 14; n >= 1; n--) sum = 1.0 + sum * t / n;
  return ldexp(sum, (int)whole); /* exact */
}

double kc_power_exact(double base, uint64_t exponent)
{
  double result = 1.0;
  KC_ASSERT(base >= 0.0 && base <= 1.0);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  KC_ASSERT(result >= 0.0 && result <= 1.0);
  return result;
}
