/* SQLite with a disk that fills up and a heap that runs dry at the n-th request, and with somebody
 * who steps in at the n-th instant at which a file is free. */
#ifndef KC_TESTS_FAILING_SQLITE_H
#define KC_TESTS_FAILING_SQLITE_H

#include <stdbool.h>

/* Registers both. Call before anything else of SQLite. */
void failing_install(void);

/* The n-th write (from 1) from now on fails with SQLITE_FULL; with `for_good` all later ones too.
 * 0 = none fails. */
void failing_arm_writes(long n, bool for_good);
/* The n-th allocation. */
void failing_arm_memory(long n, bool for_good);

/* The n-th time (from 1) that a connection gives up its last lock on a file, `act` runs before the
 * connection goes on: what another process could have done just then. It happens once. */
void failing_arm_unlock(long n, void (*act)(void *context), void *context);

/* True when the armed failure or act has happened. */
bool failing_happened(void);

#endif
