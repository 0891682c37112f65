/* Figures of `kvcap engine bench` as CSV files in a folder. */
#ifndef KC_SIM_CLI_BENCH_CSV_H
#define KC_SIM_CLI_BENCH_CSV_H

#include "engine/exec/bench.h"

struct kc_bench_csv {
  const struct kc_bench_row *row;
  size_t rows;
  double ceiling; /* bytes a microsecond */
  const char *device, *utc;
  bool emulated;
};

/* bench.csv with every row; and gemm.csv, generation_attention.csv, context_attention.csv,
 * generation_mla.csv, moe.csv in the columns that `kvcap calibrate kernels` reads, of cold times.
 * The folder is made if it is not there. KC_ERR_FILE. */
enum kc_err kc_bench_csv_write(const struct kc_bench_csv *csv, const char *folder,
                               struct kc_diag *diag);

#endif
