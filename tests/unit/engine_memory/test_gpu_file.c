/* The shipped GPU files load, say what they should, and bad ones are refused at the right place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory_data.h"

/* Board memory as nvidia-smi lists it, bandwidth and dense BF16 as vendors publish them. */
static void test_shipped_boards(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    uint64_t board_mib;
    double gb_s, bf16_tflops;
    bool has_price;
  } row[TEST_GPUS] = {
      {"a100-80g", 81920, 2039, 312, true},   {"h100", 81559, 3350, 989.4, true},
      {"h200", 143771, 4800, 989.4, true},    {"b200", 183359, 7700, 2250, true},
      {"l40s", 46068, 864, 362, false},       {"mi300x", 196592, 5300, 1307.4, false},
      {"rtx-4090", 24564, 1008, 165, false},  {"rtx-pro-6000", 97887, 1792, 467.8, false},
  };
  struct kc_gpu gpu;
  for (int i = 0; i < TEST_GPUS; i++) {
    test_gpu_load(&gpu, row[i].name);
    assert_string_equal(gpu.name, row[i].name);
    assert_int_equal(gpu.memory_bytes, row[i].board_mib << 20);
    assert_true(gpu.memory_bandwidth == row[i].gb_s * 1e9);
    assert_true(gpu.flops[KC_MATH_BF16] == row[i].bf16_tflops * 1e12);
    assert_int_equal(gpu.price_count > 0, row[i].has_price);
    assert_true(gpu.total_vllm_bytes < gpu.memory_bytes);
    assert_true(gpu.free_sglang_bytes < gpu.total_vllm_bytes);
    assert_int_equal(strlen(gpu.sha256), 64);
    const struct kc_gpu_profile *plain = kc_gpu_profile_find(&gpu, "plain");
    assert_non_null(plain);
    assert_true(plain->bandwidth_efficiency == 0.8 && plain->flops_efficiency == 0.6);
    assert_true(plain->op_latency_us == 3 && plain->host_step_us == 0);
    assert_false(plain->host_measured);
    assert_null(kc_gpu_profile_find(&gpu, "plai"));
  }
}

static void test_free_memory(void **state)
{
  (void)state;
  struct kc_gpu gpu;
  test_gpu_load(&gpu, "h200");
  assert_int_equal(gpu.free_sglang_bytes, UINT64_C(138) << 30);
  assert_int_equal(gpu.free_sglang_tp_bytes, UINT64_C(138) << 30);
  assert_true(gpu.free_confirmed && gpu.free_tp_confirmed);
  test_gpu_load(&gpu, "h100");
  assert_int_equal(gpu.total_vllm_bytes, 85018877624); /* 79.18 GiB */
  assert_int_equal(gpu.free_sglang_bytes, 84127671910); /* 78.35 GiB */
  assert_int_equal(gpu.free_sglang_tp_bytes, 83107617178); /* 77.4 GiB */
  assert_true(gpu.free_confirmed);
  assert_false(gpu.free_tp_confirmed);
  test_gpu_load(&gpu, "b200");
  assert_false(gpu.free_confirmed);
}

/* The text of a shipped file with one line replaced ("" removes it). */
static char *edited(const char *line_start, const char *replacement)
{
  char path[512];
  snprintf(path, sizeof path, "%s/scenarios/gpus/h200.yaml", KVCAP_SOURCE_DIR);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  char line[512];
  char *text = calloc(1, 16384);
  assert_non_null(text);
  bool found = false;
  while (fgets(line, sizeof line, file) != NULL) {
    const bool here = strncmp(line, line_start, strlen(line_start)) == 0;
    found = found || here;
    const size_t used = strlen(text);
    snprintf(text + used, 16384 - used, "%s", here ? replacement : line);
  }
  fclose(file);
  if (!found) fail_msg("h200.yaml has no line \"%s\"", line_start);
  return text;
}

static void expect_refusal(const char *line_start, const char *replacement, const char *words)
{
  char path[] = "/tmp/kvcap-gpu-XXXXXX";
  const int handle = mkstemp(path);
  assert_true(handle >= 0);
  char *text = edited(line_start, replacement);
  const ssize_t length = (ssize_t)strlen(text);
  assert_true(write(handle, text, (size_t)length) == length);
  close(handle);
  free(text);
  struct kc_gpu gpu;
  struct kc_diag diag = {0};
  const enum kc_err err = kc_gpu_load(&gpu, path, &diag);
  unlink(path);
  if (err != KC_ERR_INPUT || strstr(diag.text, words) == NULL) {
    fail_msg("%s: error %d, \"%s\"; expected \"%s\"", line_start, (int)err, diag.text, words);
  }
  assert_true(diag.line > 0);
}

