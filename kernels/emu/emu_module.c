/* The module kvcap_emu: a device that runs the CUDA kernels on the CPU, for tests of what drives a
 * device. Its memory is the host's, but nobody may tell: allocations are filled with 0xff, copies
 * are copies, and a graph is a tape of the operations with their structs as they were.
 *
 *   capture_begin, gemm {...}, decode {...}, capture_end  -->  tape: [gemm {...}] [decode {...}]
 *   graph_launch                                          -->  runs the tape, reading the memory
 *                                                              that the structs point to now
 *
 * KVCAP_EMU_MIB limits its memory (default 256 MiB), so that running out can be tested;
 * KVCAP_EMU_SEED gives the order of threads (default 0: in order).
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/emu/emu_ops.h"
#include "kernels/ops/op_module.h"

enum { SM_COUNT = 2, MIB_DEFAULT = 256 };

uint64_t kc_int4_fragment_data_bytes(const struct kc_weight *weight);
uint64_t kc_int4_fragment_scale_bytes(const struct kc_weight *weight);
void kc_int4_fragment_pack(const struct kc_weight *weight, void *data, uint16_t *scale);
enum kc_op_status kc_gpu_synthesise(void *context, const struct kc_op_synthesise *op);
enum kc_op_status kc_gpu_quantise_weight(void *context, const struct kc_op_quantise_weight *op);
enum kc_op_status kc_gpu_read_stream(void *context, const void *from, uint64_t bytes,
                                     uint32_t *sum);

/* The operations that a tape holds. */
#define OPERATIONS(X) \
  X(gather)           \
  X(rms_norm)         \
  X(rope)             \
  X(gemm)             \
  X(head_gemm)        \
  X(dequantise)       \
  X(quantise_rows)    \
  X(swiglu)           \
  X(sample)           \
  X(kv_write)         \
  X(decode)           \
  X(prefill)          \
  X(tag_check)        \
  X(route)            \
  X(moe_sort)         \
  X(grouped_gemm)     \
  X(moe_combine)

enum kind {
#define ENUMERATE(name) KIND_##name,
  OPERATIONS(ENUMERATE)
#undef ENUMERATE
};

struct note {
  enum kind kind;
  union {
#define MEMBER(name) struct kc_op_##name name;
    OPERATIONS(MEMBER)
#undef MEMBER
  } op;
};

struct tape {
  struct note *note;
  size_t count, capacity;
};

struct emu_device {
  struct kc_emu *emu;
  struct tape *recording; /* NULL: operations run */
  uint64_t bytes, bytes_max;
};

static struct emu_device *device_of(void *context)
{
  return context;
}

static struct note *append(struct tape *tape, enum kind kind)
{
  if (tape->count == tape->capacity) {
    tape->capacity = 2 * tape->capacity + 64;
    struct note *more = realloc(tape->note, tape->capacity * sizeof *more);
    if (more == NULL) return NULL;
    tape->note = more;
  }
  tape->note[tape->count].kind = kind;
  return &tape->note[tape->count++];
}

