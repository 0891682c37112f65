/* Loads shipped files by name from the source tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "memory_data.h"

const char *const test_gpu_names[TEST_GPUS] = {"a100-80g", "h100",   "h200",     "b200",
                                               "l40s",     "mi300x", "rtx-4090", "rtx-pro-6000"};

const char *const test_model_names[TEST_MODELS] = {
    "kimi-k2",       "kimi-k2.5",     "kimi-k2.6",     "glm-5",        "glm-5.2", "glm-5.2-bf16",
    "deepseek-v3",   "llama-3.1-8b",  "llama-3.1-70b", "llama-4-scout", "qwen3-8b",
    "qwen3-32b",     "qwen3-30b-a3b", "gpt-oss-120b",  "mixtral-8x7b"};

void test_gpu_load(struct kc_gpu *gpu, const char *name)
{
  char path[512];
  struct kc_diag diag = {0};
  snprintf(path, sizeof path, "%s/scenarios/gpus/%s.yaml", KVCAP_SOURCE_DIR, name);
  if (kc_gpu_load(gpu, path, &diag) != KC_OK) {
    fail_msg("%s: line %u: %s", path, (unsigned)diag.line, diag.text);
  }
}

void test_model_load(struct kc_model *model, const char *name)
{
  char path[512];
  struct kc_diag diag = {0};
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", KVCAP_SOURCE_DIR, name);
  if (kc_model_load(model, path, &diag) != KC_OK) fail_msg("%s: %s", path, diag.text);
}

struct kc_precision test_precision(const char *weights, enum kc_kv_format kv)
{
  struct kc_precision precision;
  struct kc_diag diag = {0};
  kc_precision_default(&precision);
  precision.k_format = precision.v_format = kv;
  if (weights[0] != '\0' && kc_precision_parse(&precision, weights, &diag) != KC_OK) {
    fail_msg("%s: %s", weights, diag.text);
  }
  return precision;
}

void test_fit(struct kc_fit *fit, const struct kc_model *model,
              const struct kc_precision *precision, const struct kc_gpu *gpu,
              const struct kc_memory_config *config)
{
  struct kc_diag diag = {0};
  if (kc_fit_compute(fit, model, precision, gpu, config, &diag) != KC_OK) {
    fail_msg("%s on %s: %s", model->name, gpu->name, diag.text);
  }
}
