/* Writing a trace to a file or to standard output (private to sim/cli). */
#ifndef KC_SIM_CLI_TRACE_OUTPUT_H
#define KC_SIM_CLI_TRACE_OUTPUT_H

#include "traces/transform/trace_export.h"

/* Writes to `path`, "-" for standard output. A file appears whole or not at all: it is written
 * beside its place and renamed. Refuses (KC_ERR_USAGE) a format that cannot hold all of the trace.
 * Other errors: KC_ERR_FILE. */
enum kc_err kc_cli_trace_write(const struct kc_trace *trace, enum kc_export_format format,
                               const char *path, struct kc_diag *diag);

/* The same, whatever the format loses. A standard output that takes no more is no error here: the
 * end of the program tells a closed pipe from a full disk. */
enum kc_err kc_cli_trace_put(const struct kc_trace *trace, enum kc_export_format format,
                             const char *path, struct kc_diag *diag);

/* Refuses (KC_ERR_USAGE) an output that is one of the inputs, or lies in a folder that is one. */
enum kc_err kc_cli_trace_output_check(const char *out, const char *const *input, size_t count,
                                      struct kc_diag *diag);

#endif
