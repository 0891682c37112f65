/* The bill of `kvcap fit` for people: what is being asked, the bill per GPU to the byte and in GiB,
 * and one sentence that answers.
 *
 *   per GPU                                bytes         GiB
 *   free before weights          148,176,371,712      138.00
 *     reserve                     ...
 *     weights                     ...
 *       routed experts            ...
 *     KV pool                     ...
 *
 *   Fits: 684,186 tokens of KV (10,690 pages of 64), 60 requests of 11,240 tokens
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/fit.h"

enum { GROUPED_BYTES = 32, LABEL_WIDTH = 30 };

/* 1234567 -> "1,234,567". */
static const char *grouped(uint64_t value, char out[GROUPED_BYTES])
{
  char digits[GROUPED_BYTES];
  const int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
  KC_ASSERT(length > 0 && length <= 20);
  size_t used = 0;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) out[used++] = ',';
    out[used++] = digits[i];
  }
  out[used] = '\0';
  return out;
}

static void print_row(unsigned indent, const char *label, uint64_t bytes)
{
  char number[GROUPED_BYTES];
  printf("%*s%-*s %22s %11.2f\n", (int)indent, "", LABEL_WIDTH - (int)indent, label,
         grouped(bytes, number), (double)bytes / 1073741824.0);
}

/* Row of a part that is left out when it is zero. */
static void print_part(unsigned indent, const char *label, uint64_t bytes)
{
  if (bytes > 0) print_row(indent, label, bytes);
}

/* ---- what is asked ---- */

static void print_weight_formats(const struct kc_precision *precision)
{
  const char *separator = "";
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    if (precision->weight[c] == KC_WEIGHT_DEFAULT) continue;
    printf("%s%s %s", separator, kc_tensor_class_name((enum kc_tensor_class)c),
           kc_weight_format_name(precision->weight[c]));
    separator = ", ";
  }
  if (separator[0] == '\0') printf("as published");
}

static void print_rule(const struct kc_fit *fit)
{
  static const char *const name[] = {"sglang", "vllm", "given outright"};
  printf("memory    %s", name[fit->rule]);
  if (fit->rule != KC_RULE_FIXED) {
    printf(", fraction %.4g%s", fit->fraction,
           fit->fraction_is_default ? " (the framework's default)" : "");
  }
  if (fit->rule == KC_RULE_VLLM) printf(", %u requests at once", fit->max_running);
  printf("\n");
}

static void print_heading(const struct fit_question *question, const struct kc_fit *fit)
{
  const struct kc_memory_config *config = &question->config;
  const struct kc_precision *precision = &question->precision;
  printf("%s on %u x %s", question->model.name, config->tensor * config->pipeline,
         question->gpu.title);
  if (config->pipeline > 1) {
    printf(" (tensor %u x pipeline %u)", config->tensor, config->pipeline);
  } else if (config->tensor > 1) {
    printf(" (tensor %u)", config->tensor);
  }
  printf("\n\nmodel     %.2f B parameters, checkpoint %.1f GiB\nweights   ",
         (double)fit->parameters / 1e9, (double)fit->checkpoint_bytes / 1073741824.0);
  print_weight_formats(precision);
  printf("\nKV        %s", kc_kv_format_name(precision->k_format));
  if (precision->v_format != precision->k_format) {
    printf(" keys, %s values", kc_kv_format_name(precision->v_format));
  }
  printf(", pages of %u token%s", fit->page_size, kc_plural(fit->page_size));
  if (config->draft_layers > 0) {
    printf(", %u draft layer%s", config->draft_layers, kc_plural(config->draft_layers));
  }
  printf("\n");
  print_rule(fit);
}

/* ---- the bill ---- */

static void print_classes(const struct kc_fit *fit)
{
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    char label[LABEL_WIDTH];
    snprintf(label, sizeof label, "%s", kc_tensor_class_name((enum kc_tensor_class)c));
    for (char *s = label; *s != '\0'; s++) {
      if (*s == '_') *s = ' ';
    }
    print_part(4, label, fit->class_bytes[c]);
  }
}

