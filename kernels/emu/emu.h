/* Runs CUDA kernels on the CPU, for tests of their logic: indexing, tails, page walks, splits and
 * merges, masks, tags, synchronisation. Speed, rounding inside tensor cores, weak memory order and
 * bank conflicts are not seen here, and nothing measured here says anything about a GPU.
 *
 *   launch    the blocks of a grid, one after another, in an order drawn from the seed
 *   block     a fibre per thread; which ready fibre runs next is drawn from the seed
 *   warp      shuffles, votes, ldmatrix and mma wait until all 32 lanes have come
 *   shared    an arena of regions with gaps; every two bytes remember who wrote and read them last
 *   cp.async  nothing lands before the wait that must make it land
 *
 * A misuse stops the launch at once and is told by kc_emu_misuse: barrier divergence and deadlock,
 * shared memory out of bounds, read before written, or touched by two threads with no barrier
 * between; a copy read before its wait or never waited for; misaligned vectors; lanes that
 * disagree in a warp operation. Uninitialised shared memory holds 0xff bytes, a NaN in every
 * floating format.
 *
 * Sequential blocks cannot wait for each other: no grid barriers, no locks between blocks. "The
 * last block to finish reduces" works.
 *
 * Threads: an emulator belongs to one thread of the host.
 */
#ifndef KC_KERNELS_EMU_EMU_H
#define KC_KERNELS_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kc_emu;

struct kc_emu_dim {
  unsigned x, y, z;
};

struct kc_emu_counts {
  uint64_t launches, blocks, switches, barriers, warp_operations, products, copies;
};

enum { KC_EMU_THREADS_MAX = 1024, KC_EMU_LANES = 32, KC_EMU_SHARED_BYTES_MAX = 227 * 1024 };

/* Seed 0 runs blocks and threads in order; any other seed in an order of its own. NULL when there
 * is no memory. */
struct kc_emu *kc_emu_create(uint64_t seed);
void kc_emu_destroy(struct kc_emu *emu);

/* The first misuse since kc_emu_create, or NULL. After one, launches do nothing. */
const char *kc_emu_misuse(const struct kc_emu *emu);
void kc_emu_read_counts(const struct kc_emu *emu, struct kc_emu_counts *counts);

/* Calls body(argument) once for every thread of the grid. `shared_bytes` is what the blocks may
 * carve out of shared memory. False after a misuse. */
bool kc_emu_launch(struct kc_emu *emu, const char *kernel, struct kc_emu_dim grid,
                   struct kc_emu_dim block, size_t shared_bytes, void (*body)(void *),
                   void *argument);

/* What follows is called by running kernels, through cuda_words.h. `line` is for messages. */

enum kc_emu_operation {
  KC_EMU_NONE,
  KC_EMU_SYNC_WARP,
  KC_EMU_SHUFFLE,
  KC_EMU_BALLOT,
  KC_EMU_LDMATRIX,
  KC_EMU_LDMATRIX_TRANSPOSED,
  KC_EMU_MMA_BF16,
  KC_EMU_MMA_F16
};

struct kc_emu_dim kc_emu_thread_index(void);
struct kc_emu_dim kc_emu_block_index(void);
struct kc_emu_dim kc_emu_block_size(void);
struct kc_emu_dim kc_emu_grid_size(void);

void kc_emu_barrier(int line);

/* Lets other threads run: before an atomic, for example. */
void kc_emu_yield(void);

/* A warp operation: every lane of the warp must come, with the same operation and line. Operands
 * and results as in emu_warp.c. */
void kc_emu_warp(enum kc_emu_operation operation, const void *operands, size_t operand_bytes,
                 void *result, size_t result_bytes, int line);

/* The next region of the block's shared memory: every thread must ask for the same regions in the
 * same order. Aligned to 128 bytes. */
void *kc_emu_shared_take(size_t bytes, int line);

/* Says that the thread reads or writes `bytes` at `address`, which must lie inside one region and
 * be a multiple of `align`. Bytes and addresses are even: the memory of the emulator has a grain of
 * two bytes. */
void kc_emu_shared_read(const void *address, size_t bytes, size_t align, int line);
void kc_emu_shared_write(void *address, size_t bytes, size_t align, int line);

/* cp.async of `bytes` (4 or 16) to shared memory: the first `source_bytes` of them from `source`,
 * zeros after those. Then commit; wait until at most `pending` of the newest groups are under
 * way. */
void kc_emu_copy(void *destination, const void *source, size_t source_bytes, size_t bytes,
                 int line);
void kc_emu_copy_commit(void);
void kc_emu_copy_wait(unsigned pending);

/* Global memory, for vector access. */
void kc_emu_check_aligned(const void *address, size_t align, int line);

#ifdef __cplusplus
}
#endif

#endif
