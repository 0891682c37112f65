/* What the bench's cases share: memory that lasts a case, and the clock. For bench*.c alone. */
#ifndef KC_ENGINE_EXEC_BENCH_DESK_H
#define KC_ENGINE_EXEC_BENCH_DESK_H

#include "engine/exec/bench.h"

enum { KC_DESK_MAX = 32 };

struct kc_desk {
  const struct kc_bench_config *config;
  const struct kc_site *site;
  void *taken[KC_DESK_MAX];
  uint32_t taken_count;
  bool failed; /* no memory, or a copy was refused */
  double begun_s;
  uint32_t skipped;
};

/* Memory of the device until kc_desk_clear; NULL (and failed) when there is none. */
void *kc_desk_take(struct kc_desk *desk, uint64_t bytes);
/* The same with the host's bytes in it. */
void *kc_desk_put(struct kc_desk *desk, const void *from, uint64_t bytes);
/* bf16 of deviation 1. */
uint16_t *kc_desk_random(struct kc_desk *desk, uint64_t elements);
/* A random matrix in the format; INT4 in fragment order. */
struct kc_weight kc_desk_weight(struct kc_desk *desk, enum kc_weight_format format, uint64_t rows,
                                uint64_t cols);
/* Bytes of codes and scales. */
uint64_t kc_desk_weight_bytes(enum kc_weight_format format, uint64_t rows, uint64_t cols);
void kc_desk_clear(struct kc_desk *desk);

/* False when time is up: the case is counted as skipped. */
bool kc_desk_allows(struct kc_desk *desk);

/* Times body(context) unless the desk has failed, tells the row and clears the desk. */
void kc_desk_measure(struct kc_desk *desk, struct kc_bench_row *row,
                     enum kc_op_status (*body)(void *context), void *context);

/* Cases; bench_attention.c, bench_product.c. */
void kc_bench_stream(struct kc_desk *desk);
void kc_bench_decode(struct kc_desk *desk);
void kc_bench_latent(struct kc_desk *desk);
void kc_bench_prefill(struct kc_desk *desk);
void kc_bench_kv_write(struct kc_desk *desk);
void kc_bench_tags(struct kc_desk *desk);
void kc_bench_gemm(struct kc_desk *desk);
void kc_bench_w4a16(struct kc_desk *desk);
void kc_bench_moe(struct kc_desk *desk);

#endif
