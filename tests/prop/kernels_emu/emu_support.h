/* What the tests of the emulated kernels share: a lab with both implementations, random inputs, a
 * paged cache with traps, and the distance between two outputs.
 *
 * With KVCAP_LAB_MODULE naming a module (kvcap_cuda.so), the operations under test are that
 * device's: the same scenes on a GPU. Memory is then pinned memory of the host, which kernels
 * reach.
 *
 * Traps: memory is 0xff (a NaN in every format) where nothing was put, table entries behind a
 * context name page 2147480000, and pages lie in shuffled order.
 */
#ifndef KC_TESTS_EMU_SUPPORT_H
#define KC_TESTS_EMU_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/random.h"
#include "kernels/emu/emu_ops.h"
#include "kernels/ops/op_module.h"

enum { LAB_TAKEN_MAX = 128, LAB_SEEDS = 20 };

/* LAB_SEEDS, or as many as the environment's KVCAP_LAB_SEEDS says. */
uint64_t lab_seeds(void);

/* How many times as large as for the emulator shapes may be: 1, or KVCAP_LAB_SCALE, up to 64. */
uint32_t lab_scale(void);

/* Attention: the kernel's bound, and half a unit in the last place for the reference's own rounding
 * to bf16; times the largest |V|. */
#define LAB_ATTENTION_ABS (KC_TOL_ATTENTION_ABS + 0.001953125)

struct lab {
  uint64_t seed;
  struct kc_random random;
  void *context; /* a struct kc_emu, or the module's own */
  const struct kc_module *module; /* NULL: the emulator */
  const struct kc_ops *under_test, *oracle;
  void *taken[LAB_TAKEN_MAX];
  size_t taken_count;
};

void lab_begin(struct lab *lab, uint64_t seed);
void lab_end(struct lab *lab);

/* Memory for the operations, 0xff, freed by lab_end. */
void *lab_take(struct lab *lab, uint64_t bytes);

uint32_t lab_below(struct lab *lab, uint32_t bound);
uint32_t lab_between(struct lab *lab, uint32_t low, uint32_t high); /* both included */
float lab_normal(struct lab *lab);
uint16_t *lab_bf16(struct lab *lab, uint64_t count, float deviation);
uint8_t *lab_e4m3(struct lab *lab, uint64_t count); /* no NaN, magnitudes up to 16 */
float *lab_f32(struct lab *lab, uint64_t count, float deviation);

/* What the device has finished; and whether it says that all is well. */
enum kc_op_status lab_wait(struct lab *lab, enum kc_op_status status);
enum kc_op_status lab_read_stream(struct lab *lab, const void *from, uint64_t bytes,
                                  uint32_t *sum);

/* Runs an operation by both; fails the test, with seed and reason, unless both say KC_OP_OK. */
#define LAB_RUN(lab, operation, op_test, op_oracle)                                     \
  do {                                                                                  \
    lab_expect((lab), lab_wait((lab), (lab)->under_test->operation((lab)->context,      \
                                                                   (op_test))),         \
               #operation);                                                             \
    lab_expect((lab), (lab)->oracle->operation(NULL, (op_oracle)), "ref " #operation);  \
  } while (0)
/* Ends the lab and fails the test, saying the seed. */
void lab_fail(struct lab *lab, const char *format, ...) __attribute__((format(printf, 2, 3)));

void lab_expect(struct lab *lab, enum kc_op_status status, const char *what);

/* Fails the test unless the outputs are close: nmse at most `nmse`, and each difference at most
 * `absolute` (0: not asked). [rows][width] with a stride between rows. */
struct lab_matrix {
  uint64_t rows, width, stride;
  double nmse, absolute;
};
void lab_close_bf16(struct lab *lab, const char *what, const uint16_t *got, const uint16_t *want,
                    const struct lab_matrix *shape);
void lab_close_f32(struct lab *lab, const char *what, const float *got, const float *want,
                   const struct lab_matrix *shape);
void lab_same(struct lab *lab, const char *what, const void *got, const void *want, size_t bytes);

/* ---- a paged cache ---- */

struct lab_cache {
  struct kc_kv_layer layer;
  struct kc_page_table table;
  struct kc_tag_state integrity;
  struct kc_page_ref *entry;
  uint32_t *tag;
  uint32_t slots, free_pages;
  uint32_t *page_order; /* shuffled; the next free one is page_order[free_pages - 1] */
  float v_most;         /* largest |V| that was stored */
};

struct lab_cache_shape {
  enum kc_paged_kind kind;
  enum kc_kv_format k_format, v_format;
  uint32_t slots, pages, page_tokens, context_max, kv_heads, head_dim, latent, rope;
};

void lab_cache_make(struct lab *lab, struct lab_cache *cache, const struct lab_cache_shape *shape);

/* Gives slot `slot` pages for `context` tokens and random K and V for them. */
void lab_cache_fill(struct lab *lab, struct lab_cache *cache, uint32_t slot, uint32_t context);

/* Pages only: what is in them stays NaN. */
void lab_cache_grant(struct lab *lab, struct lab_cache *cache, uint32_t slot, uint32_t context);

#endif
