/* Elementary functions in double that give the same bits on every machine.
 *
 * libm picks its code by the processor (FMA or not), and its last bits with it; tokens that a
 * reference computes must not depend on that. Errors here are below 3 units in the last place.
 */
#ifndef KC_KERNELS_OPS_OP_MATH_H
#define KC_KERNELS_OPS_OP_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

double kc_math_exp(double x); /* 0 below -745, infinity above 709.78; NaN is NaN */
/* x[i] = exp(x[i]) for count <= KC_MATH_BATCH values, the same bits, side by side: a polynomial
 * alone waits for itself most of the time. */
enum { KC_MATH_BATCH = 32 };
void kc_math_exp_batch(double *x, unsigned count);
double kc_math_log(double x); /* x = 0: -infinity; x < 0: NaN */
/* |angle| <= 2^20 radians (a context of a million tokens at frequency 1); absolute error below
 * 3e-16. */
void kc_math_sin_cos(double angle, double *sine, double *cosine);

#ifdef __cplusplus
}
#endif

#endif
