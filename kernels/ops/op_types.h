/* What every operation shares: status, element types, weights, pages with tags, the KV pool.
 *
 * The operations have one contract and three implementations: kernels/ref (plain C, the oracle and
 * the CPU executor), kernels/cuda (GPU kernels), kernels/emu (the GPU kernels run on a CPU, for
 * tests). Plain structs of pointers and integers, so that the same header compiles as C17 and as
 * C++17 in CUDA. Pointers are the implementation's own memory: host memory for ref and emu, device
 * memory for cuda; only the structs themselves, and arrays inside them marked "host", are read on
 * the host.
 *
 * Rules for all operations
 *   bf16 arrays are uint16_t bit patterns; e4m3 arrays are uint8_t.
 *   Data pointers are aligned to 16 bytes. Strides count elements (unless named _bytes) between
 *   starts of rows, and are multiples of 8. Rows do not overlap.
 *   Outputs overlap no input unless the struct says "in place".
 *   Results are rounded once, to nearest even, from at least FP32 accumulation; ref accumulates in
 *   double in index order. A result beyond bf16's range is what that rounding gives (infinity).
 *   A second run of the same operation on the same inputs gives the same bytes (each
 *   implementation for itself). Tolerances between implementations are in op_tolerance.h.
 *   A zero count (no rows, no experts) is legal and does nothing.
 */
#ifndef KC_KERNELS_OPS_OP_TYPES_H
#define KC_KERNELS_OPS_OP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/formats/format.h"

enum kc_op_status {
  KC_OP_OK = 0,
  KC_OP_BAD = 1,         /* a precondition of the contract does not hold: our own mistake */
  KC_OP_UNSUPPORTED = 2, /* legal, but this implementation has no kernel for the shape */
  KC_OP_DEVICE = 3,      /* launch or device error; the device's message has the rest */
  KC_OP_MEMORY = 4,      /* workspace too small, or no device memory left */
  KC_OP_STOPPED = 5      /* of no operation: whoever runs them was asked to stop between two */
};

/* Element types of activations and outputs. */
enum kc_dtype { KC_DTYPE_BF16, KC_DTYPE_F32, KC_DTYPE_E4M3 };

#define KC_NO_SLOT 0xFFFFFFFFu /* a padding row of a captured graph: read nothing, write zeros */

/* ---- weights ---- */

enum kc_weight_layout {
  KC_LAYOUT_ROWS,     /* canonical, below: what the readers make and what ref reads */
  KC_LAYOUT_FRAGMENT  /* int4 in mma fragment order, packed by kernels/cuda; ref refuses it */
};

/* A rows x cols matrix W (rows = outputs n, cols = inputs k): y = x W^T. Canonical layout:
 *   BF16        data uint16_t [rows][cols]
 *   FP8         data e4m3 [rows][cols]; value = code * scale_f32[0]
 *   FP8_BLOCK   data e4m3 [rows][cols]; scale_f32 [ceil(rows/128)][ceil(cols/128)]
 *   INT4_G*     data uint8_t [rows][cols/2]: element k of a row is the low nibble of byte k/2 for
 *               even k, the high one for odd k, stored as value + 8 (-8 .. 7);
 *               scale_bf16 [rows][cols/group]; cols is a multiple of the group
 *   MXFP4       data uint8_t [rows][cols/2], e2m1 nibbles in the same order; scale_e8m0
 *               [rows][cols/32] in `scale_u8`
 *   NVFP4       e2m1 nibbles; scale_u8 = e4m3 [rows][cols/16]; scale_f32[0] for the tensor
 * Only BF16, FP8 and INT4_G32/G128 must be supported by every implementation.
 */
struct kc_weight {
  enum kc_weight_format format;
  enum kc_weight_layout layout;
  uint32_t rows, cols;
  const void *data;
  const float *scale_f32;
  const uint16_t *scale_bf16;
  const uint8_t *scale_u8;
};

/* ---- pages ---- */

/* A page is (id, tag); a block-table entry holds both. 8 bytes, aligned to 8. */
struct kc_page_ref {
  uint32_t page;
  uint32_t tag; /* 0 is never valid */
};

/* Slot-indexed tables as attention reads them: entry e of slot s is entry[s * stride + e] and holds
 * tokens [e * page_tokens, (e + 1) * page_tokens) of the slot's context. Entries behind the context
 * may hold anything and must not be read. */
