/* How far an implementation may be from the reference on the same inputs.
 *
 *   nmse   sum (a - b)^2 / sum b^2 over the whole output, b from ref
 *   abs    max |a - b|, in units that the comment gives
 *
 * A bf16 output alone has an nmse of about 2.7e-6 (uniform relative rounding of half a unit in the
 * last place of 8 bits), so bounds on bf16 outputs are a small multiple of that. FP8 caches are
 * compared on the dequantised values that both read: kernel error, not quantisation error, which
 * has its own bound.
 */
#ifndef KC_KERNELS_OPS_OP_TOLERANCE_H
#define KC_KERNELS_OPS_OP_TOLERANCE_H

#define KC_TOL_NORM_NMSE 5e-6        /* RMSNorm, SwiGLU, MoE combine */
#define KC_TOL_ROPE_NMSE 5e-6
#define KC_TOL_ATTENTION_NMSE 1e-5   /* decode and prefill, GQA and MLA, every KV format */
#define KC_TOL_ATTENTION_ABS 0.00390625 /* 2^-8, times the largest |V| */
#define KC_TOL_LSE_ABS 1e-5          /* decode's log-sum-exp, plus 1e-5 * |lse| */
#define KC_TOL_W4A16_NMSE 5e-6       /* bf16 output */
#define KC_TOL_W4A16_DENSE_NMSE 1e-5 /* by way of bf16 weights: another rounding of that size */
#define KC_TOL_GEMM_BF16_NMSE 5e-6
#define KC_TOL_GEMM_FP8_NMSE 1e-5
#define KC_TOL_GEMM_F32_NMSE 1e-9    /* F32 output of BF16 inputs */
#define KC_TOL_ROUTE_WEIGHT_ABS 1e-5 /* expert ids equal unless scores are closer than this */
#define KC_TOL_SAMPLE_ABS 1e-4       /* token equal unless two perturbed scores are this close */
/* KV writes, row quantisation, gathers, MoE sort, tag check: bit for bit. */

#endif
