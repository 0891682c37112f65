/* log2 and exp2 that give the same bits everywhere (profile_math.c). */
#ifndef KC_SIM_COST_EXACT_H
#define KC_SIM_COST_EXACT_H

double kc_log2_exact(double x);  /* x > 0 and finite; relative error below 1e-15 */
double kc_exp2_exact(double x);  /* |x| < 1000; relative error below 1e-15 */

#endif
