/* Files of timings: what is read, and what is refused with which line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/calibrate/layered_fit.h"

static const char gemm[] =
    "kernel_source,gemm_dtype,m,n,k,latency_ms\n"
    "torch,bfloat16,64,128,256,0.005\n"
    "scaled,fp8,1,32,65536,1.25\n"
    "blocks,fp8_block,2,64,64,0.0125\n";

static enum kc_err read_text(struct kc_samples *samples, const char *path, const char *text,
                             struct kc_diag *diag)
{
  struct kc_timing_table table;
  enum kc_err err = kc_timing_table_parse(&table, path, text, strlen(text), diag);
  if (err != KC_OK) return err;
  err = kc_samples_add_table(samples, &table, diag);
  kc_timing_table_free(&table);
  return err;
}

static void test_gemm(void **state)
{
  (void)state;
  struct kc_samples s = {0};
  assert_int_equal(read_text(&s, "some/where/gemm.csv.gz", gemm, NULL), KC_OK);
  assert_int_equal(s.count, 3);
  assert_int_equal(s.sample[0].family, KC_FAMILY_GEMM_BF16);
  assert_int_equal(s.sample[1].family, KC_FAMILY_GEMM_FP8);
  assert_int_equal(s.sample[2].family, KC_FAMILY_GEMM_FP8_BLOCK);
  assert_true(s.sample[1].shape.m == 1 && s.sample[1].shape.n == 32);
  assert_true(s.sample[1].shape.k == 65536 && s.sample[1].us == 1250);
  assert_int_equal(s.kernel_count, 3);
  assert_string_equal(s.kernel[1].name, "scaled");
  kc_samples_free(&s);
}

/* The context is isl + step; the distribution's exponent is the skew; FP8 caches with BF16
 * arithmetic are a family of their own. */
static void test_meanings(void **state)
{
  (void)state;
  struct kc_samples s = {0};
  assert_int_equal(
      read_text(&s, "generation_attention.csv",
                "kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,"
                "kv_cache_dtype,step,window_size,latency_ms\n"
                "fa3,4,1,32,8,128,bfloat16,fp8,1023,0,0.02\n", NULL), KC_OK);
  assert_int_equal(s.sample[0].family, KC_FAMILY_GQA_DECODE_FP8);
  assert_true(s.sample[0].shape.context == 1024 && s.sample[0].shape.batch == 4);
  assert_int_equal(
      read_text(&s, "context_attention.csv",
                "kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,"
                "kv_cache_dtype,step,window_size,latency_ms\n"
                "fa3,1,512,32,8,128,fp8,fp8,0,0,0.02\n"
                "fa3,1,512,32,8,128,bfloat16,fp8,0,128,0.02\n", NULL), KC_OK);
  assert_int_equal(s.sample[1].family, KC_FAMILY_GQA_PREFILL_FP8);
  assert_int_equal(s.sample[2].family, KC_FAMILY_GQA_PREFILL_KV8);
  assert_true(s.sample[2].shape.window == 128 && s.sample[2].shape.tokens == 512);
  assert_int_equal(
      read_text(&s, "moe.csv",
                "kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,"
                "moe_tp_size,moe_ep_size,distribution,latency_ms\n"
                "marlin,int4_wo,64,7168,2048,8,384,8,1,power_law_1.01,0.3\n"
                "marlin,int4_wo,64,7168,2048,8,384,8,1,balanced,0.3\n", NULL), KC_OK);
  assert_int_equal(s.sample[3].family, KC_FAMILY_MOE_INT4);
  assert_true(s.sample[3].shape.skew == 1.01 && s.sample[4].shape.skew == 0);
  assert_true(s.sample[3].shape.tp == 8 && s.sample[3].shape.inter == 2048);
  kc_samples_free(&s);
}

struct wrong {
  const char *path, *text;
  unsigned line, column;
  const char *says;
};

#define HEAD "kernel_source,gemm_dtype,m,n,k,latency_ms\n"

