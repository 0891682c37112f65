/* Pages and their tags: the batched check, and the writes that carry (page, tag).
 *
 *   check   grid (rows, slices): a slice of a slot's entries to a block; a thread compares one
 *           entry, a warp votes, and only what is bad costs an atomic. It reads the very table that
 *           attention reads afterwards in the same stream, so nothing can come in between.
 *   write   a block a token: thread 0 compares the entry and decides, the block stores 8 elements a
 *           thread
 *
 * The verdict of a slot is an atomic minimum, so its value does not depend on the order of blocks.
 * Events take their numbers from the counter; which event is where in the ring is free.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/ops/op_check.h"

enum : unsigned {
  CHECK_THREADS = 256,
  CHECK_SLICES_MAX = 16,
  WRITE_THREADS = 128,
  VECTOR = 8,
  GROUP = 128 /* elements of a latent that share a scale */
};

KC_DEVICE bool entry_good(const struct kc_tag_state &integrity, struct kc_page_ref ref)
{
  return ref.page < integrity.pages && ref.tag != 0 && integrity.tag[ref.page] == ref.tag;
}

/* Notes a bad entry: an event, and the slot's verdict. */
KC_DEVICE void refuse(const struct kc_tag_state &integrity, uint32_t slot, uint32_t index,
                      struct kc_page_ref ref, enum kc_tag_source source)
{
  const uint64_t number = kc_atomic_add(&integrity.counter[KC_COUNT_EVENTS], 1);
  if (number < integrity.ring_capacity) {
    struct kc_tag_event *event = &integrity.ring[number];
    event->step = integrity.step;
    event->slot = slot;
    event->index = index;
    event->page = ref.page;
    event->want = ref.tag;
    event->got = ref.page < integrity.pages ? integrity.tag[ref.page] : 0;
    event->source = (uint32_t)source;
  }
  kc_atomic_min(&integrity.verdict[slot], index);
}

/* ---- check ---- */

/* A sound entry may still be in the wrong place. */
KC_DEVICE bool place_good(const struct kc_op_tag_check &op, uint32_t slot, uint32_t index,
                          uint32_t page)
{
  if (op.place == nullptr || op.place[page] == 0) return true;
  return op.place[page] == KC_PAGE_PLACE(slot, index);
}

/* Adds what the block compared to KC_COUNT_ENTRIES: counted by those who compared. */
KC_DEVICE void count_entries(const struct kc_tag_state &integrity, unsigned compared,
                             const kc_tile<uint32_t> &scratch)
{
  if (kc_lane() == 0) scratch.set(kc_warp_index(), compared);
  kc_sync_block();
  if (threadIdx.x != 0) return;
  uint64_t sum = 0;
  for (unsigned i = 0; i < CHECK_THREADS / KC_LANES; ++i) sum += scratch.get(i);
  if (sum > 0) (void)kc_atomic_add(&integrity.counter[KC_COUNT_ENTRIES], sum);
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    (void)kc_atomic_add(&integrity.counter[KC_COUNT_CHECKS], 1);
  }
}

__global__ void KC_BOUNDS(CHECK_THREADS, 4) tag_check_kernel(KC_PARAMETER struct kc_op_tag_check op)
{
  kc_shared shared;
  const kc_tile<uint32_t> scratch = shared.take<uint32_t>(CHECK_THREADS / KC_LANES);
  const uint32_t slot = blockIdx.x < op.rows ? op.slot[blockIdx.x] : KC_NO_SLOT;
  const uint32_t entries = slot == KC_NO_SLOT ? 0 : op.entries[blockIdx.x];
  const struct kc_page_ref *row =
      op.table.entry + (slot == KC_NO_SLOT ? 0 : (uint64_t)slot * op.table.stride);
  const unsigned step = gridDim.y * CHECK_THREADS;
  unsigned compared = 0;
  for (unsigned first = blockIdx.y * CHECK_THREADS; first < entries; first += step) {
    const unsigned i = first + threadIdx.x;
    const bool mine = i < entries;
    if (mine) {
      const struct kc_page_ref ref = row[i];
      if (!entry_good(op.integrity, ref)) {
        refuse(op.integrity, slot, i, ref, KC_TAG_CHECK);
      } else if (!place_good(op, slot, i, ref.page)) {
        refuse(op.integrity, slot, i, ref, KC_TAG_PLACE);
      }
    }
    compared += (unsigned)kc_popcount(kc_ballot(mine));
  }
  count_entries(op.integrity, compared, scratch);
}

