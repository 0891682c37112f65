/* timeout: 300
 * The trained models of scenarios/models: logits against those that PyTorch computed from the same
 * file, and what kc_evaluate makes of a text against sums written down here with the C library's
 * exp and log.
 *
 * PyTorch keeps activations in FP32, the engine in bf16 between operations, so logits differ by
 * roundings: some ten a layer, 2.7e-6 of the signal's power each. A wrong rotation, scale or route
 * is an error of the order of 1.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/base/file.h"
#include "engine/exec/checkpoint.h"
#include "engine/exec/evaluate.h"

enum { WINDOW = 256, VOCABULARY = 256, BYTES = 700 };
static const double LOGITS_NMSE = 3e-5, LOGITS_ABS = 0.2;

static const char *const models[2] = {"tiny-gqa", "tiny-mla-moe"};

struct bed {
  struct kc_checkpoint checkpoint;
  struct kc_weights weights;
  struct kc_file text;
  struct kc_team *team[2]; /* of one thread and of three */
  json_t *reference;
};

static const char *path_of(const char *model, const char *file)
{
  static char path[512];
  const char *tree = getenv("KVCAP_SOURCE");
  snprintf(path, sizeof path, "%s/scenarios/models/%s%s%s", tree == NULL ? KVCAP_SOURCE_DIR : tree,
           model, file[0] == '\0' ? "" : "/", file);
  return path;
}

static void make(struct bed *bed, const char *model)
{
  struct kc_diag diag = {0};
  struct kc_precision precision;
  json_error_t error;
  memset(bed, 0, sizeof *bed);
  kc_precision_default(&precision);
  if (kc_checkpoint_open(&bed->checkpoint, path_of(model, ""), &diag) != KC_OK ||
      kc_checkpoint_build(&bed->checkpoint, NULL, &precision, WINDOW, &bed->weights, &diag) !=
          KC_OK ||
      kc_file_open(&bed->text, path_of("held-out.txt", ""), 1 << 20, &diag) != KC_OK) {
    fail_msg("%s: %s", diag.path, diag.text);
  }
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(kc_team_create(&bed->team[i], 1 + 2 * i, &diag), KC_OK);
  }
  bed->reference = json_load_file(path_of(model, "reference.json"), 0, &error);
  if (bed->reference == NULL) fail_msg("%s", error.text);
}

static void unmake(struct bed *bed)
{
  json_decref(bed->reference);
  for (int i = 0; i < 2; i++) kc_team_destroy(bed->team[i]);
  kc_file_close(&bed->text);
  kc_weights_free(&bed->weights);
  kc_checkpoint_close(&bed->checkpoint);
}