struct kc_page_table {
  const struct kc_page_ref *entry;
  uint32_t slots;
  uint32_t stride; /* entries a slot */
};

/* Entry `index` of `slot` as one number, never 0. A macro, for it is read on devices as well. */
#define KC_PAGE_PLACE(slot, index) (((uint64_t)(slot) + 1) << 32 | (index))

/* One thing that the tag check or a write refused. 32 bytes. */
struct kc_tag_event {
  uint64_t step;
  uint32_t slot;
  uint32_t index; /* entry of the slot's row */
  uint32_t page;
  uint32_t want;  /* the entry's tag */
  uint32_t got;   /* the pool's tag; 0 when the page id is out of range */
  uint32_t source; /* enum kc_tag_source */
};

enum kc_tag_source { KC_TAG_CHECK, KC_TAG_WRITE, KC_TAG_PLACE /* right tag, wrong place */ };

/* Counters, uint64_t each, never reset by an operation. The first two prove that a check ran. */
enum kc_tag_counter {
  KC_COUNT_CHECKS,         /* check operations that ran to their end */
  KC_COUNT_ENTRIES,        /* entries compared by them */
  KC_COUNT_EVENTS,         /* events found; the ring keeps the first ring_capacity of them */
  KC_COUNT_WRITES,         /* tokens whose KV was written */
  KC_COUNT_WRITES_REFUSED, /* tokens whose KV was not, because of tag, range or verdict */
  KC_TAG_COUNTERS
};

#define KC_VERDICT_CLEAR 0xFFFFFFFFu

/* Integrity state of one pool. verdict[s] is KC_VERDICT_CLEAR, or the lowest entry index of slot s
 * found bad so far (an atomic minimum). Verdicts are sticky: only the host clears them, when it
 * gives the slot to another request. Every operation that reads or writes pages skips a slot whose
 * verdict is not clear: attention writes zeros, a KV write is refused, sampling yields -1. */
struct kc_tag_state {
  const uint32_t *tag;   /* [pages]: the pool's current tags; NULL: integrity is off, no verdicts */
  uint32_t *verdict;     /* [slots] */
  uint64_t *counter;     /* [KC_TAG_COUNTERS] */
  struct kc_tag_event *ring; /* [ring_capacity]; event number n (from 0) is at ring[n]; later ones
                                than capacity are counted, not stored. Order is free on a GPU. */
  uint32_t ring_capacity;
  uint32_t pages;        /* ids 0 .. pages - 1 are in range */
  uint64_t step;         /* copied into events */
};

/* ---- the KV of one layer ---- */

enum kc_paged_kind { KC_PAGED_GQA, KC_PAGED_MLA };

/* GQA   K [page][kv_heads][page_tokens][head_dim] and V likewise in a pool of its own, so that one
 *       (page, head) tile is contiguous; each BF16 or FP8_E4M3. FP8: value = code * scale[head],
 *       one FP32 scale per kv head; writes store e4m3(x / scale), saturating.
 * MLA   [page][page_tokens][record] in K, V unused. BF16: latent elements, then rope elements.
 *       FP8_G128: per token `latent` e4m3 codes, one FP32 scale per 128 of them, `rope` bf16
 *       elements, padded to a multiple of 16 bytes (512 + 64: 656 bytes). The scale of a group is
 *       kc_e4m3_group_scale(amax), a power of two.
 * Page p starts at k + p * k_page_bytes: pools may lay their layers either way round. */
struct kc_kv_layer {
  enum kc_paged_kind kind;
  enum kc_kv_format k_format, v_format; /* MLA: k_format alone */
  uint32_t pages;
  uint32_t page_tokens; /* 16, 32, 64 or 128; ref takes any >= 1 */
  uint32_t kv_heads;    /* MLA: 1 */
  uint32_t head_dim;    /* GQA; multiple of 16 */
  uint32_t latent;      /* MLA: 512; multiple of 16, of 128 for FP8_G128 */
  uint32_t rope;        /* MLA: 64; multiple of 16 */
  uint8_t *k, *v;
  uint64_t k_page_bytes, v_page_bytes; /* multiples of 16 */
  const float *k_scale, *v_scale;      /* [kv_heads]; NULL: 1 */
};

#endif