static const struct wrong wrongs[] = {
    {"gemm.csv", "", 0, 0, "empty"},
    {"gemm.csv", HEAD, 0, 0, "no measurement"},
    {"gemm.csv", "kernel_source,gemm_dtype,m,n,latency_ms\na,fp8,1,1,1\n", 1, 0, "no column \"k\""},
    {"gemm.csv", "kernel_source,gemm_dtype,m,m,k,latency_ms\na,fp8,1,1,1,1\n", 1, 0, "there twice"},
    {"gemm.csv", "kernel_source,gemm_dtype,,n,k,latency_ms\na,fp8,1,1,1,1\n", 1, 0, "no name"},
    {"gemm.csv", HEAD "a,fp8,1,1,1,1\na,fp8,1,1,1\n", 3, 0, "5 cells, but the header has 6"},
    {"gemm.csv", HEAD "a,fp8,1,1,1,1,1\n", 2, 0, "7 cells"},
    {"gemm.csv", HEAD "a,fp8,1,1,1,1\n\na,fp8,1,1,1,1\n", 3, 0, "empty line"},
    {"gemm.csv", HEAD "a,fp8,1,1,1,0\n", 2, 6, "latency_ms is \"0\""},
    {"gemm.csv", HEAD "a,fp8,1,1,1,-1\n", 2, 6, "expected a number"},
    {"gemm.csv", HEAD "a,fp8,1,1,1,nan\n", 2, 6, "expected a number"},
    {"gemm.csv", HEAD "a,fp8,0,1,1,1\n", 2, 3, "m is \"0\""},
    {"gemm.csv", HEAD "a,fp8,1,1,1e99,1\n", 2, 5, "k is \"1e99\""},
    {"gemm.csv", HEAD "a,fp8,x,1,1,1\n", 2, 3, "m is \"x\""},
    {"gemm.csv", HEAD "a,int3,1,1,1,1\n", 2, 2, "gemm_dtype is \"int3\""},
    {"gemm.csv", HEAD "\"a,fp8,1,1,1,1\n", 2, 1, "quote"},
    {"gem.csv", HEAD "a,fp8,1,1,1,1\n", 0, 0, "no operation that is known"},
    {"custom_allreduce.csv",
     "kernel_source,num_gpus,message_size,latency_ms,backend\na,2,128,1,other\n", 2, 5, "_graph"},
    {"custom_allreduce.csv",
     "kernel_source,num_gpus,message_size,latency_ms,backend\na,1,128,1,x_graph\n", 2, 2,
     "num_gpus is \"1\""},
};

static void test_wrong_files(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    struct kc_samples s = {0};
    struct kc_diag diag = {.code = KC_OK};
    const enum kc_err err = read_text(&s, wrongs[i].path, wrongs[i].text, &diag);
    if (err != KC_ERR_INPUT || diag.line != wrongs[i].line || diag.column != wrongs[i].column ||
        strstr(diag.text, wrongs[i].says) == NULL) {
      print_error("case %zu: %d, %llu:%u \"%s\"\n", i, (int)err, (unsigned long long)diag.line,
                  diag.column, diag.text);
    }
    assert_int_equal(err, KC_ERR_INPUT);
    assert_int_equal(diag.line, wrongs[i].line);
    assert_int_equal(diag.column, wrongs[i].column);
    assert_non_null(strstr(diag.text, wrongs[i].says));
    kc_samples_free(&s);
  }
}

/* Line ends of either kind, a last line without one, and quoted cells read the same. */
static void test_line_ends(void **state)
{
  (void)state;
  static const char *const same[] = {
      HEAD "a,fp8,1,2,3,4\na,fp8,5,6,7,8\n", HEAD "a,fp8,1,2,3,4\na,fp8,5,6,7,8",
      "kernel_source,gemm_dtype,m,n,k,latency_ms\r\na,fp8,1,2,3,4\r\na,fp8,5,6,7,8\r\n",
      HEAD "\"a\",\"fp8\",1,2,3,4\na,fp8, 5,6 ,7,8\n"};
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    struct kc_samples s = {0};
    assert_int_equal(read_text(&s, "gemm.csv", same[i], NULL), KC_OK);
    assert_int_equal(s.count, 2);
    assert_true(s.sample[1].shape.m == 5 && s.sample[1].us == 8000);
    kc_samples_free(&s);
  }
}

static void test_layered_file(void **state)
{
  (void)state;
  struct kc_layered_rows rows = {0};
  struct kc_diag diag;
  char path[] = "/tmp/kc_layered_XXXXXX";
  assert_non_null(mkdtemp(path));
  char file[64];
  snprintf(file, sizeof file, "%s/attention.csv", path);
  FILE *out = fopen(file, "w");
  assert_non_null(out);
  fputs("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,8.5\n0,0,1,0,8.5\n", out);
  fclose(out);
  assert_true(kc_layered_is_part(file));
  assert_false(kc_layered_is_part("x/gemm.csv"));
  assert_int_equal(kc_layered_read(&rows, file, &diag), KC_ERR_INPUT);
  assert_int_equal(diag.line, 3);
  assert_non_null(strstr(diag.text, "decodes without a context"));
  kc_layered_free(&rows);
  remove(file);
  remove(path);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),        cmocka_unit_test(test_meanings),
      cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_line_ends),
      cmocka_unit_test(test_layered_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
