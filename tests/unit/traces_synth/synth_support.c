/* Helpers of the tests of traces/synth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "synth_support.h"

void check_near(double got, double wanted, double tolerance, const char *what, const char *file,
                int line)
{
  if (fabs(got - wanted) <= tolerance) return;
  print_error("%s is %.9g, expected %.9g within %.3g\n", what, got, wanted, tolerance);
  _fail(file, line);
}

static void digest_columns(struct kc_sha256 *sha, const struct kc_trace *trace, uint64_t row)
{
  const struct kc_trace_columns *const column = &trace->column;
  if (column->session != NULL) {
    kc_sha256_update_u64(sha, column->session[row]);
    kc_sha256_update_u64(sha, column->after[row]);
    kc_sha256_update_u64(sha, (uint64_t)column->wait_ps[row]);
    kc_sha256_update_u64(sha, column->flags[row]);
  }
  if (column->block_count == NULL) return;
  for (uint32_t k = 0; k < column->block_count[row]; k++) {
    kc_sha256_update_u64(sha, trace->block[column->block_first[row] + k]);
  }
}

void digest_trace(const struct kc_trace *trace, char out[65])
{
  struct kc_sha256 sha;
  kc_sha256_init(&sha);
  for (uint64_t i = 0; i < trace->count; i++) {
    kc_sha256_update_u64(&sha, (uint64_t)trace->row[i].arrival_ps);
    kc_sha256_update_u64(&sha, trace->row[i].input_tokens);
    kc_sha256_update_u64(&sha, trace->row[i].output_tokens);
    digest_columns(&sha, trace, i);
  }
  kc_sha256_final_hex(&sha, out);
}

static void check_ids(const struct kc_trace *trace)
{
  uint64_t at = 0;
  uint32_t next = 0;
  assert_true(trace->block_tokens > 0);
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint64_t tokens = trace->row[i].input_tokens, block = trace->block_tokens;
    const uint64_t count = trace->column.block_count[i];
    assert_true(trace->column.block_first[i] == at);
    assert_true(count == (trace->tail == KC_TAIL_CEIL ? (tokens + block - 1) / block
                                                      : tokens / block));
    for (uint64_t k = 0; k < count; k++) {
      assert_true(trace->block[at + k] <= next);
      if (trace->block[at + k] == next) next++;
    }
    at += count;
  }
  assert_true(at == trace->block_total && next == trace->block_distinct);
}

void check_trace(const struct kc_trace *trace)
{
  uint64_t input = 0, output = 0;
  uint32_t sessions = 0;
  assert_true(trace->count > 0 && trace->row[0].arrival_ps == 0);
  for (uint64_t i = 0; i < trace->count; i++) {
    assert_true(i == 0 || trace->row[i].arrival_ps >= trace->row[i - 1].arrival_ps);
    assert_true(trace->row[i].input_tokens > 0 && trace->row[i].output_tokens > 0);
    input += trace->row[i].input_tokens;
    output += trace->row[i].output_tokens;
    if (trace->column.session == NULL) continue;
    const uint32_t session = trace->column.session[i], after = trace->column.after[i];
    assert_true(session <= sessions);
    if (session == sessions) sessions++;
    assert_true(after == KC_TRACE_NONE || after < i);
    assert_true(after == KC_TRACE_NONE || trace->column.session[after] == session);
    assert_true(trace->column.wait_ps[i] >= 0);
  }
  assert_true(trace->session_count == sessions);
  assert_true(trace->input_tokens == input && trace->output_tokens == output);
  assert_true(trace->span_ps == trace->row[trace->count - 1].arrival_ps);
  assert_true(trace->prefix_ids == (trace->block != NULL));
  if (trace->prefix_ids) check_ids(trace);
}

bool shared_path(const char *name, char *path, size_t bytes)
{
  const char *root = getenv("KVCAP_SHARED");
  if (root == NULL) return false;
  const int length = snprintf(path, bytes, "%s/traces/%s", root, name);
  return length > 0 && (size_t)length < bytes && access(path, R_OK) == 0;
}