static struct kc_evaluation evaluate(const struct bed *bed, uint32_t bytes, enum kc_kv_format kv,
                                     int team, float *keep, const float *against)
{
  struct kc_evaluation out;
  struct kc_diag diag = {0};
  const struct kc_evaluate_config config = {
      .weights = &bed->weights, .kv_format = kv, .text = (const unsigned char *)bed->text.data,
      .bytes = bytes, .window = WINDOW, .team = bed->team[team],
      .threads = team == 0 ? 1 : 3, .keep = keep, .against = against};
  if (kc_evaluate(&config, &out, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_int_equal(out.violations, 0);
  return out;
}

static float *room(void)
{
  float *logits = calloc((size_t)(BYTES / WINDOW + 1) * WINDOW * VOCABULARY, sizeof *logits);
  assert_non_null(logits);
  return logits;
}

static void logits_are_those_of_pytorch(void **state)
{
  (void)state;
  for (int m = 0; m < 2; m++) {
    struct bed bed;
    float *got = room();
    double wrong = 0, all = 0, worst = 0;
    size_t i;
    json_t *position;
    make(&bed, models[m]);
    (void)evaluate(&bed, WINDOW, KC_KV_BF16, 0, got, NULL);
    json_array_foreach(json_object_get(bed.reference, "positions"), i, position) {
      const json_t *row = json_array_get(json_object_get(bed.reference, "logits"), i);
      const float *logit = got + json_integer_value(position) * VOCABULARY;
      assert_int_equal(json_array_size(row), VOCABULARY);
      for (size_t t = 0; t < VOCABULARY; t++) {
        const double want = json_real_value(json_array_get(row, t));
        const double off = fabs((double)logit[t] - want);
        wrong += off * off;
        all += want * want;
        if (off > worst) worst = off;
      }
    }
    print_message("%s: nmse %g, worst %g\n", models[m], wrong / all, worst);
    assert_true(i >= 6 && all > 0);
    assert_true(wrong / all < LOGITS_NMSE);
    assert_true(worst < LOGITS_ABS);
    free(got);
    unmake(&bed);
  }
}

/* -log q(next) by the C library. */
static double plain_nll(const float *logit, unsigned char next)
{
  double sum = 0;
  for (int i = 0; i < VOCABULARY; i++) sum += exp((double)logit[i]);
  return log(sum) - (double)logit[next];
}

static double plain_kl(const float *p, const float *q)
{
  double sum = 0;
  for (int i = 0; i < VOCABULARY; i++) {
    const double log_p = -plain_nll(p, (unsigned char)i), log_q = -plain_nll(q, (unsigned char)i);
    sum += exp(log_p) * (log_p - log_q);
  }
  return sum;
}

/* Three windows, the last one shorter: 700 = 256 + 256 + 188. */
static void figures_are_those_of_plain_sums(void **state)
{
  (void)state;
  for (int m = 0; m < 2; m++) {
    struct bed bed;
    float *base = room(), *other = room();
    double nll = 0, kl = 0;
    make(&bed, models[m]);
    const struct kc_evaluation exact = evaluate(&bed, BYTES, KC_KV_BF16, 0, base, NULL);
    const struct kc_evaluation fp8 = evaluate(&bed, BYTES, KC_KV_FP8_E4M3, 1, other, base);
    assert_int_equal(exact.predictions, BYTES - 3);
    assert_int_equal(exact.chunk_rows + exact.decode_rows, BYTES - 3);
    assert_true(exact.chunk_rows > 300 && exact.decode_rows > 300 && exact.checks > 100);
    for (uint32_t i = 0; i + 1 < BYTES; i++) {
      const size_t at = ((size_t)(i / WINDOW) * (WINDOW - 1) + i % WINDOW) * VOCABULARY;
      if (i % WINDOW == WINDOW - 1) continue; /* the next byte begins a window */
      nll += plain_nll(base + at, (unsigned char)bed.text.data[i + 1]);
      kl += plain_kl(base + at, other + at);
    }
    print_message("%s: nll %.6f, kl of FP8 KV %.6f\n", models[m], exact.nll, fp8.kl);
    assert_true(fabs(exact.nll - nll / (BYTES - 3)) < 1e-9);
    assert_true(fabs(exact.perplexity - exp(nll / (BYTES - 3))) < 1e-7);
    assert_true(fabs(fp8.kl - kl / (BYTES - 3)) < 1e-9);
    assert_true(fp8.kl > 0 && fp8.kl < 0.02);
    free(base);
    free(other);
    unmake(&bed);
  }
}

static void threads_change_nothing(void **state)
{
  (void)state;
  struct bed bed;
  float *base = room();
  make(&bed, models[1]);
  const struct kc_evaluation one = evaluate(&bed, BYTES, KC_KV_BF16, 0, base, NULL);
  const struct kc_evaluation three = evaluate(&bed, BYTES, KC_KV_BF16, 1, NULL, base);
  assert_true(one.nll == three.nll);
  assert_true(three.kl == 0 && three.same == 1);
  free(base);
  unmake(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_are_those_of_pytorch),
      cmocka_unit_test(figures_are_those_of_plain_sums),
      cmocka_unit_test(threads_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
