/* Random inputs of operations and how far two results are apart. */
#ifndef KC_TESTS_OP_RANDOM_H
#define KC_TESTS_OP_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t draw_u64(uint64_t *seed);
uint32_t draw_below(uint64_t *seed, uint32_t bound);
double draw_normal(uint64_t *seed); /* about 0, deviation 1 */

/* Zeroed memory aligned for operations; the test ends if there is none. */
void *take(size_t bytes);
uint16_t *take_bf16(size_t count, uint64_t *seed, double deviation);

double value_of(uint16_t bf16);
uint16_t code_of(double value);

/* sum (got - want)^2 / sum want^2; infinite where got is NaN. */
double nmse(const double *got, const double *want, size_t count);
double nmse_bf16(const uint16_t *got, const double *want, size_t count);
double nmse_f32(const float *got, const double *want, size_t count);

#endif
