/* Fibres: stacks that a program switches between by itself.
 *
 * A switch saves the registers that a call must keep and swaps the stack pointer: some 65 ns, where
 * swapcontext takes 5 us because it also asks the kernel for the signal mask. A block of 256
 * threads passes a barrier by 256 switches, so this decides what a test of a kernel costs.
 *
 * AddressSanitizer is told of every switch; without that it takes a stack for the wrong one.
 */
#ifndef KC_KERNELS_EMU_FIBRE_H
#define KC_KERNELS_EMU_FIBRE_H

#include <stdbool.h>
#include <stddef.h>

struct kc_fibre {
  void *stack_pointer; /* while it is switched out */
  void *stack;         /* lowest address; for the fibre of the thread itself, found out by ASan */
  size_t stack_bytes;
  void *fake_stack;    /* AddressSanitizer's */
};

/* Room for the stacks of `count` fibres, each with a guard page below. NULL when there is none. A
 * stack must be opened before it is used; opening all of them at once would be most of what a short
 * test takes. False when the system refuses. */
void *kc_fibre_stacks_create(unsigned count, size_t stack_bytes);
bool kc_fibre_stack_open(void *stacks, unsigned index, size_t stack_bytes);
void kc_fibre_stacks_destroy(void *stacks, unsigned count, size_t stack_bytes);

/* Makes fibre `index` of the stacks begin at `entry`, which must never return. `entry` must call
 * kc_fibre_entered first. Whatever the fibre held before is forgotten. */
void kc_fibre_prepare(struct kc_fibre *fibre, void *stacks, unsigned index, size_t stack_bytes,
                      void (*entry)(void));

/* Leaves `from`, which is running, for `to`; returns when somebody switches back. With `last`,
 * `from` will never be switched to again. */
void kc_fibre_switch(struct kc_fibre *from, struct kc_fibre *to, bool last);

/* First thing on a new fibre; `starter` is the fibre that switched here (its bounds are noted when
 * it is the thread's own stack). */
void kc_fibre_entered(struct kc_fibre *starter);

#endif
