/* The scheduler of the emulator: blocks, threads, barriers.
 *
 *   host --launch--> block --> fibre of a thread --switch--> fibre --> ... --> host
 *                               ready[]: threads that may run; one is drawn, taken out, and runs
 *                               until it waits (barrier, warp operation), yields or ends
 *
 * A thread that waits goes straight to the next one, so a barrier of n threads costs n switches.
 * When nothing is ready and not all are done, the block is stuck, and that is a misuse too.
 *
 * The running emulator is kept in a variable of the host's thread, because threadIdx and its kin
 * take no argument. It is set during a launch only.
 */
#include "kernels/emu/emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/emu/emu_internal.h"

enum { STACK_BYTES = 192 * 1024 };

static _Thread_local struct kc_emu *running;

struct kc_emu *kc_emu_running(void)
{
  return running;
}

struct kc_emu *kc_emu_create(uint64_t seed)
{
  struct kc_emu *emu = calloc(1, sizeof *emu);
  if (emu == NULL) return NULL;
  emu->seed = seed;
  emu->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  emu->epoch = 1;
  emu->stacks = kc_fibre_stacks_create(KC_EMU_THREADS_MAX, STACK_BYTES);
  if (emu->stacks == NULL || !kc_emu_shared_create(emu)) {
    kc_emu_destroy(emu);
    return NULL;
  }
  return emu;
}

void kc_emu_destroy(struct kc_emu *emu)
{
  if (emu == NULL) return;
  if (emu->stacks != NULL) {
    kc_fibre_stacks_destroy(emu->stacks, KC_EMU_THREADS_MAX, STACK_BYTES);
  }
  for (unsigned i = 0; i < KC_EMU_THREADS_MAX; ++i) free(emu->thread[i].flight);
  kc_emu_shared_destroy(emu);
  free(emu);
}

const char *kc_emu_misuse(const struct kc_emu *emu)
{
  return emu->misuse[0] != '\0' ? emu->misuse : NULL;
}

void kc_emu_read_counts(const struct kc_emu *emu, struct kc_emu_counts *counts)
{
  *counts = emu->counts;
}

