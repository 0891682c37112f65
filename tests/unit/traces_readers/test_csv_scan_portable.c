/* The line splitter's tests once more, with words instead of vectors, as other machines have it. */
#define KC_CSV_PORTABLE
#include "traces/readers/csv_scan.c"

#include "tests/unit/traces_readers/test_csv_scan.c"
