/* The one piece of process state that a signal handler needs (see interrupt.h). */
#include "sim/cli/interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop_requested;

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

void kc_interrupt_catch(void)
{
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}
