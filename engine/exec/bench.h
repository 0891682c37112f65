/* How long operations take on a device, one at a time, as `kvcap engine bench` asks.
 *
 * A case lays out its inputs, captures its operation as a graph, and times it in two ways:
 *   cold   the L2 is flushed before each run: what a layer meets whose weights and KV pages were
 *          last read a step ago. The median of the runs.
 *   warm   many in a row, divided by their number: launches overlap, the L2 helps.
 * `bytes` are those that the algorithm must move (KV, weights, inputs, outputs), whatever the
 * kernel moves; `flops` those that it must compute.
 *
 * On the emulated device the same code runs on small shapes, and times mean nothing.
 */
#ifndef KC_ENGINE_EXEC_BENCH_H
#define KC_ENGINE_EXEC_BENCH_H

#include "engine/exec/site.h"

/* Suites, as bits. */
enum kc_bench_suite {
  KC_BENCH_STREAM = 1,     /* reading memory: the ceiling */
  KC_BENCH_DECODE = 2,     /* GQA decode attention */
  KC_BENCH_LATENT = 4,     /* MLA decode attention */
  KC_BENCH_PREFILL = 8,    /* attention of chunks */
  KC_BENCH_GEMM = 16,      /* BF16 and FP8 products */
  KC_BENCH_W4A16 = 32,     /* INT4 weights, by both ways (dense_product.h) */
  KC_BENCH_MOE = 64,       /* a layer of experts */
  KC_BENCH_KV_WRITE = 128,
  KC_BENCH_TAGS = 256,     /* the check of a batch's table */
  KC_BENCH_ALL = 511
};

/* Names are those of the files that `kvcap calibrate kernels` reads, where there is one. */
struct kc_bench_shape {
  uint64_t m, n, k;                       /* products */
  uint64_t batch, tokens, context;        /* attention: tokens are new, and in context */
  uint64_t heads, kv_heads, head_dim;
  uint64_t hidden, inter, topk, experts, tp; /* inter: before tp */
  uint64_t entries;                       /* tag check */
};

struct kc_bench_row {
  enum kc_bench_suite suite;
  const char *operation; /* "gemm", "gemm_dequantised", "tag_check", ... */
  const char *format;    /* "bfloat16", "fp8", "int4_g128" */
  struct kc_bench_shape shape;
  double cold_us, warm_us;
  double bytes, flops;
  enum kc_op_status status; /* not KC_OP_OK: it could not run, and there are no times */
};

struct kc_bench_config {
  struct kc_site site; /* a device */
  uint32_t suites;
  uint32_t runs;       /* of each case */
  bool tiny;           /* shapes that an emulator can run */
  double seconds;      /* no case is begun after so long; 0: no limit */
  void (*on_row)(void *context, const struct kc_bench_row *row);
  void *context;
};

/* Runs the suites. KC_ERR_DEVICE when the device itself fails, not when a case cannot run. *skipped
 * is the number of cases that time did not allow. */
enum kc_err kc_bench_run(const struct kc_bench_config *config, uint32_t *skipped,
                         struct kc_diag *diag);

#endif
