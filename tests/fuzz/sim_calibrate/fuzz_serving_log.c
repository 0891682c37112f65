/* Any bytes as a measured log. What is accepted is in order of arrival, has times that follow each
 * other where it says so, and can be compared with itself, before and after its failures are taken
 * out; what is refused says why. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/calibrate/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rows(const struct kc_serving_log *log)
{
  KC_ASSERT(log->count > 0 && log->count <= log->in_file);
  for (size_t i = 0; i < log->count; i++) {
    const struct kc_log_request *row = &log->row[i];
    KC_ASSERT(isfinite(row->arrival_s));
    KC_ASSERT(i == 0 || log->row[i - 1].arrival_s <= row->arrival_s);
    KC_ASSERT(!(row->ok && row->failed));
    if (!row->ok) continue;
    KC_ASSERT(row->input_tokens >= 1 && row->output_tokens >= 1);
    KC_ASSERT(isfinite(row->e2e_s) && row->ttft_s <= row->e2e_s);
  }
}

static void compare(const struct kc_serving_log *log)
{
  struct kc_comparison comparison;
  struct kc_diag diag = {0};
  const enum kc_err err = kc_compare(&comparison, log, log, true, &diag);
  KC_ASSERT(err == KC_OK || diag.text[0] != '\0');
  KC_ASSERT(err != KC_OK || comparison.only_a + comparison.only_b == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kc_serving_log log;
  struct kc_diag diag = {0};
  char words[KC_LOG_FAILURES_BYTES];
  if (kc_serving_log_parse(&log, "fuzz", (const char *)data, size, &diag) == KC_OK) {
    check_rows(&log);
    compare(&log);
    const size_t failed = kc_serving_log_failures(&log, words);
    KC_ASSERT(failed <= log.in_file && (failed > 0) == (words[0] != '\0'));
    if (kc_serving_log_drop_failed(&log, &diag) == KC_OK) {
      check_rows(&log);
      compare(&log);
    }
  } else {
    KC_ASSERT(diag.text[0] != '\0');
  }
  kc_serving_log_free(&log);
  return 0;
}
