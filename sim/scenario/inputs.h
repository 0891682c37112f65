/* Files that many runs read alike, each read once: traces as they stand in their files, and
 * profiles of measured kernels. Read-only once loaded, shared by threads.
 *
 *   run, run, run ... --kc_inputs_trace, kc_inputs_kernels--> { path, options -> contents }
 *
 * The first to ask for a file reads it; others who ask meanwhile wait for that one. A file that
 * could not be read stays so: everybody gets the same diagnosis. What a scenario does to its trace
 * (rates, windows) is done to a copy, so one file serves all of them.
 */
#ifndef KC_SIM_SCENARIO_INPUTS_H
#define KC_SIM_SCENARIO_INPUTS_H

#include "sim/cost/profile.h"
#include "traces/trace.h"

struct kc_inputs;

/* Heap; NULL when memory ran out. */
struct kc_inputs *kc_inputs_create(void);
/* Nobody may use what it lent any more; NULL is fine. */
void kc_inputs_destroy(struct kc_inputs *inputs);

/* Lends the trace of `path` read with `options`. Errors as kc_trace_load. Any thread. */
enum kc_err kc_inputs_trace(struct kc_inputs *inputs, const char *path,
                            const struct kc_trace_options *options, const struct kc_trace **trace,
                            struct kc_diag *diag);

/* Lends the profile of `path`. Errors as kc_profile_load. Any thread. */
enum kc_err kc_inputs_kernels(struct kc_inputs *inputs, const char *path,
                              const struct kc_profile **kernels, struct kc_diag *diag);

#endif
