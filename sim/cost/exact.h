/* log2, exp2 and powers that give the same bits everywhere (profile_math.c). */
#ifndef KC_SIM_COST_EXACT_H
#define KC_SIM_COST_EXACT_H

#include <stdint.h>

double kc_log2_exact(double x);  /* x > 0 and finite; relative error below 1e-15 */
double kc_exp2_exact(double x);  /* |x| < 1000; relative error below 1e-15 */

/* base^exponent by squaring, base in [0, 1]: products in a fixed order. */
double kc_power_exact(double base, uint64_t exponent);

#endif
