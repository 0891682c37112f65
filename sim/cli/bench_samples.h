/* Figures of `kvcap engine bench` in a results database, as samples that a profile is fitted to. */
#ifndef KC_SIM_CLI_BENCH_SAMPLES_H
#define KC_SIM_CLI_BENCH_SAMPLES_H

#include "sim/calibrate/timing_rows.h"

/* True for a file's name that ends in ".db". */
bool kc_bench_is_database(const char *path);

/* Appends the cold times of the table `measurement`, those of families that profiles have. Errors
 * of opening a store; KC_ERR_INPUT when there are none. */
enum kc_err kc_bench_samples_read(struct kc_samples *samples, const char *path,
                                  struct kc_diag *diag);

#endif
