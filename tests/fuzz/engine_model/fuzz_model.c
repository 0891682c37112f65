/* Any bytes as a config.json: refused with a sentence, or a model whose every figure is within
 * bounds. The assertions in kc_model_parse and in the byte counts are part of the target. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
  if (!truth) abort();
}

static void use_model(const struct kc_model *model)
{
  struct kc_precision precision;
  kc_precision_default(&precision);
  const uint64_t whole = kc_model_checkpoint_bytes(model, &precision);
  require(whole >= kc_model_parameters(model) / 2);
  require(kc_model_parameters(model) <= UINT64_C(1) << 50);
  require(kc_model_active_parameters(model) <= kc_model_parameters(model));
  require(kc_model_rank_weight_bytes(model, &precision, 1, 0, 1) == whole);
  for (uint32_t tensor = 2; tensor <= 8; tensor *= 2) {
    const uint64_t rank = kc_model_rank_weight_bytes(model, &precision, tensor, 0, 1);
    require(rank <= whole);
    (void)kc_model_tensor_degree_valid(model, tensor, NULL);
  }
  for (int format = 0; format < KC_KV_FORMATS; format++) {
    const enum kc_kv_format kv = (enum kc_kv_format)format;
    require(kc_model_kv_token_bytes(model, kv, kv, 1) > 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct kc_model model; /* too large for a stack under sanitizers */
  struct kc_diag diag = {0};
  const enum kc_err err = kc_model_parse(&model, (const char *)data, size, "fuzz.json", &diag);
  if (err == KC_OK) {
    use_model(&model);
  } else {
    require(err == KC_ERR_INPUT);
    require(diag.text[0] != '\0');
  }
  return 0;
}
