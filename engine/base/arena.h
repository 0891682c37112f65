/* One block of address space per run; bump allocation; freed all at once.
 *
 * Memory comes from mmap, so untouched parts cost nothing and everything starts as zero bytes.
 * The step loop never allocates: whatever it needs is carved out before the first step.
 *
 *   | used ................ | free (reserved address space, untouched) |
 *   base                 base+used                              base+capacity
 */
#ifndef KC_ENGINE_BASE_ARENA_H
#define KC_ENGINE_BASE_ARENA_H

#include "engine/base/diag.h"

struct kc_arena {
  unsigned char *base; /* NULL when not initialised */
  size_t capacity_bytes;
  size_t used_bytes;
};

/* Largest arena the program will reserve (address space, not memory): 64 GiB. */
#define KC_ARENA_BYTES_MAX ((size_t)64 << 30)

/* Reserves `capacity_bytes` of address space (> 0). Errors: KC_ERR_LIMIT above the ceiling,
 * KC_ERR_MEMORY when the system refuses. */
enum kc_err kc_arena_init(struct kc_arena *arena, size_t capacity_bytes, struct kc_diag *diag);
void kc_arena_deinit(struct kc_arena *arena);

/* `count * size` zeroed bytes, aligned to 64. NULL only when the arena is too small or the product
 * overflows; callers size arenas up front and treat NULL as KC_ERR_MEMORY. O(1). */
void *kc_arena_take(struct kc_arena *arena, size_t count, size_t size);

/* Bytes that kc_arena_take(count, size) consumes, alignment included; SIZE_MAX on overflow. */
size_t kc_arena_need(size_t count, size_t size);

#endif