enum kc_op_status kc_gpu_tag_check(void *context, const struct kc_op_tag_check *op)
{
  if (!kc_op_tag_check_valid(op)) return KC_OP_BAD;
  const unsigned rows = op->rows > 0 ? op->rows : 1; /* a check of nothing is counted, too */
  unsigned slices = kc_ceil_div(op->table.stride, CHECK_THREADS);
  if (slices > CHECK_SLICES_MAX) slices = CHECK_SLICES_MAX;
  return KC_LAUNCH(context, tag_check_kernel, dim3(rows, slices), dim3(CHECK_THREADS),
                   kc_tile_bytes<uint32_t>(CHECK_THREADS / KC_LANES), *op);
}

/* ---- write ---- */

/* Eight elements in a pool's format, at element `index` of the tile. */
KC_DEVICE void store8(uint8_t *tile, enum kc_kv_format format, uint64_t index, uint4 packed,
                      float scale)
{
  if (format == KC_KV_BF16) {
    kc_store16(tile + 2 * index, packed);
    return;
  }
  float value[VECTOR];
  uint32_t code[2] = {0, 0};
  kc_unpack8(value, packed);
  KC_UNROLL
  for (unsigned i = 0; i < VECTOR; ++i) {
    code[i / 4] |= (uint32_t)kc_to_e4m3(value[i] / scale) << (8 * (i % 4));
  }
  kc_store4(tile + index, code[0]);
  kc_store4(tile + index + 4, code[1]);
}

KC_DEVICE void write_heads(const struct kc_kv_layer &layer, uint8_t *page, unsigned offset,
                           enum kc_kv_format format, const float *scales, const uint16_t *x)
{
  const unsigned width = layer.kv_heads * layer.head_dim;
  for (unsigned i = threadIdx.x * VECTOR; i < width; i += WRITE_THREADS * VECTOR) {
    const unsigned head = i / layer.head_dim;
    const uint64_t at = ((uint64_t)head * layer.page_tokens + offset) * layer.head_dim;
    store8(page, format, at + i % layer.head_dim, kc_load16(x + i),
           scales == nullptr ? 1.0f : scales[head]);
  }
}

/* A warp a group: four elements a lane. */
KC_DEVICE void write_group(uint8_t *record, unsigned latent, unsigned group, const uint16_t *x)
{
  const unsigned first = group * GROUP + kc_lane() * 4;
  const uint32_t word[2] = {kc_load4(x + first), kc_load4(x + first + 2)};
  float value[4], most = 0.0f;
  uint32_t codes = 0;
  KC_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    value[i] = kc_bf16_decode((uint16_t)(word[i / 2] >> (16 * (i % 2))));
    most = kc_max(most, fabsf(value[i]));
  }
  const float scale = kc_e4m3_group_scale(kc_warp_max(most));
  KC_UNROLL
  for (unsigned i = 0; i < 4; ++i) codes |= (uint32_t)kc_to_e4m3(value[i] / scale) << (8 * i);
  kc_store4(record + first, codes);
  if (kc_lane() == 0) kc_store4(record + latent + 4 * group, kc_f32_bits(scale));
}

