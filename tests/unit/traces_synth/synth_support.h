/* What the tests of traces/synth share. */
#ifndef KC_TESTS_SYNTH_SUPPORT_H
#define KC_TESTS_SYNTH_SUPPORT_H

#include "traces/synth/servegen.h"

/* Fails with both numbers when they are further apart than `tolerance`. */
#define NEAR(got, wanted, tolerance) check_near(got, wanted, tolerance, #got, __FILE__, __LINE__)
void check_near(double got, double wanted, double tolerance, const char *what, const char *file,
                int line);

/* SHA-256 over every row and column of the trace, in fixed-width integers: 64 hex digits. */
void digest_trace(const struct kc_trace *trace, char out[65]);

/* What every trace made here promises: order, links backwards, dense ids in order of appearance,
 * whole blocks, sums. Fails otherwise. */
void check_trace(const struct kc_trace *trace);

/* $KVCAP_SHARED/traces/NAME in `path`; false when it is not there. */
bool shared_path(const char *name, char *path, size_t bytes);

#endif
