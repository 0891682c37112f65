/* What a device gives its users beside the operations: graphs, pinned memory, events, the size of
 * memory, weights made where they lie.
 *
 * The program links no CUDA: this table is the one symbol that it looks up in a module. kvcap_cuda
 * (kernels/cuda) fills it for a GPU. kvcap_emu (kernels/emu) fills it for the same kernels run on
 * the CPU, so that tests drive a device where there is none. Opening a module touches no driver.
 *
 * A context has one stream; what is enqueued runs in order. Threads: one at a time per context.
 */
#ifndef KC_KERNELS_OPS_OP_MODULE_H
#define KC_KERNELS_OPS_OP_MODULE_H

#include "kernels/ops/ops.h"

enum { KC_MODULE_VERSION = 3 };

#define KC_MODULE_SYMBOL "kc_module_table"

struct kc_module_info {
  char name[256];
  bool emulated; /* times and sizes say nothing about a GPU */
  int sm_count, clock_khz, driver_version, runtime_version; /* versions as CUDA numbers them */
  uint64_t total_bytes, free_bytes, l2_bytes;
};

/* `elements` synthetic bf16 weights at out: element i is that of engine/exec/synthetic.c, with the
 * same bits: bf16(mean + deviation * kc_counter_normal(seed, stream, i)). */
struct kc_op_synthesise {
  uint64_t seed, stream, elements;
  float deviation, mean;
  uint16_t *out;
};

/* A bf16 matrix into the format and layout of `weight`, whose arrays are written: FP8, and INT4 in
 * rows or in fragment order. The same codes and scales as kc_quantise_weight. */
struct kc_op_quantise_weight {
  const uint16_t *bf16; /* [rows][cols] */
  struct kc_weight weight;
  void *data;
  float *scale_f32;
  uint16_t *scale_bf16;
};

struct kc_module {
  uint32_t version;
  const struct kc_ops *ops; /* of the contexts that `create` makes */

  /* KC_OP_DEVICE with a sentence in `why` when there is no driver, no such device, or one older
   * than sm_90. */
  enum kc_op_status (*create)(int device, void **context, char *why, size_t why_bytes);
  void (*destroy)(void *context);
  enum kc_op_status (*info)(void *context, struct kc_module_info *info);

  /* Between begin and end, operations are noted instead of run; plans must be padded and arrays
   * keep their places, since the graph holds pointers and launch sizes. */
  enum kc_op_status (*capture_begin)(void *context);
  enum kc_op_status (*capture_end)(void *context, void **graph);
  enum kc_op_status (*graph_launch)(void *context, void *graph);
  void (*graph_destroy)(void *context, void *graph);

  /* Host memory that copies reach without a stop, and such copies: enqueued, not waited for. */
  void *(*pinned_allocate)(void *context, uint64_t bytes);
  void (*pinned_release)(void *context, void *memory);
  enum kc_op_status (*send)(void *context, void *to_device, const void *from_pinned,
                            uint64_t bytes);
  enum kc_op_status (*fetch)(void *context, void *to_pinned, const void *from_device,
                             uint64_t bytes);

  /* Points in the stream. elapsed waits for `end`; microseconds, negative on failure. */
  void *(*event_create)(void *context);
  void (*event_destroy)(void *event);
  enum kc_op_status (*event_record)(void *context, void *event);
  double (*event_elapsed_us)(void *begin, void *end);

  /* For benches: throws everything out of the L2; reads `bytes` (a multiple of 16), once and in
   * whole vectors, and leaves the exclusive-or of all words at *sum: the measured ceiling. */
  enum kc_op_status (*flush_l2)(void *context);
  enum kc_op_status (*read_stream)(void *context, const void *from, uint64_t bytes, uint32_t *sum);
  /* The stream does nothing for so long: stands for what another GPU would have had to send. */
  enum kc_op_status (*delay)(void *context, uint64_t nanoseconds);

  /* Bytes of INT4 weights in fragment order, and packing on the host. */
  void (*fragment_bytes)(const struct kc_weight *weight, uint64_t *data, uint64_t *scale);
  void (*fragment_pack)(const struct kc_weight *weight, void *data, uint16_t *scale);
  /* Weights made on the device; KC_OP_UNSUPPORTED for formats that it cannot make. */
  enum kc_op_status (*synthesise)(void *context, const struct kc_op_synthesise *op);
  enum kc_op_status (*quantise_weight)(void *context, const struct kc_op_quantise_weight *op);
};

#ifdef __cplusplus
extern "C" {
#endif

/* Exported by every module under this name. */
const struct kc_module *kc_module_table(void);

#ifdef __cplusplus
}
#endif

#endif