/* Codes, scales, rope elements, zeros up to 16 bytes. */
KC_DEVICE void write_fp8_record(const struct kc_kv_layer &layer, uint8_t *record,
                                unsigned record_bytes, const uint16_t *x)
{
  const unsigned groups = layer.latent / GROUP, rope_at = layer.latent + 4 * groups;
  for (unsigned group = kc_warp_index(); group < groups; group += WRITE_THREADS / KC_LANES) {
    write_group(record, layer.latent, group, x);
  }
  for (unsigned i = threadIdx.x; i < layer.rope / 2; i += WRITE_THREADS) {
    kc_store4(record + rope_at + 4 * i, kc_load4(x + layer.latent + 2 * i));
  }
  const unsigned end = rope_at + 2 * layer.rope;
  const unsigned i = end + 4 * threadIdx.x;
  if (i < record_bytes) kc_store4(record + i, 0);
}

KC_DEVICE void write_token(const struct kc_op_kv_write &op, unsigned row, uint32_t page,
                           unsigned record_bytes)
{
  const struct kc_kv_layer &layer = op.layer;
  const unsigned offset = (unsigned)op.position[row] % layer.page_tokens;
  const uint16_t *k = op.k + row * op.k_stride;
  uint8_t *k_page = layer.k + page * layer.k_page_bytes;
  if (layer.kind == KC_PAGED_GQA) {
    write_heads(layer, k_page, offset, layer.k_format, layer.k_scale, k);
    write_heads(layer, layer.v + page * layer.v_page_bytes, offset, layer.v_format, layer.v_scale,
                op.v + row * op.v_stride);
    return;
  }
  uint8_t *record = k_page + (uint64_t)offset * record_bytes;
  if (layer.k_format != KC_KV_BF16) {
    write_fp8_record(layer, record, record_bytes, k);
    return;
  }
  for (unsigned i = threadIdx.x * VECTOR; i < layer.latent + layer.rope;
       i += WRITE_THREADS * VECTOR) {
    kc_store16(record + 2 * i, kc_load16(k + i));
  }
}

/* By one thread: whether the token may be written; a refusal is noted. */
KC_DEVICE bool write_allowed(const struct kc_op_kv_write &op, uint32_t slot, uint32_t index,
                             struct kc_page_ref ref)
{
  const struct kc_tag_state &integrity = op.integrity;
  if (integrity.tag == nullptr) return ref.page < op.layer.pages;
  const bool clear = integrity.verdict[slot] == KC_VERDICT_CLEAR;
  const bool allowed = clear && entry_good(integrity, ref);
  if (clear && !allowed) refuse(integrity, slot, index, ref, KC_TAG_WRITE);
  (void)kc_atomic_add(
      &integrity.counter[allowed ? KC_COUNT_WRITES : KC_COUNT_WRITES_REFUSED], 1);
  return allowed;
}

__global__ void KC_BOUNDS(WRITE_THREADS, 4)
    kv_write_kernel(KC_PARAMETER struct kc_op_kv_write op, unsigned record_bytes)
{
  kc_shared shared;
  const kc_tile<uint32_t> allowed = shared.take<uint32_t>(1);
  const unsigned row = blockIdx.x;
  const uint32_t slot = op.slot[row];
  const int32_t position = op.position[row];
  if (slot == KC_NO_SLOT || position < 0) return;
  const uint32_t index = (uint32_t)position / op.layer.page_tokens;
  if (index >= op.table.stride) return;
  const struct kc_page_ref ref = op.table.entry[(uint64_t)slot * op.table.stride + index];
  if (threadIdx.x == 0) allowed.set(0, write_allowed(op, slot, index, ref));
  kc_sync_block();
  if (allowed.get(0) != 0) write_token(op, row, ref.page, record_bytes);
}

enum kc_op_status kc_gpu_kv_write(void *context, const struct kc_op_kv_write *op)
{
  if (!kc_op_kv_write_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  const bool mla = op->layer.kind == KC_PAGED_MLA;
  const unsigned record_bytes = mla ? (unsigned)kc_mla_record_bytes(&op->layer) : 0;
  return KC_LAUNCH(context, kv_write_kernel, dim3(op->rows), dim3(WRITE_THREADS),
                   kc_tile_bytes<uint32_t>(1), *op, record_bytes);
}
