/* Shared memory of the emulator: regions, who touched what, and copies under way.
 *
 *   shared   | gap | region 0 | gap | region 1 | gap | ...     0xff where nothing was written
 *   grain[]  one for two bytes: last writer, last reader, and how many barriers there had been
 *            then ("epoch")
 *
 * Two accesses to the same grain, at least one a write, by different threads, need a barrier
 * between them: of the block, or of the warp when both belong to one. The check does not depend on
 * the order in which the threads happened to run, beyond which of the two came last.
 *
 * cp.async: the copy is queued, and the grains are marked as in flight until the issuing thread
 * waits for the copy's group; then it counts as a write by that thread. Source bytes are read as
 * late as that, too.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/emu/emu_internal.h"

enum { ARENA_BYTES = KC_EMU_SHARED_BYTES_MAX + (REGIONS_MAX + 1) * GAP_BYTES, REGION_ALIGN = 128 };

bool kc_emu_shared_create(struct kc_emu *emu)
{
  emu->shared = aligned_alloc(REGION_ALIGN, (ARENA_BYTES + REGION_ALIGN - 1) / REGION_ALIGN *
                                                REGION_ALIGN);
  emu->grain = calloc(ARENA_BYTES / GRAIN_BYTES, sizeof *emu->grain);
  return emu->shared != NULL && emu->grain != NULL;
}

void kc_emu_shared_destroy(struct kc_emu *emu)
{
  free(emu->shared);
  free(emu->grain);
}

void kc_emu_shared_begin(struct kc_emu *emu)
{
  emu->region_count = 0;
  emu->shared_used = 0;
  emu->shared_top = GAP_BYTES;
}

/* A launch that was stopped leaves copies under way; their marks must not outlive it. */
void kc_emu_shared_end(struct kc_emu *emu)
{
  if (emu->misuse[0] == '\0') return;
  for (size_t i = 0; i < ARENA_BYTES / GRAIN_BYTES; ++i) emu->grain[i].in_flight = 0;
}

