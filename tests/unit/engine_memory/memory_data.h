/* Shipped models and GPUs, loaded for tests. A file that does not load fails the test. */
#ifndef KC_TESTS_UNIT_ENGINE_MEMORY_MEMORY_DATA_H
#define KC_TESTS_UNIT_ENGINE_MEMORY_MEMORY_DATA_H

#include "engine/memory/budget.h"

enum { TEST_GPUS = 8, TEST_MODELS = 15 };

extern const char *const test_gpu_names[TEST_GPUS];
extern const char *const test_model_names[TEST_MODELS];

void test_gpu_load(struct kc_gpu *gpu, const char *name);
void test_model_load(struct kc_model *model, const char *name);

/* Reads "class=format,..." into a default precision with one KV format. */
struct kc_precision test_precision(const char *weights, enum kc_kv_format kv);

/* Computes a bill that must be possible (it may still not fit). */
void test_fit(struct kc_fit *fit, const struct kc_model *model,
              const struct kc_precision *precision, const struct kc_gpu *gpu,
              const struct kc_memory_config *config);

#endif
