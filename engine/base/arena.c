/* The arena: one mmap per run, handed out front to back, given back as a whole.
 *
 *   base          base+used                      base+capacity
 *    | taken | taken |  free: reserved, zero, not yet backed by memory  |
 *    ^ every piece starts at a multiple of 64 bytes (a cache line)
 *
 * The struct kc_arena owns the mapping; takers borrow until kc_arena_deinit. MAP_NORESERVE lets
 * a run reserve for its worst case: the kernel backs a page when it is first written. Anonymous
 * pages are zero, so nothing is cleared here, and no piece is ever handed out twice. */
#include "engine/base/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/check.h"

enum { ALIGN_BYTES = 64 };

size_t kc_arena_need(size_t count, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return SIZE_MAX;
  if (bytes > SIZE_MAX - (ALIGN_BYTES - 1)) return SIZE_MAX;
  return (bytes + (ALIGN_BYTES - 1)) & ~(size_t)(ALIGN_BYTES - 1);
}

enum kc_err kc_arena_init(struct kc_arena *arena, size_t capacity_bytes, struct kc_diag *diag)
{
  KC_ASSERT(arena != NULL);
  KC_ASSERT(capacity_bytes > 0);
  *arena = (struct kc_arena){0};
  if (capacity_bytes > KC_ARENA_BYTES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT,
                   "the run needs %zu bytes of state, more than KC_ARENA_BYTES_MAX (%zu bytes); "
                   "use fewer pages, a larger page size, fewer requests or fewer replicas",
                   capacity_bytes, KC_ARENA_BYTES_MAX);
  }
  const size_t capacity = kc_arena_need(1, capacity_bytes);
  void *base = mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return kc_fail(diag, KC_ERR_MEMORY,
                   "cannot reserve %zu bytes of address space (%s); raise the limit (ulimit -v) or "
                   "make the run smaller",
                   capacity, strerror(errno));
  }
  arena->base = base;
  arena->capacity_bytes = capacity;
  return KC_OK;
}

void kc_arena_deinit(struct kc_arena *arena)
{
  KC_ASSERT(arena != NULL);
  KC_ASSERT(arena->used_bytes <= arena->capacity_bytes);
  if (arena->base != NULL) {
    const int status = munmap(arena->base, arena->capacity_bytes);
    KC_ASSERT(status == 0); /* fails only for a range that we did not map */
  }
  *arena = (struct kc_arena){0};
}

void *kc_arena_take(struct kc_arena *arena, size_t count, size_t size)
{
  KC_ASSERT(arena != NULL && arena->base != NULL);
  KC_ASSERT(arena->used_bytes <= arena->capacity_bytes);
  const size_t bytes = kc_arena_need(count, size);
  if (bytes > arena->capacity_bytes - arena->used_bytes) return NULL;
  void *piece = arena->base + arena->used_bytes;
  arena->used_bytes += bytes;
  return piece;
}
