/* What both ways of `kvcap calibrate serving` give out: an entry for the profiles of a GPU file,
 * and the options that say which form it takes. */
#ifndef KC_SIM_CLI_CALIBRATE_OUTPUT_H
#define KC_SIM_CLI_CALIBRATE_OUTPUT_H

#include "engine/base/option.h"
#include "engine/memory/gpu.h"

struct kc_calibrate_output {
  char name[KC_PROFILE_NAME_BYTES], source[160];
  bool profile, json;
};

/* Rows of an option table whose arguments hold a struct kc_calibrate_output called `out`. */
#define KC_CALIBRATE_OUTPUT_OPTIONS(arguments, default_source)                                    \
  {.key = "name", .type = KC_OPTION_TEXT, .offset = offsetof(arguments, out.name),                \
   .size = KC_PROFILE_NAME_BYTES, .fallback = "fitted", .values = "NAME",                         \
   .help = "name of the profile"},                                                                \
  {.key = "source", .type = KC_OPTION_TEXT, .offset = offsetof(arguments, out.source),            \
   .size = sizeof(((struct kc_calibrate_output *)NULL)->source), .values = "TEXT",                \
   .fallback = default_source, .help = "where the measurement comes from, for the profile"},      \
  {.key = "profile", .type = KC_OPTION_FLAG, .offset = offsetof(arguments, out.profile),          \
   .help = "print only the profile, as an entry for the profiles of a GPU file"},                 \
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(arguments, out.json),                \
   .help = "print one JSON document"}

/* ", IMPLAUSIBLE" for a fit that is so far off in the median, else "". */
const char *kc_calibrate_mark(double median_percent);
/* Notes on stderr: what to check of a fit that is implausible, and of a term that ended at its
 * bound: a time (in microseconds), or an efficiency. */
void kc_calibrate_note_median(const char *what, double median_percent);
void kc_calibrate_note_bound(const char *term, double value, bool is_time);

/* The entry, in the fixed form in which the shipped files hold it; heap, to be freed. KC_ERR_MEMORY
 * when memory ran out. */
enum kc_err kc_calibrate_profile_text(char **text, const struct kc_gpu_profile *profile,
                                      struct kc_diag *diag);

#endif