void *kc_emu_shared_take(size_t bytes, int line)
{
  struct kc_emu *emu = kc_emu_running();
  struct kc_emu_thread *thread = &emu->thread[emu->running];
  const unsigned index = thread->regions_taken++;
  if (index < emu->region_count) {
    const struct kc_emu_region *region = &emu->region[index];
    if (region->bytes != bytes) {
      kc_emu_fail(emu, line, "shared region %u is %zu bytes here, %zu in another thread", index,
                  bytes, region->bytes);
    }
    return emu->shared + region->offset;
  }
  const size_t padded = (bytes + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
  if (index == REGIONS_MAX || emu->shared_used + padded > emu->shared_limit) {
    kc_emu_fail(emu, line, "shared region %u of %zu bytes: %zu of %zu launched with are taken",
                index, bytes, emu->shared_used, emu->shared_limit);
  }
  emu->region[index] = (struct kc_emu_region){emu->shared_top, bytes};
  emu->region_count = index + 1;
  emu->shared_used += padded;
  emu->shared_top += padded + GAP_BYTES;
  memset(emu->shared + emu->region[index].offset, 0xff, padded);
  return emu->shared + emu->region[index].offset;
}

/* The offset of [address, address + bytes), which must lie in one region. */
static size_t offset_of(struct kc_emu *emu, const void *address, size_t bytes, size_t align,
                        int line)
{
  const uintptr_t at = (uintptr_t)address, base = (uintptr_t)emu->shared;
  if (at % align != 0) kc_emu_fail(emu, line, "misaligned: shared memory, %zu bytes", align);
  for (unsigned i = 0; at >= base && i < emu->region_count; ++i) {
    const struct kc_emu_region *region = &emu->region[i];
    if (at - base < region->offset || at - base + bytes > region->offset + region->bytes) continue;
    return at - base;
  }
  kc_emu_fail(emu, line, "out of bounds: %zu bytes of shared memory", bytes);
}

static uint64_t warp_epoch(const struct kc_emu *emu, unsigned thread)
{
  return emu->warp[thread / KC_EMU_LANES].epoch;
}

/* True when nothing orders an access of `other` (counted from 1), made at these epochs, before one
 * that the running thread makes now. */
static bool unordered(const struct kc_emu *emu, unsigned other, uint64_t epoch, uint64_t at_warp)
{
  const unsigned me = emu->running;
  if (other == 0 || other == me + 1 || epoch != emu->epoch) return false;
  const bool same_warp = (other - 1) / KC_EMU_LANES == me / KC_EMU_LANES;
  return !same_warp || at_warp == warp_epoch(emu, me);
}

static void check_write(struct kc_emu *emu, const struct kc_emu_grain *grain, int line)
{
  const unsigned me = emu->running;
  if (grain->in_flight != 0) {
    kc_emu_fail(emu, line, "overwrites a copy that thread %u has under way", grain->in_flight - 1u);
  }
  if (unordered(emu, grain->writer, grain->write_epoch, grain->write_warp_epoch)) {
    kc_emu_fail(emu, line, "race: thread %u wrote here with no barrier since", grain->writer - 1u);
  }
  if (grain->reader == 0 || grain->read_epoch != emu->epoch) return;
  const bool same_warp = (grain->reader - 1u) / KC_EMU_LANES == me / KC_EMU_LANES;
  const bool own = grain->reader == me + 1 && !grain->many_lanes;
  const bool ordered = same_warp && (own || grain->read_warp_epoch != warp_epoch(emu, me));
  if (grain->many_warps || !ordered) {
    kc_emu_fail(emu, line, "race: thread %u read here with no barrier since", grain->reader - 1u);
  }
}

static void note_write(struct kc_emu *emu, struct kc_emu_grain *grain)
{
  grain->writer = (uint16_t)(emu->running + 1);
  grain->write_epoch = emu->epoch;
  grain->write_warp_epoch = warp_epoch(emu, emu->running);
  grain->reader = 0;
}

void kc_emu_shared_write(void *address, size_t bytes, size_t align, int line)
{
  struct kc_emu *emu = kc_emu_running();
  const size_t offset = offset_of(emu, address, bytes, align, line);
  for (size_t i = offset / GRAIN_BYTES; i < (offset + bytes) / GRAIN_BYTES; ++i) {
    check_write(emu, &emu->grain[i], line);
    note_write(emu, &emu->grain[i]);
  }
}

static void note_read(struct kc_emu *emu, struct kc_emu_grain *grain)
{
  const unsigned me = emu->running + 1;
  const uint64_t now = warp_epoch(emu, emu->running);
  if (grain->reader == me && grain->read_epoch == emu->epoch) {
    grain->read_warp_epoch = now;
    return;
  }
  if (grain->reader == 0 || grain->read_epoch != emu->epoch) {
    grain->many_lanes = grain->many_warps = false;
  } else if ((grain->reader - 1u) / KC_EMU_LANES != (me - 1) / KC_EMU_LANES) {
    grain->many_warps = true;
  } else if (grain->read_warp_epoch == now) {
    grain->many_lanes = true;
  } else {
    grain->many_lanes = false;
  }
  grain->reader = (uint16_t)me;
  grain->read_epoch = emu->epoch;
  grain->read_warp_epoch = now;
}

void kc_emu_shared_read(const void *address, size_t bytes, size_t align, int line)
{
  struct kc_emu *emu = kc_emu_running();
  const size_t offset = offset_of(emu, address, bytes, align, line);
  for (size_t i = offset / GRAIN_BYTES; i < (offset + bytes) / GRAIN_BYTES; ++i) {
    struct kc_emu_grain *grain = &emu->grain[i];
    if (grain->in_flight != 0) {
      kc_emu_fail(emu, line, "reads a copy of thread %u before it was waited for",
                  grain->in_flight - 1u);
    }
    if (grain->writer == 0 || grain->write_epoch < emu->first_epoch) {
      kc_emu_fail(emu, line, "reads shared memory that nobody wrote");
    }
    if (unordered(emu, grain->writer, grain->write_epoch, grain->write_warp_epoch)) {
      kc_emu_fail(emu, line, "race: thread %u wrote here with no barrier since",
                  grain->writer - 1u);
    }
    note_read(emu, grain);
  }
}

void kc_emu_copy(void *destination, const void *source, size_t source_bytes, size_t bytes,
                 int line)
{
  struct kc_emu *emu = kc_emu_running();
  struct kc_emu_thread *thread = &emu->thread[emu->running];
  const size_t offset = offset_of(emu, destination, bytes, bytes, line);
  if ((uintptr_t)source % bytes != 0) kc_emu_fail(emu, line, "misaligned: source of a copy");
  if (thread->flight_count == thread->flight_capacity) {
    const unsigned capacity = thread->flight_capacity == 0 ? 64 : 2 * thread->flight_capacity;
    void *grown = realloc(thread->flight, capacity * sizeof *thread->flight);
    if (grown == NULL) kc_emu_fail(emu, line, "no memory for copies");
    thread->flight = grown;
    thread->flight_capacity = capacity;
  }
  for (size_t i = offset / GRAIN_BYTES; i < (offset + bytes) / GRAIN_BYTES; ++i) {
    check_write(emu, &emu->grain[i], line);
    emu->grain[i].in_flight = (uint16_t)(emu->running + 1);
  }
  thread->flight[thread->flight_count++] =
      (struct kc_emu_flight){destination, source, source_bytes, bytes, thread->groups};
  emu->counts.copies += 1;
}

void kc_emu_copy_commit(void)
{
  struct kc_emu *emu = kc_emu_running();
  emu->thread[emu->running].groups += 1;
}

static void land(struct kc_emu *emu, const struct kc_emu_flight *flight)
{
  const size_t offset = (size_t)((unsigned char *)flight->destination - emu->shared);
  memset(flight->destination, 0, flight->bytes);
  memcpy(flight->destination, flight->source, flight->source_bytes);
  for (size_t i = offset / GRAIN_BYTES; i < (offset + flight->bytes) / GRAIN_BYTES; ++i) {
    emu->grain[i].in_flight = 0;
    note_write(emu, &emu->grain[i]);
  }
}

void kc_emu_copy_wait(unsigned pending)
{
  struct kc_emu *emu = kc_emu_running();
  struct kc_emu_thread *thread = &emu->thread[emu->running];
  unsigned kept = 0;
  for (unsigned i = 0; i < thread->flight_count; ++i) {
    const struct kc_emu_flight flight = thread->flight[i];
    if (flight.group + pending < thread->groups) land(emu, &flight);
    else thread->flight[kept++] = flight;
  }
  thread->flight_count = kept;
}

void kc_emu_check_aligned(const void *address, size_t align, int line)
{
  struct kc_emu *emu = kc_emu_running();
  if ((uintptr_t)address % align == 0) return;
  kc_emu_fail(emu, line, "misaligned: global memory, %zu bytes", align);
}
