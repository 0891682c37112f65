/* What happens when an assertion fails, and the switch behind KC_FAULT.
 *
 * An assertion is our own mistake, so this is the one place below sim/cli that writes to stderr and
 * ends the process: going on could turn a broken invariant into a plausible wrong number. */
#include "engine/base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kc_assert_failed(const char *condition, const char *file, int line, const char *function)
{
  fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
  fprintf(stderr, "This is a mistake in kvcap, not in its input; please report it.\n");
  fflush(NULL);
  abort();
}

#ifdef KC_FAULTS
/* The environment is read anew each time: tests arm and disarm within one process, and a cached
 * answer would be a mutable global. */
bool kc_fault_armed(const char *name)
{
  KC_ASSERT(name != NULL);
  KC_ASSERT(name[0] != '\0');
  const char *armed = getenv("KVCAP_FAULT");
  return armed != NULL && strcmp(armed, name) == 0;
}
#endif
