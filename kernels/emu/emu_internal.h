/* What the files of the emulator share. */
#ifndef KC_KERNELS_EMU_EMU_INTERNAL_H
#define KC_KERNELS_EMU_EMU_INTERNAL_H

#include "kernels/emu/emu.h"
#include "kernels/emu/fibre.h"

enum {
  WARPS_MAX = KC_EMU_THREADS_MAX / KC_EMU_LANES,
  OPERAND_BYTES_MAX = 40, /* mma: 4 + 2 registers and 4 floats */
  RESULT_BYTES_MAX = 16,
  REGIONS_MAX = 32,
  GAP_BYTES = 128, /* between the regions of shared memory */
  GRAIN_BYTES = 2,
  READERS_NONE = 0,
};

enum kc_emu_state { EMU_READY, EMU_AT_BARRIER, EMU_IN_WARP, EMU_DONE };

/* One cp.async on its way. */
struct kc_emu_flight {
  void *destination;
  const void *source;
  size_t source_bytes, bytes;
  uint64_t group;
};

struct kc_emu_thread {
  struct kc_fibre fibre;
  enum kc_emu_state state;
  int line;                /* where it waits */
  unsigned ready_position; /* in emu->ready, while READY and not running */
  unsigned regions_taken;
  uint64_t groups; /* committed so far */
  struct kc_emu_flight *flight;
  unsigned flight_count, flight_capacity;
};

struct kc_emu_warp {
  enum kc_emu_operation operation;
  int line;
  uint32_t arrived; /* bit per lane */
  uint64_t epoch;   /* grows at every __syncwarp */
  unsigned char operand[KC_EMU_LANES][OPERAND_BYTES_MAX];
  unsigned char result[KC_EMU_LANES][RESULT_BYTES_MAX];
};

/* Who touched two bytes of shared memory last. Epochs never repeat within an emulator, so nothing
 * needs to be cleared between blocks. Threads are counted from 1; 0 is nobody. */
struct kc_emu_grain {
  uint64_t write_epoch, write_warp_epoch; /* of the block, of the writer's warp */
  uint64_t read_epoch, read_warp_epoch;
  uint16_t writer, reader;
  uint16_t in_flight;       /* thread whose cp.async will write here */
  bool many_lanes;          /* other lanes of the reader's warp read in read_epoch too */
  bool many_warps;
};

struct kc_emu_region {
  size_t offset, bytes;
};

struct kc_emu {
  uint64_t seed, random;
  char misuse[256];
  struct kc_emu_counts counts;

  const char *kernel;
  struct kc_emu_dim grid, block, at; /* `at`: the block that runs */
  void (*body)(void *);
  void *argument;

  void *stacks;
  unsigned stacks_open;
  struct kc_fibre host;
  struct kc_emu_thread thread[KC_EMU_THREADS_MAX];
  struct kc_emu_warp warp[WARPS_MAX];
  unsigned thread_count, done_count, barrier_count, running;
  unsigned ready[KC_EMU_THREADS_MAX], ready_count;
  uint64_t epoch, first_epoch; /* barriers passed since the beginning; at the start of the block */

  unsigned char *shared;
  struct kc_emu_grain *grain;
  struct kc_emu_region region[REGIONS_MAX];
  unsigned region_count;
  size_t shared_limit, shared_used, shared_top; /* as on the device; as here, with gaps */
};

/* The emulator whose kernel runs on this thread of the host. */
struct kc_emu *kc_emu_running(void);

/* Notes the misuse and ends the launch; does not return. */
_Noreturn void kc_emu_fail(struct kc_emu *emu, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts a waiting thread among the ready ones. */
void kc_emu_wake(struct kc_emu *emu, unsigned thread);

/* Leaves the running thread for another; the thread is READY or waits. */
void kc_emu_switch(struct kc_emu *emu);

/* The operation of a whole warp: result[] from operand[]. */
void kc_emu_combine(struct kc_emu *emu, struct kc_emu_warp *warp, int line);

bool kc_emu_shared_create(struct kc_emu *emu);
void kc_emu_shared_destroy(struct kc_emu *emu);
void kc_emu_shared_begin(struct kc_emu *emu); /* of a block */
void kc_emu_shared_end(struct kc_emu *emu);

static inline uint32_t kc_emu_draw(struct kc_emu *emu, uint32_t bound)
{
  emu->random ^= emu->random << 13; /* xorshift64: Marsaglia 2003 */
  emu->random ^= emu->random >> 7;
  emu->random ^= emu->random << 17;
  return (uint32_t)(((emu->random >> 32) * bound) >> 32);
}

#endif