static void print_bill(const struct kc_fit *fit)
{
  if (fit->stage_count > 1) {
    printf("\nper GPU of stage %-13u %22s %11s\n", fit->stage_fullest, "bytes", "GiB");
  } else {
    printf("\n%-*s %22s %11s\n", LABEL_WIDTH, "per GPU", "bytes", "GiB");
  }
  if (fit->rule == KC_RULE_SGLANG) print_row(0, "free before weights", fit->pre_bytes);
  if (fit->rule == KC_RULE_VLLM) print_row(0, "total", fit->total_bytes);
  print_part(2, "reserve", fit->reserve_bytes);
  print_row(2, "weights", fit->weights_bytes);
  print_classes(fit);
  print_part(2, "extra", fit->extra_bytes);
  print_part(2, "peak activation", fit->activation_bytes);
  print_part(2, "non-torch", fit->non_torch_bytes);
  print_row(2, "KV budget", fit->kv_budget_bytes);
  print_part(4, "bounded layers", fit->kv_bounded_bytes);
}

static void print_stages(const struct kc_fit *fit)
{
  char weights[GROUPED_BYTES], budget[GROUPED_BYTES], pages[GROUPED_BYTES];
  if (fit->stage_count == 1) return;
  printf("\nstage  layers         weights B       KV budget B  B/token           pages\n");
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    const struct kc_stage_bill *stage = &fit->stage[i];
    printf("%5u %7u %17s %17s %8" PRIu64 " %15s%s\n", i, stage->layer_count,
           grouped(stage->weights_bytes, weights), grouped(stage->kv_budget_bytes, budget),
           stage->kv_token_bytes,
           stage->pages == UINT64_MAX ? "no limit" : grouped(stage->pages, pages),
           i == fit->stage_fullest ? "  decides" : "");
  }
  printf("\nIf layers could be dealt out evenly: %s tokens of KV\n",
         grouped(fit->kv_tokens_balanced, pages));
}

static void print_costs(const struct kc_fit *fit)
{
  char token[GROUPED_BYTES], page[GROUPED_BYTES], request[GROUPED_BYTES];
  printf("\nKV of a token %s B, of a page %s B per GPU", grouped(fit->kv_token_bytes, token),
         grouped(fit->kv_token_bytes * fit->page_size, page));
  if (fit->kv_request_bytes > 0) {
    printf(", of a request's bounded layers %s B", grouped(fit->kv_request_bytes, request));
  }
  printf("\n");
  if (fit->windows_per_token) {
    printf("Every layer has a window; a token is charged as if it were kept, so what a request "
           "holds beyond\nits windows is overstated\n");
  }
}

/* ---- the answer ---- */

/* What all of them hold. */
static void print_replicas(const struct fit_question *question, const struct kc_fit *fit)
{
  char tokens[GROUPED_BYTES], most[GROUPED_BYTES];
  const uint64_t n = question->replicas;
  const uint64_t gpus = n * question->config.tensor * question->config.pipeline;
  printf("In each of %llu replicas; in all %s tokens", (unsigned long long)n,
         grouped(n * fit->kv_tokens, tokens));
  if (question->config.context > 0) {
    printf(", %s requests", grouped(n * fit->concurrency_max, most));
  }
  printf(" on %llu GPUs\n", (unsigned long long)gpus);
}

static void print_yes(const struct fit_question *question, const struct kc_fit *fit)
{
  char tokens[GROUPED_BYTES], pages[GROUPED_BYTES], most[GROUPED_BYTES], context[GROUPED_BYTES];
  printf("\nFits: %s tokens of KV (%s pages of %u)", grouped(fit->kv_tokens, tokens),
         grouped(fit->pages, pages), fit->page_size);
  if (question->config.context > 0) {
    printf(", %s request%s of %s tokens", grouped(fit->concurrency_max, most),
           kc_plural(fit->concurrency_max), grouped(question->config.context, context));
  }
  printf("\n");
  if (fit->kv_request_bytes > 0 && fit->kv_bounded_bytes == 0) {
    printf("      with no request running: each takes %s bytes of that for its bounded layers, as "
           "`kvcap run` counts\n", grouped(fit->kv_request_bytes, tokens));
  }
  if (question->replicas > 1) print_replicas(question, fit);
}

