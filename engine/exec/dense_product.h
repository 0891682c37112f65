/* Products of many rows with INT4 weights: the matrix becomes BF16, a panel of outputs at a time,
 * and each panel is multiplied by the dense kernels (cuBLASLt on a GPU).
 *
 *   W int4 [n][k]   --dequantise-->   scratch bf16 [panel][k]   --gemm-->   out [m][panel of n]
 *
 * Why a number of rows decides. A panel costs its codes read and its elements written, 2.5 bytes an
 * element, and those read again, 2 more, whatever m is. The kernel that multiplies the codes reads
 * half a byte, but does its 2 m operations an element at the rate of mma.sync with scales applied
 * in between. At 4.4 TB/s, and 300 against 700 TFLOP/s, both take the same time at
 *   m = 2.5 / 4.4e12 / (2 / 300e12 - 2 / 700e12) = 149   where the second reading hides behind
 *   m = 4.0 / 4.4e12 / (2 / 300e12 - 2 / 700e12) = 239   the arithmetic, and where it does not
 * The threshold is set where batches of decodes of usual sizes, up to 256, end: those never depend
 * on the scratch. The rates are estimates, not measured: `kvcap engine bench --suite w4a16` times
 * both ways side by side.
 *
 * Experts stay with the other route: how many rows each of them has is known on the device alone,
 * and a chunk's rows spread over many.
 *
 * The weights' values are rounded to BF16 on the way, which the other route does not: results of
 * the two differ by that rounding (KC_TOL_W4A16_DENSE_NMSE).
 */
#ifndef KC_ENGINE_EXEC_DENSE_PRODUCT_H
#define KC_ENGINE_EXEC_DENSE_PRODUCT_H

#include "kernels/ops/ops.h"

/* Rows of a product from which on it goes this way. */
enum { KC_DENSE_ROWS = 257 };

/* The scratch is never larger: 4,096 outputs of 8,192 inputs, 32 tiles of 128, which with the
 * three of as many rows that there are at least fill most of the SMs at once. */
#define KC_DENSE_SCRATCH_MAX (UINT64_C(64) << 20)

/* Bytes of scratch for products of up to `rows` rows with this matrix: 0 when they do not go this
 * way, at most KC_DENSE_SCRATCH_MAX (more only for a matrix of over 2^18 inputs). */
uint64_t kc_dense_scratch_bytes(const struct kc_weight *weight, uint32_t rows);

/* True when a product of these rows and weights goes this way. */
bool kc_dense_wanted(const struct kc_weight *weight, uint32_t rows);

/* The gemm of `op`, whose weight is INT4, by way of `scratch` (aligned to 16 bytes; as the site's
 * operations reach it) of `scratch_bytes`, which hold 16 outputs at least: KC_OP_MEMORY otherwise.
 * op's workspace is that of the panels (kc_dense_panel). */
enum kc_op_status kc_dense_product(const struct kc_ops *ops, void *context,
                                   const struct kc_op_gemm *op, void *scratch,
                                   uint64_t scratch_bytes);

/* The BF16 matrix of a whole panel, or of the last one: for sizing the workspace. No data. */
struct kc_weight kc_dense_panel(const struct kc_weight *weight, uint64_t scratch_bytes, bool last);

#endif
