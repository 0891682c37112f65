/* Measured kernels as samples: a family, a shape and the time it took.
 *
 *   gemm.csv.gz, context_mla.csv.gz, ... --kc_samples_read--> struct kc_sample [count]
 *
 * The operation is said by the file's name, as aiconfigurator names its tables (gemm,
 * generation_attention, context_attention, generation_mla, context_mla, mla_bmm, moe,
 * custom_allreduce, dsa_generation_module); the dtype columns choose the family. */
#ifndef KC_SIM_CALIBRATE_TIMING_ROWS_H
#define KC_SIM_CALIBRATE_TIMING_ROWS_H

#include "sim/calibrate/timing_table.h"
#include "sim/cost/profile.h"

struct kc_sample {
  enum kc_family family;
  struct kc_shape shape;
  double us;
};

enum { KC_KERNEL_NAMES_MAX = 48 };

/* Who measured a row on an emulated device: its times mean nothing, and it is no sample. */
#define KC_KERNEL_EMULATED "emulated"

struct kc_samples {
  struct kc_sample *sample; /* heap */
  size_t count, capacity;
  size_t emulated; /* rows of KC_KERNEL_EMULATED that were met and left out */
  /* Names of the kernels met, by family, in order of first sight: for `source`. */
  uint32_t kernel_count;
  struct kc_kernel_name {
    enum kc_family family;
    char name[96];
    uint64_t rows;
  } kernel[KC_KERNEL_NAMES_MAX];
};

/* Appends the rows of a file. `*samples` starts as {0}. Errors as kc_timing_table_load, and
 * KC_ERR_INPUT: a name that is no operation, a missing column, a dtype that is not known. Rows of
 * an emulated device are only counted. */
enum kc_err kc_samples_read(struct kc_samples *samples, const char *path, struct kc_diag *diag);
enum kc_err kc_samples_add_table(struct kc_samples *samples, const struct kc_timing_table *table,
                                 struct kc_diag *diag);
/* Appends one; `kernel` is who measured it. A row of an emulated device is only counted. */
enum kc_err kc_samples_add(struct kc_samples *samples, const struct kc_sample *sample,
                           const char *kernel, struct kc_diag *diag);
void kc_samples_free(struct kc_samples *samples);

/* The file's name without folders and without ".csv", ".csv.gz": "gemm". */
void kc_timing_stem(const char *path, char *out, size_t size);

#endif
