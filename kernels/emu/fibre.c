/* Fibres by hand.
 *
 *   stacks   | guard | stack 0 .......... | guard | stack 1 .......... | ...
 *                      ^ lowest address  ^ top: where the first switch lands
 *
 * A stack that was switched out ends, at its stack pointer, with the saved registers and then the
 * address to return to; a fresh one is written so by kc_fibre_prepare. Registers that a callee may
 * change need no saving, since the switch is a call. Floating point control words are the same in
 * every fibre and are left alone.
 */
#include "kernels/emu/fibre.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define KC_FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KC_FIBRE_ASAN 1
#endif
#endif

#ifdef KC_FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { GUARD_BYTES = 4096 };

/* void kc_fibre_jump(void **save, void *load): pushes the kept registers, stores the stack pointer
 * to *save, loads it from `load`, pops and returns there. */
void kc_fibre_jump(void **save, void *load);

#if defined(__x86_64__)
enum { SAVED_WORDS = 6, FRAME_WORDS = SAVED_WORDS + 2, RETURN_WORD = SAVED_WORDS };
__asm__(".text\n"
        ".globl kc_fibre_jump\n"
        ".type kc_fibre_jump, @function\n"
        "kc_fibre_jump:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size kc_fibre_jump, .-kc_fibre_jump\n");
#elif defined(__aarch64__)
enum { SAVED_WORDS = 20, FRAME_WORDS = SAVED_WORDS, RETURN_WORD = 11 };
__asm__(".text\n"
        ".globl kc_fibre_jump\n"
        ".type kc_fibre_jump, %function\n"
        "kc_fibre_jump:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size kc_fibre_jump, .-kc_fibre_jump\n");
#else
#error "fibres need a switch for this processor: see kc_fibre_jump"
#endif

static size_t slot_bytes(size_t stack_bytes)
{
  return stack_bytes + GUARD_BYTES;
}

void *kc_fibre_stacks_create(unsigned count, size_t stack_bytes)
{
  void *stacks = mmap(NULL, count * slot_bytes(stack_bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return stacks != MAP_FAILED ? stacks : NULL;
}

static void *stack_at(void *stacks, unsigned index, size_t stack_bytes)
{
  return (char *)stacks + index * slot_bytes(stack_bytes) + GUARD_BYTES;
}

bool kc_fibre_stack_open(void *stacks, unsigned index, size_t stack_bytes)
{
  return mprotect(stack_at(stacks, index, stack_bytes), stack_bytes, PROT_READ | PROT_WRITE) == 0;
}

/* What abandoned fibres left poisoned must not stay so: the addresses will be somebody else's. */
static void unpoison(void *stack, size_t bytes)
{
#ifdef KC_FIBRE_ASAN
  __asan_unpoison_memory_region(stack, bytes);
#else
  (void)stack;
  (void)bytes;
#endif
}

void kc_fibre_stacks_destroy(void *stacks, unsigned count, size_t stack_bytes)
{
  unpoison(stacks, count * slot_bytes(stack_bytes));
  munmap(stacks, count * slot_bytes(stack_bytes));
}

void kc_fibre_prepare(struct kc_fibre *fibre, void *stacks, unsigned index, size_t stack_bytes,
                      void (*entry)(void))
{
  fibre->stack = stack_at(stacks, index, stack_bytes);
  fibre->stack_bytes = stack_bytes;
  fibre->fake_stack = NULL;
  unpoison(fibre->stack, stack_bytes);
  uintptr_t *frame = (uintptr_t *)((char *)fibre->stack + stack_bytes) - FRAME_WORDS;
  memset(frame, 0, FRAME_WORDS * sizeof *frame);
  frame[RETURN_WORD] = (uintptr_t)entry;
  fibre->stack_pointer = frame;
}

void kc_fibre_switch(struct kc_fibre *from, struct kc_fibre *to, bool last)
{
#ifdef KC_FIBRE_ASAN
  __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
#else
  (void)last;
#endif
  kc_fibre_jump(&from->stack_pointer, to->stack_pointer);
#ifdef KC_FIBRE_ASAN
  __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void kc_fibre_entered(struct kc_fibre *starter)
{
#ifdef KC_FIBRE_ASAN
  const void *bottom = NULL;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
  if (starter->stack == NULL) {
    starter->stack = (void *)(uintptr_t)bottom;
    starter->stack_bytes = bytes;
  }
#else
  (void)starter;
#endif
}
