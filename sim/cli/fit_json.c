/* The bill of `kvcap fit` as a JSON object. Bytes are exact integers; every name says its unit.
 *
 * Schema 1. `failing` is null when it fits. `nearest_change` in it is the text to put at the end of
 * the same command (or null), `nearest_change_says` the sentence for people.
 */
#include "engine/base/check.h"
#include "sim/cli/fit.h"

enum { FIT_SCHEMA = 1 };

static json_t *whole(uint64_t value)
{
  KC_ASSERT(value <= INT64_MAX);
  return json_integer((json_int_t)value);
}

/* Pages of a stage; null where nothing limits them. */
static json_t *pages_of(uint64_t pages)
{
  return pages == UINT64_MAX ? json_null() : whole(pages);
}

static json_t *stages_json(const struct kc_fit *fit)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    const struct kc_stage_bill *stage = &fit->stage[i];
    json_array_append_new(
        list, json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "layer_first",
                        (int)stage->layer_first, "layer_count", (int)stage->layer_count,
                        "weights_per_gpu_bytes", whole(stage->weights_bytes), "kv_bytes_per_token",
                        whole(stage->kv_token_bytes), "kv_bytes_per_request",
                        whole(stage->kv_request_bytes), "kv_budget_bytes",
                        whole(stage->kv_budget_bytes), "pages", pages_of(stage->pages)));
  }
  return list;
}

static json_t *failing_json(const struct fit_question *question, const struct kc_fit *fit)
{
  if (fit->fits) return json_null();
  char change[1024] = "";
  if (fit->has_change) kc_fit_change_text(question, &fit->change, change, sizeof change);
  return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "phase", fit->phase, "need_bytes",
                   whole(fit->need_bytes), "have_bytes", whole(fit->have_bytes), "inequality",
                   fit->inequality, "nearest_change",
                   fit->has_change ? json_string(change) : json_null(), "nearest_change_says",
                   fit->has_change ? json_string(fit->change.sentence) : json_null());
}

static json_t *classes_json(const struct kc_fit *fit)
{
  json_t *map = json_object();
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    json_object_set_new(map, kc_tensor_class_name((enum kc_tensor_class)c),
                        whole(fit->class_bytes[c]));
  }
  return map;
}

/* Formats asked for; a class left to the checkpoint has no entry. */
static json_t *formats_json(const struct kc_precision *precision)
{
  json_t *map = json_object();
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    if (precision->weight[c] == KC_WEIGHT_DEFAULT) continue;
    json_object_set_new(map, kc_tensor_class_name((enum kc_tensor_class)c),
                        json_string(kc_weight_format_name(precision->weight[c])));
  }
  return map;
}

static int add_question(json_t *root, const struct fit_question *question)
{
  const struct kc_memory_config *config = &question->config;
  const struct kc_precision *precision = &question->precision;
  int bad = 0;
  bad |= json_object_set_new(root, "model", json_string(question->model.name));
  bad |= json_object_set_new(root, "model_sha256", json_string(question->model.sha256));
  bad |= json_object_set_new(root, "gpu", json_string(question->gpu.name));
  bad |= json_object_set_new(root, "gpu_sha256", json_string(question->gpu.sha256));
  bad |= json_object_set_new(root, "tensor", whole(config->tensor));
  bad |= json_object_set_new(root, "pipeline", whole(config->pipeline));
  bad |= json_object_set_new(root, "gpus", whole(config->tensor * config->pipeline));
  bad |= json_object_set_new(root, "draft_layers", whole(config->draft_layers));
  bad |= json_object_set_new(root, "k_format", json_string(kc_kv_format_name(precision->k_format)));
  bad |= json_object_set_new(root, "v_format", json_string(kc_kv_format_name(precision->v_format)));
  bad |= json_object_set_new(root, "weight_formats", formats_json(precision));
  bad |= json_object_set_new(root, "context",
                             config->context > 0 ? whole(config->context) : json_null());
  bad |= json_object_set_new(root, "concurrency",
                             config->concurrency > 0 ? whole(config->concurrency) : json_null());
  return bad;
}

