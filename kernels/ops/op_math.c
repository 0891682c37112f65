/* exp, log, sin and cos from their series, after exact range reduction.
 *
 *   exp   x = k ln 2 + r, |r| <= 0.35: Taylor to r^13 (the next term is below 2^-57)
 *   log   x = 2^k m, m in [0.70, 1.41]: 2 artanh((m - 1) / (m + 1)), the odd series to s^23
 *   sin   angle = k pi/2 + r, |r| <= 0.79: Taylor to r^17 and r^16
 *
 * Constants are split so that k times the leading parts is exact for every k that can come up (the
 * reduction of Cody and Waite, Software Manual for the Elementary Functions, 1980). Only + - * /
 * and ldexp, frexp, nearbyint are used, all exactly specified by IEEE 754.
 */
#include "kernels/ops/op_math.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ln 2 and pi/2 in parts of 33 bits, the last one rounded. */
static const double ln2_high = 0x1.62E42FEEp-1, ln2_low = 0x1.A39EF35793C76p-33;
static const double half_pi[3] = {0x1.921FB544p+0, 0x1.0B4611A6p-34, 0x1.3198A2E037073p-69};

/* 1 / n!, n = 13 down to 0. */
static const double exp_series[14] = {
    0x1.6124613a86d09p-33, 0x1.1eed8eff8d898p-29, 0x1.ae64567f544e4p-26, 0x1.27e4fb7789f5cp-22,
    0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-13, 0x1.6c16c16c16c17p-10,
    0x1.1111111111111p-7,  0x1.5555555555555p-5,  0x1.5555555555555p-3,  0.5, 1.0, 1.0};

/* Adding and taking away 1.5 * 2^52 rounds to a whole number, to nearest even. */
static const double round_magic = 6755399441055744.0;

double kc_math_exp(double x)
{
  if (isnan(x)) return x;
  if (x > 709.78) return (double)INFINITY;
  if (x < -745.2) return 0.0;
  const double k = (x * 1.4426950408889634 + round_magic) - round_magic;
  const double r = (x - k * ln2_high) - k * ln2_low;
  double sum = exp_series[0];
  for (int n = 1; n < 14; ++n) sum = sum * r + exp_series[n];
  if (k < -1021.0 || k > 1022.0) return ldexp(sum, (int)k);
  const uint64_t bits = (uint64_t)((int64_t)k + 1023) << 52;
  double power; /* 2^k */
  memcpy(&power, &bits, sizeof power);
  return sum * power;
}

void kc_math_exp_batch(double *x, unsigned count)
{
  double k[KC_MATH_BATCH], r[KC_MATH_BATCH], sum[KC_MATH_BATCH];
  bool plain = true; /* every power of two is a normal number */
  for (unsigned i = 0; i < count; ++i) plain = plain && x[i] > -700.0 && x[i] < 700.0;
  for (unsigned i = 0; i < count && !plain; ++i) x[i] = kc_math_exp(x[i]);
  if (!plain) return;
  for (unsigned i = 0; i < count; ++i) {
    k[i] = (x[i] * 1.4426950408889634 + round_magic) - round_magic;
    r[i] = (x[i] - k[i] * ln2_high) - k[i] * ln2_low;
    sum[i] = exp_series[0];
  }
  for (int n = 1; n < 14; ++n) {
    for (unsigned i = 0; i < count; ++i) sum[i] = sum[i] * r[i] + exp_series[n];
  }
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t bits = (uint64_t)((int64_t)k[i] + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    x[i] = sum[i] * power;
  }
}

double kc_math_log(double x)
{
  if (isnan(x) || x < 0.0) return (double)NAN;
  if (x == 0.0) return -(double)INFINITY;
  if (isinf(x)) return x;
  int k;
  double m = frexp(x, &k); /* [0.5, 1) */
  if (m < 0.70710678118654752) {
    m *= 2.0;
    k -= 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int n = 23; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  return k * ln2_high + (2.0 * s * (1.0 + sum) + k * ln2_low);
}

void kc_math_sin_cos(double angle, double *sine, double *cosine)
{
  const double k = nearbyint(angle * 0.63661977236758134);
  const double r = ((angle - k * half_pi[0]) - k * half_pi[1]) - k * half_pi[2];
  const double square = r * r;
  double s = 1.0, c = 1.0;
  for (int n = 16; n >= 2; n -= 2) s = 1.0 - s * square / (n * (n + 1));
  for (int n = 16; n >= 2; n -= 2) c = 1.0 - c * square / (n * (n - 1));
  s *= r;
  switch ((int64_t)k & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
  }
}
