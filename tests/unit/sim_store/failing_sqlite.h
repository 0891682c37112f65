/* SQLite with a disk that fills up and a heap that runs dry at the n-th request. */
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

/* True when the armed failure has happened. */
bool failing_happened(void);

#endif