static void test_refusals(void **state)
{
  (void)state;
  expect_refusal("  board_mib:", "  board_mib: {value: 143771}\n", "memory.board_mib.source");
  expect_refusal("  board_mib:", "  board_mib: 143771\n", "memory.board_mib");
  expect_refusal("  board_mib:", "  board_mib: {value: 1000, source: \"x\"}\n",
                 "memory.board_mib.value");
  expect_refusal("  board_mib:", "  board_mib: {value: 140000, source: \"x\"}\n",
                 "memory.vllm_total_gib is more than");
  expect_refusal("  power_w:", "  power_watt: {value: 700, source: \"x\"}\n", "power_watt");
  expect_refusal("  power_w:", "", "board.power_w.value");
  expect_refusal("  idle_w:", "  idle_w: {value: 701, source: \"x\"}\n", "board.idle_w is more");
  expect_refusal("  sglang_free_tp_gib:", "  sglang_free_tp_gib: {value: 139, source: \"x\"}\n",
                 "sglang_free_tp_gib <=");
  expect_refusal("prices:", "prices: {}\n", "");
  expect_refusal("  - {usd_per_hour: 4.59", "  - {usd_per_hour: 4.59, date: \"May\", source: x}\n",
                 "YYYY-MM");
  expect_refusal("  - {usd_per_hour: 4.59", "  - {usd_per_hour: 4.59, source: x}\n", "date");
  expect_refusal("    bandwidth_efficiency:", "    bandwidth_efficiency: 1.2\n",
                 "bandwidth_efficiency");
}

static void test_absent_file(void **state)
{
  (void)state;
  struct kc_gpu gpu;
  struct kc_diag diag = {0};
  assert_int_equal(kc_gpu_load(&gpu, "/nonexistent/h300.yaml", &diag), KC_ERR_FILE);
}

/* A profile with rows left out, as calibration writes it. */
#define FITTED \
  "profiles:\n" \
  "  - {name: fitted, calibrated: true, host_step_us: 5000, host_measured: true,\n" \
  "     op_latency_us: 0, bandwidth_efficiency: 0.8, kv_efficiency: 0.5, flops_efficiency: 0.6,\n" \
  "     rows: 2, residual_percent: 1.5, source: x, left_out: [\n" \
  "     {row: concurrency 1, host_step_us: 4000, bandwidth_efficiency: 0.7, kv_efficiency: 0.4,\n" \
  "      flops_efficiency: 0.3}]}\n"

static void test_a_row_left_out(void **state)
{
  (void)state;
  char path[] = "/tmp/kvcap-gpu-XXXXXX";
  const int handle = mkstemp(path);
  struct kc_gpu gpu;
  struct kc_gpu_profile profile;
  struct kc_diag diag = {0};
  assert_true(handle >= 0);
  char *text = edited("profiles:", FITTED);
  const ssize_t length = (ssize_t)strlen(text);
  assert_true(write(handle, text, (size_t)length) == length);
  close(handle);
  free(text);
  const enum kc_err err = kc_gpu_load(&gpu, path, &diag);
  unlink(path);
  if (err != KC_OK) fail_msg("%s", diag.text);
  assert_true(kc_gpu_profile_variant(&gpu, "fitted", &profile));
  assert_true(profile.host_step_us == 5000 && profile.left_out_count == 1 && profile.rows == 2);
  assert_true(kc_gpu_profile_variant(&gpu, "fitted without concurrency 1", &profile));
  assert_string_equal(profile.name, "fitted without concurrency 1");
  assert_true(profile.host_step_us == 4000 && profile.kv_efficiency == 0.4);
  assert_true(profile.bandwidth_efficiency == 0.7 && profile.flops_efficiency == 0.3);
  assert_true(profile.rows == 1 && profile.left_out_count == 0 && profile.calibrated);
  assert_false(kc_gpu_profile_variant(&gpu, "fitted without concurrency 2", &profile));
  assert_false(kc_gpu_profile_variant(&gpu, "other without concurrency 1", &profile));
  assert_true(kc_gpu_profile_variant(&gpu, "plain", &profile)); /* kv as all else unless said */
  assert_true(profile.kv_efficiency == profile.bandwidth_efficiency && !profile.calibrated);
  expect_refusal("    residual_percent:", "    residual_percent: -1\n", "residual_percent");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shipped_boards), cmocka_unit_test(test_free_memory),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_absent_file),
      cmocka_unit_test(test_a_row_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