static void print_no(const struct fit_question *question, const struct kc_fit *fit)
{
  static const struct {
    const char *phase, *says;
  } words[] = {{"load", "the weights are too large"},
               {"graphs", "the weights load, activations have no room"},
               {"admission", "one request has no room"},
               {"growth", "the requests outgrow the pool"}};
  const char *says = "";
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcmp(words[i].phase, fit->phase) == 0) says = words[i].says;
  }
  printf("\nDoes not fit (%s: %s)\n  %s\n", fit->phase, says, fit->inequality);
  char change[1024];
  if (fit->has_change) {
    kc_fit_change_text(question, &fit->change, change, sizeof change);
    printf("Nearest change: %s\n  %s\n", fit->change.sentence, change);
  } else {
    printf("No single change of KV format, weight format, tensor degree, GPU, context, concurrency "
           "or fraction\nmakes it fit.\n");
  }
}

void kc_fit_print(const struct fit_question *question, const struct kc_fit *fit)
{
  KC_ASSERT(question != NULL && fit != NULL);
  KC_ASSERT(fit->stage_count >= 1);
  print_heading(question, fit);
  print_bill(fit);
  print_stages(fit);
  print_costs(fit);
  if (fit->fits) {
    print_yes(question, fit);
  } else {
    print_no(question, fit);
  }
}

/* ---- caveats ---- */

void kc_fit_notes(const struct fit_question *question, const struct kc_fit *fit)
{
  KC_ASSERT(question != NULL && fit != NULL);
  const struct kc_model *model = &question->model;
  char a[GROUPED_BYTES], b[GROUPED_BYTES];
  if (!fit->memory_confirmed) {
    kc_cli_note("what %s has free is not confirmed; %s says how it was derived", question->gpu.name,
                question->gpu.path);
  }
  if (fit->over_board) {
    kc_cli_note("the pool is given, so weights are not checked: weights and pool take more than "
                "the %s bytes of %s", grouped(fit->total_bytes, a), question->gpu.name);
  }
  if (model->context_max > 0 && question->config.context > model->context_max) {
    kc_cli_note("a context of %s tokens is beyond the %s that %s was made for",
                grouped(question->config.context, a), grouped(model->context_max, b), model->name);
  }
}

/* ---- the change as typed ---- */

static void append_set(char *out, size_t size, const char *pool, const char *key,
                       const char *value)
{
  const size_t used = strlen(out);
  KC_ASSERT(used < size);
  snprintf(out + used, size - used, "%s--set pools.%s.%s=%s", used == 0 ? "" : " ", pool, key,
           value);
}

static void set_weights(const struct fit_question *question, const struct kc_change *change,
                        char *out, size_t size)
{
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    if (change->precision.weight[c] == question->precision.weight[c]) continue;
    char key[64];
    snprintf(key, sizeof key, "weights.%s", kc_tensor_class_name((enum kc_tensor_class)c));
    append_set(out, size, question->pool, key, kc_weight_format_name(change->precision.weight[c]));
  }
}

static void set_kv(const struct fit_question *question, const struct kc_change *change, char *out,
                   size_t size)
{
  const char *name = kc_kv_format_name(change->precision.k_format);
  append_set(out, size, question->pool, "kv.format", name);
  if (question->precision.k_format == question->precision.v_format) return;
  append_set(out, size, question->pool, "kv.k_format", name);
  append_set(out, size, question->pool, "kv.v_format", name);
}

void kc_fit_change_text(const struct fit_question *question, const struct kc_change *change,
                        char *out, size_t size)
{
  KC_ASSERT(size > sizeof change->option);
  char value[64];
  out[0] = '\0';
  if (question->scenario[0] == '\0' || change->kind == KC_CHANGE_CONTEXT ||
      change->kind == KC_CHANGE_CONCURRENCY) {
    snprintf(out, size, "%s", change->option);
    return;
  }
  switch (change->kind) {
    case KC_CHANGE_KV: set_kv(question, change, out, size); break;
    case KC_CHANGE_WEIGHTS: set_weights(question, change, out, size); break;
    case KC_CHANGE_TENSOR:
      snprintf(value, sizeof value, "%u", change->tensor);
      append_set(out, size, question->pool, "parallel.tensor", value);
      break;
    case KC_CHANGE_GPU: append_set(out, size, question->pool, "gpu", change->gpu); break;
    default:
      KC_ASSERT(change->kind == KC_CHANGE_FRACTION);
      snprintf(value, sizeof value, "%.2f", change->fraction);
      append_set(out, size, question->pool, "memory.fraction", value);
  }
}