#define OPERATION(name)                                                                   \
  static enum kc_op_status op_##name(void *context, const struct kc_op_##name *op)        \
  {                                                                                       \
    struct emu_device *device = device_of(context);                                       \
    if (device->recording == NULL) return kc_emu_ops()->name(device->emu, op);            \
    struct note *note = append(device->recording, KIND_##name);                           \
    if (note == NULL) return KC_OP_MEMORY;                                                \
    note->op.name = *op;                                                                  \
    return KC_OP_OK;                                                                      \
  }
OPERATIONS(OPERATION)
#undef OPERATION

static enum kc_op_status run_note(struct kc_emu *emu, const struct note *note)
{
  const struct kc_ops *ops = kc_emu_ops();
  switch (note->kind) {
#define RUN(name) \
  case KIND_##name: return ops->name(emu, &note->op.name);
    OPERATIONS(RUN)
#undef RUN
  }
  return KC_OP_BAD;
}

static uint64_t workspace_bytes(void *context, const struct kc_op_gemm *op)
{
  return kc_emu_ops()->gemm_workspace_bytes(device_of(context)->emu, op);
}

/* ---- memory ---- */

/* Before each allocation: its size, in a line of its own so that alignment stays. */
enum { HEAD_BYTES = 256 };

static void *allocate(void *context, uint64_t bytes)
{
  struct emu_device *device = device_of(context);
  if (bytes > device->bytes_max - device->bytes) return NULL;
  unsigned char *memory = kc_emu_ops()->allocate(device->emu, bytes + HEAD_BYTES);
  if (memory == NULL) return NULL;
  memcpy(memory, &bytes, sizeof bytes);
  device->bytes += bytes;
  return memory + HEAD_BYTES;
}

static void release(void *context, void *memory)
{
  struct emu_device *device = device_of(context);
  uint64_t bytes = 0;
  if (memory == NULL) return;
  memcpy(&bytes, (unsigned char *)memory - HEAD_BYTES, sizeof bytes);
  device->bytes -= bytes;
  kc_emu_ops()->release(device->emu, (unsigned char *)memory - HEAD_BYTES);
}

static enum kc_op_status copy(void *context, void *to, const void *from, uint64_t bytes)
{
  if (device_of(context)->recording != NULL) return KC_OP_BAD; /* a graph here holds operations */
  if (bytes > 0) memcpy(to, from, bytes);
  return KC_OP_OK;
}

static enum kc_op_status fill(void *context, void *to, int byte, uint64_t bytes)
{
  (void)context;
  if (bytes > 0) memset(to, byte, bytes);
  return KC_OP_OK;
}

static enum kc_op_status synchronise(void *context)
{
  return kc_emu_ops()->synchronise(device_of(context)->emu);
}

static const char *error(void *context)
{
  return kc_emu_ops()->error(device_of(context)->emu);
}

static void *pinned_allocate(void *context, uint64_t bytes)
{
  void *memory = NULL;
  (void)context;
  return posix_memalign(&memory, 256, bytes > 0 ? bytes : 1) == 0 ? memory : NULL;
}

static void pinned_release(void *context, void *memory)
{
  (void)context;
  free(memory);
}

/* ---- the context ---- */

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
  const char *text = getenv(variable);
  return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static enum kc_op_status create(int device, void **out, char *why, size_t why_bytes)
{
  *out = NULL;
  if (device != 0) {
    snprintf(why, why_bytes, "no GPU %d: there is one, and it is emulated", device);
    return KC_OP_DEVICE;
  }
  struct emu_device *made = calloc(1, sizeof *made);
  if (made == NULL) return KC_OP_MEMORY;
  made->emu = kc_emu_create(number_from("KVCAP_EMU_SEED", 0));
  made->bytes_max = number_from("KVCAP_EMU_MIB", MIB_DEFAULT) << 20;
  *out = made;
  return made->emu != NULL ? KC_OP_OK : KC_OP_MEMORY;
}

static void destroy(void *context)
{
  struct emu_device *device = device_of(context);
  if (device == NULL) return;
  kc_emu_destroy(device->emu);
  free(device);
}

static enum kc_op_status info(void *context, struct kc_module_info *info)
{
  const struct emu_device *device = device_of(context);
  *info = (struct kc_module_info){.name = "emulated on the CPU",
                                  .emulated = true,
                                  .sm_count = SM_COUNT,
                                  .total_bytes = device->bytes_max,
                                  .free_bytes = device->bytes_max - device->bytes};
  return KC_OP_OK;
}

/* ---- graphs ---- */

static enum kc_op_status capture_begin(void *context)
{
  struct emu_device *device = device_of(context);
  if (device->recording != NULL) return KC_OP_BAD;
  device->recording = calloc(1, sizeof *device->recording);
  return device->recording != NULL ? KC_OP_OK : KC_OP_MEMORY;
}

static enum kc_op_status capture_end(void *context, void **graph)
{
  struct emu_device *device = device_of(context);
  if (device->recording == NULL) return KC_OP_BAD;
  *graph = device->recording;
  device->recording = NULL;
  return KC_OP_OK;
}

static enum kc_op_status graph_launch(void *context, void *graph)
{
  const struct tape *tape = graph;
  for (size_t i = 0; i < tape->count; i++) {
    const enum kc_op_status status = run_note(device_of(context)->emu, &tape->note[i]);
    if (status != KC_OP_OK) return status;
  }
  return KC_OP_OK;
}

static void graph_destroy(void *context, void *graph)
{
  struct tape *tape = graph;
  (void)context;
  if (tape == NULL) return;
  free(tape->note);
  free(tape);
}

/* ---- events: the host's clock ---- */

static void *event_create(void *context)
{
  (void)context;
  return calloc(1, sizeof(struct timespec));
}

static void event_destroy(void *event)
{
  free(event);
}

static enum kc_op_status event_record(void *context, void *event)
{
  (void)context;
  return clock_gettime(CLOCK_MONOTONIC, event) == 0 ? KC_OP_OK : KC_OP_DEVICE;
}

static double event_elapsed_us(void *begin, void *end)
{
  const struct timespec *a = begin, *b = end;
  return 1e6 * (double)(b->tv_sec - a->tv_sec) + 1e-3 * (double)(b->tv_nsec - a->tv_nsec);
}

/* ---- the rest ---- */

static enum kc_op_status flush_l2(void *context)
{
  (void)context;
  return KC_OP_OK;
}

static enum kc_op_status read_stream(void *context, const void *from, uint64_t bytes,
                                     uint32_t *sum)
{
  return kc_gpu_read_stream(device_of(context)->emu, from, bytes, sum);
}

/* Nothing waits here: emulated time is nobody's. */
static enum kc_op_status delay(void *context, uint64_t nanoseconds)
{
  (void)context, (void)nanoseconds;
  return KC_OP_OK;
}

static void fragment_bytes(const struct kc_weight *weight, uint64_t *data, uint64_t *scale)
{
  *data = kc_int4_fragment_data_bytes(weight);
  *scale = kc_int4_fragment_scale_bytes(weight);
}

static enum kc_op_status synthesise(void *context, const struct kc_op_synthesise *op)
{
  return kc_gpu_synthesise(device_of(context)->emu, op);
}

static enum kc_op_status quantise_weight(void *context, const struct kc_op_quantise_weight *op)
{
  return kc_gpu_quantise_weight(device_of(context)->emu, op);
}

static const struct kc_ops emu_device_ops = {
    .name = "emu",
#define ENTRY(name) .name = op_##name,
    OPERATIONS(ENTRY)
#undef ENTRY
    .gemm_workspace_bytes = workspace_bytes,
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .fill = fill,
    .synchronise = synchronise,
    .error = error,
};

const struct kc_module *kc_module_table(void)
{
  static const struct kc_module module = {
      .version = KC_MODULE_VERSION,
      .ops = &emu_device_ops,
      .create = create,
      .destroy = destroy,
      .info = info,
      .capture_begin = capture_begin,
      .capture_end = capture_end,
      .graph_launch = graph_launch,
      .graph_destroy = graph_destroy,
      .pinned_allocate = pinned_allocate,
      .pinned_release = pinned_release,
      .send = copy,
      .fetch = copy,
      .event_create = event_create,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_elapsed_us = event_elapsed_us,
      .flush_l2 = flush_l2,
      .read_stream = read_stream,
      .delay = delay,
      .fragment_bytes = fragment_bytes,
      .fragment_pack = kc_int4_fragment_pack,
      .synthesise = synthesise,
      .quantise_weight = quantise_weight,
  };
  return &module;
}
