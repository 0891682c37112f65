/* Published figures against predictions: what `kvcap verify` gathers and prints (private to
 * sim/cli).
 *
 *   scenario file --expect list--> one row a figure --> table, JSON document, plot
 */
#ifndef KC_SIM_CLI_VERIFY_H
#define KC_SIM_CLI_VERIFY_H

#include <jansson.h>

#include "sim/plan/point.h"

struct kc_verify_row {
  struct kc_expect expect;
  bool has_value;            /* false: `problem` says why there is no prediction */
  double predicted, error;   /* error: see kc_expect_error */
  bool holds;
  bool ran;                  /* a run took part; its trust follows */
  struct kc_cost_trust trust;
  uint32_t concurrency;      /* of the closed workload behind it; 0 = another workload */
  struct kc_diag problem;
};

struct kc_verify_file {
  char path[KC_DIAG_PATH_BYTES];
  char name[128];
  uint32_t count;
  struct kc_verify_row row[KC_EXPECT_MAX];
};

/* Loads a scenario and works out every figure of its expect list. Errors are those of the file; a
 * figure that cannot be predicted is a row that does not hold. */
enum kc_err kc_verify_file(struct kc_verify_file *file, const char *path,
                           struct kc_diag_list *problems);

/* "137", "1,558", "-0.53": with the digits that the published value has, or more when `precise`. */
void kc_verify_print(const struct kc_verify_file *file);
json_t *kc_verify_json(const struct kc_verify_file *file);

/* Figures of runs at a stated concurrency as CSV, for reports/plots/decode_tables.gp: one series a
 * file that has any; *series_count is their number. */
enum kc_err kc_verify_csv(const struct kc_verify_file *files, size_t count, const char *path,
                          unsigned *series_count, struct kc_diag *diag);

#endif
