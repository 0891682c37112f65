/* The one piece of process state that a signal handler needs (see interrupt.h). */
#include "sim/cli/interrupt.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/diag.h"

/* Lock-free, hence fit for a handler; threads read it while the handler runs on another one. */
static atomic_int stop_requested;
static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may write an int");

static void on_signal(int number)
{
  (void)number;
  stop_requested = 1;
}

/* Nothing but what a handler may call; files that are written whole are never there by half. */
static void on_signal_end(int number)
{
  static const char word[] = "kvcap: interrupted\n";
  (void)number;
  if (write(STDERR_FILENO, word, sizeof word - 1) < 0) _exit(KC_ERR_INTERRUPTED);
  _exit(KC_ERR_INTERRUPTED);
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

void kc_interrupt_at_once(void)
{
  handle(on_signal_end);
}

void kc_interrupt_catch(void)
{
  handle(on_signal);
}

void kc_interrupt_release(void)
{
  handle(on_signal_end);
}