void kc_emu_fail(struct kc_emu *emu, int line, const char *format, ...)
{
  char what[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  snprintf(emu->misuse, sizeof emu->misuse, "%s, line %d, block (%u, %u, %u), thread %u: %s",
           emu->kernel, line, emu->at.x, emu->at.y, emu->at.z, emu->running, what);
  kc_fibre_switch(&emu->thread[emu->running].fibre, &emu->host, true);
  __builtin_unreachable();
}

void kc_emu_wake(struct kc_emu *emu, unsigned thread)
{
  emu->thread[thread].state = EMU_READY;
  emu->ready[emu->ready_count++] = thread;
}

/* Which ready thread runs next. Now and then the last one to become ready again and again, so that
 * one warp runs far ahead of the others. */
static unsigned draw_ready(struct kc_emu *emu)
{
  if (emu->seed == 0) {
    unsigned first = 0;
    for (unsigned i = 1; i < emu->ready_count; ++i) {
      if (emu->ready[i] < emu->ready[first]) first = i;
    }
    return first;
  }
  if (emu->random >> 61 == 0) {
    (void)kc_emu_draw(emu, 2);
    return emu->ready_count - 1;
  }
  return kc_emu_draw(emu, emu->ready_count);
}

static unsigned take_ready(struct kc_emu *emu)
{
  const unsigned position = draw_ready(emu);
  const unsigned thread = emu->ready[position];
  emu->ready[position] = emu->ready[--emu->ready_count];
  return thread;
}

/* Nothing is ready: says who waits for what. */
static void fail_stuck(struct kc_emu *emu)
{
  unsigned in_warp = 0;
  int barrier_line = 0, warp_line = 0;
  for (unsigned i = 0; i < emu->thread_count; ++i) {
    const struct kc_emu_thread *thread = &emu->thread[i];
    if (thread->state == EMU_AT_BARRIER) barrier_line = thread->line;
    if (thread->state != EMU_IN_WARP) continue;
    in_warp += 1;
    warp_line = thread->line;
  }
  kc_emu_fail(emu, emu->thread[emu->running].line,
              "stuck: %u threads wait at a barrier (line %d), %u in warp operations (line %d), "
              "%u have ended",
              emu->barrier_count, barrier_line, in_warp, warp_line, emu->done_count);
}

void kc_emu_switch(struct kc_emu *emu)
{
  const unsigned from = emu->running;
  const bool done = emu->thread[from].state == EMU_DONE;
  if (emu->ready_count == 0) {
    if (emu->done_count < emu->thread_count) fail_stuck(emu);
    kc_fibre_switch(&emu->thread[from].fibre, &emu->host, true);
  }
  const unsigned to = take_ready(emu);
  emu->counts.switches += 1;
  emu->running = to;
  if (to != from) kc_fibre_switch(&emu->thread[from].fibre, &emu->thread[to].fibre, done);
}

void kc_emu_yield(void)
{
  struct kc_emu *emu = running;
  kc_emu_wake(emu, emu->running);
  kc_emu_switch(emu);
}

void kc_emu_barrier(int line)
{
  struct kc_emu *emu = running;
  struct kc_emu_thread *thread = &emu->thread[emu->running];
  if (emu->done_count > 0) {
    kc_emu_fail(emu, line, "barrier divergence: %u threads of the block have ended",
                emu->done_count);
  }
  for (unsigned i = 0; emu->barrier_count > 0 && i < emu->thread_count; ++i) {
    if (emu->thread[i].state != EMU_AT_BARRIER) continue;
    if (emu->thread[i].line == line) break; /* they have been compared with each other */
    kc_emu_fail(emu, line, "barrier divergence: thread %u waits at the barrier of line %d", i,
                emu->thread[i].line);
  }
  thread->line = line;
  thread->state = EMU_AT_BARRIER;
  if (++emu->barrier_count == emu->thread_count) {
    emu->barrier_count = 0;
    emu->epoch += 1;
    emu->counts.barriers += 1;
    for (unsigned i = 0; i < emu->thread_count; ++i) kc_emu_wake(emu, i);
  }
  kc_emu_switch(emu);
}

void kc_emu_warp(enum kc_emu_operation operation, const void *operands, size_t operand_bytes,
                 void *result, size_t result_bytes, int line)
{
  struct kc_emu *emu = running;
  const unsigned me = emu->running, lane = me % KC_EMU_LANES, first = me - lane;
  struct kc_emu_thread *thread = &emu->thread[me];
  struct kc_emu_warp *warp = &emu->warp[me / KC_EMU_LANES];
  if (warp->arrived != 0 && (warp->operation != operation || warp->line != line)) {
    kc_emu_fail(emu, line, "lanes of one warp disagree: others are at line %d", warp->line);
  }
  warp->operation = operation;
  warp->line = line;
  warp->arrived |= UINT32_C(1) << lane;
  if (operand_bytes > 0) memcpy(warp->operand[lane], operands, operand_bytes);
  thread->line = line;
  thread->state = EMU_IN_WARP;
  if (warp->arrived == UINT32_MAX) {
    kc_emu_combine(emu, warp, line);
    warp->arrived = 0;
    emu->counts.warp_operations += 1;
    for (unsigned i = 0; i < KC_EMU_LANES; ++i) kc_emu_wake(emu, first + i);
  }
  kc_emu_switch(emu);
  if (result_bytes > 0) memcpy(result, warp->result[lane], result_bytes);
}

/* Where every fibre begins. */
static void thread_entry(void)
{
  struct kc_emu *emu = running;
  kc_fibre_entered(&emu->host);
  emu->body(emu->argument);
  struct kc_emu_thread *thread = &emu->thread[emu->running];
  if (thread->flight_count > 0) {
    kc_emu_fail(emu, thread->line, "%u copies are under way at the end", thread->flight_count);
  }
  if (emu->barrier_count > 0) {
    kc_emu_fail(emu, thread->line, "barrier divergence: ended while %u threads wait at a barrier",
                emu->barrier_count);
  }
  thread->state = EMU_DONE;
  emu->done_count += 1;
  kc_emu_switch(emu);
  __builtin_unreachable();
}

static void run_block(struct kc_emu *emu)
{
  emu->done_count = emu->barrier_count = emu->ready_count = 0;
  emu->epoch += 1;
  emu->first_epoch = emu->epoch;
  kc_emu_shared_begin(emu);
  for (unsigned i = 0; i < emu->thread_count; ++i) {
    struct kc_emu_thread *thread = &emu->thread[i];
    kc_fibre_prepare(&thread->fibre, emu->stacks, i, STACK_BYTES, thread_entry);
    thread->line = 0;
    thread->regions_taken = 0;
    thread->groups = 0;
    thread->flight_count = 0;
    kc_emu_wake(emu, i);
  }
  for (unsigned i = 0; i < WARPS_MAX; ++i) {
    emu->warp[i].arrived = 0;
    emu->warp[i].epoch += 1;
  }
  emu->running = take_ready(emu);
  kc_fibre_switch(&emu->host, &emu->thread[emu->running].fibre, false);
  kc_emu_shared_end(emu);
  emu->counts.blocks += 1;
}

static unsigned greatest_divisor(unsigned a, unsigned b)
{
  while (b != 0) {
    const unsigned rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Walks the blocks by a stride that shares no factor with their number, from a drawn start. */
static void run_blocks(struct kc_emu *emu)
{
  const unsigned count = emu->grid.x * emu->grid.y * emu->grid.z;
  unsigned start = 0, stride = 1;
  if (emu->seed != 0 && count > 1) {
    start = kc_emu_draw(emu, count);
    do stride = 1 + kc_emu_draw(emu, count - 1);
    while (greatest_divisor(stride, count) != 1);
  }
  for (unsigned i = 0; i < count && emu->misuse[0] == '\0'; ++i) {
    const unsigned block = (unsigned)((start + (uint64_t)i * stride) % count);
    emu->at.x = block % emu->grid.x;
    emu->at.y = block / emu->grid.x % emu->grid.y;
    emu->at.z = block / emu->grid.x / emu->grid.y;
    run_block(emu);
  }
}

static bool open_stacks(struct kc_emu *emu)
{
  for (; emu->stacks_open < emu->thread_count; emu->stacks_open += 1) {
    if (!kc_fibre_stack_open(emu->stacks, emu->stacks_open, STACK_BYTES)) return false;
  }
  return true;
}

/* What a driver would refuse. */
static const char *refuse(const struct kc_emu *emu, size_t shared_bytes)
{
  if (emu->grid.x * emu->grid.y * emu->grid.z == 0) return "an empty grid";
  if (emu->grid.y > 65535 || emu->grid.z > 65535) return "a grid too large in y or z";
  if (emu->thread_count == 0 || emu->thread_count > KC_EMU_THREADS_MAX) return "a block's size";
  if (emu->thread_count % KC_EMU_LANES != 0) return "a block that ends within a warp";
  if (shared_bytes > KC_EMU_SHARED_BYTES_MAX) return "too much shared memory";
  return NULL;
}

bool kc_emu_launch(struct kc_emu *emu, const char *kernel, struct kc_emu_dim grid,
                   struct kc_emu_dim block, size_t shared_bytes, void (*body)(void *),
                   void *argument)
{
  if (emu->misuse[0] != '\0') return false;
  emu->kernel = kernel;
  emu->grid = grid;
  emu->block = block;
  emu->body = body;
  emu->argument = argument;
  emu->thread_count = block.x * block.y * block.z;
  emu->shared_limit = shared_bytes;
  const char *why = refuse(emu, shared_bytes);
  if (why == NULL && !open_stacks(emu)) why = "no memory for stacks";
  if (why != NULL) {
    snprintf(emu->misuse, sizeof emu->misuse, "%s: launched with %s", kernel, why);
    return false;
  }
  running = emu;
  run_blocks(emu);
  running = NULL;
  emu->counts.launches += 1;
  return emu->misuse[0] == '\0';
}

struct kc_emu_dim kc_emu_thread_index(void)
{
  const unsigned x = running->block.x, y = running->block.y, thread = running->running;
  return (struct kc_emu_dim){thread % x, thread / x % y, thread / x / y};
}

struct kc_emu_dim kc_emu_block_index(void)
{
  return running->at;
}

struct kc_emu_dim kc_emu_block_size(void)
{
  return running->block;
}

struct kc_emu_dim kc_emu_grid_size(void)
{
  return running->grid;
}
