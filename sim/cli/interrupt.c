/* The one piece of process state that a signal handler needs (see interrupt.h). */
#include "sim/cli/interrupt.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* Lock-free, hence fit for a handler; threads read it while the handler runs on another one. */
static atomic_int stop_requested;
static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may write an int");

static void on_signal(int number)
{
  (void)number;
  stop_requested = 1;
}

bool kc_interrupt_wanted(void *context)
{
  (void)context;
  return stop_requested != 0;
}

static void handle(void (*handler)(int number))
{
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

void kc_interrupt_catch(void)
{
  handle(on_signal);
}

void kc_interrupt_release(void)
{
  handle(SIG_DFL);
}