static int add_board(json_t *root, const struct kc_fit *fit)
{
  static const char *const rule[] = {"sglang", "vllm", "fixed"};
  const bool is_fixed = fit->rule == KC_RULE_FIXED;
  int bad = 0;
  bad |= json_object_set_new(root, "memory_rule", json_string(rule[fit->rule]));
  bad |= json_object_set_new(root, "fraction", is_fixed ? json_null() : json_real(fit->fraction));
  bad |= json_object_set_new(root, "fraction_is_default", json_boolean(fit->fraction_is_default));
  bad |= json_object_set_new(root, "memory_confirmed", json_boolean(fit->memory_confirmed));
  bad |= json_object_set_new(root, "over_board", json_boolean(fit->over_board));
  bad |= json_object_set_new(root, "total_bytes", whole(fit->total_bytes));
  bad |= json_object_set_new(root, "free_bytes", whole(fit->pre_bytes));
  bad |= json_object_set_new(root, "usable_bytes",
                             is_fixed ? json_null() : whole(fit->usable_bytes));
  bad |= json_object_set_new(root, "reserve_bytes", whole(fit->reserve_bytes));
  bad |= json_object_set_new(root, "activation_bytes", whole(fit->activation_bytes));
  bad |= json_object_set_new(root, "non_torch_bytes", whole(fit->non_torch_bytes));
  bad |= json_object_set_new(root, "extra_bytes", whole(fit->extra_bytes));
  bad |= json_object_set_new(root, "weights_per_gpu_bytes", whole(fit->weights_bytes));
  bad |= json_object_set_new(root, "weights_by_class_bytes", classes_json(fit));
  return bad;
}

static int add_kv(json_t *root, const struct fit_question *question, const struct kc_fit *fit)
{
  const bool is_asked = question->config.context > 0;
  int bad = 0;
  bad |= json_object_set_new(root, "fits", json_boolean(fit->fits));
  bad |= json_object_set_new(root, "replicas", whole(question->replicas));
  bad |= json_object_set_new(root, "checkpoint_bytes", whole(fit->checkpoint_bytes));
  bad |= json_object_set_new(root, "parameters", whole(fit->parameters));
  bad |= json_object_set_new(root, "kv_tokens", whole(fit->kv_tokens));
  bad |= json_object_set_new(root, "kv_tokens_balanced", whole(fit->kv_tokens_balanced));
  bad |= json_object_set_new(root, "kv_bytes_per_token", whole(fit->kv_token_bytes));
  bad |= json_object_set_new(root, "kv_bytes_per_request", whole(fit->kv_request_bytes));
  bad |= json_object_set_new(root, "windows_charged_per_token",
                             json_boolean(fit->windows_per_token));
  bad |= json_object_set_new(root, "kv_budget_bytes", whole(fit->kv_budget_bytes));
  bad |= json_object_set_new(root, "kv_bounded_bytes", whole(fit->kv_bounded_bytes));
  bad |= json_object_set_new(root, "pages", whole(fit->pages));
  bad |= json_object_set_new(root, "page_size", whole(fit->page_size));
  bad |= json_object_set_new(root, "concurrency_max",
                             is_asked ? whole(fit->concurrency_max) : json_null());
  bad |= json_object_set_new(root, "stages", stages_json(fit));
  bad |= json_object_set_new(root, "stage_fullest", whole(fit->stage_fullest));
  bad |= json_object_set_new(root, "failing", failing_json(question, fit));
  return bad;
}

json_t *kc_fit_json(const struct fit_question *question, const struct kc_fit *fit)
{
  KC_ASSERT(question != NULL && fit != NULL);
  KC_ASSERT(fit->stage_count >= 1);
  json_t *root = json_object();
  if (root == NULL) return NULL;
  int bad = json_object_set_new(root, "schema", json_integer(FIT_SCHEMA));
  bad |= add_question(root, question);
  bad |= add_board(root, fit);
  bad |= add_kv(root, question, fit);
  if (bad == 0) return root;
  json_decref(root);
  return NULL;
}
