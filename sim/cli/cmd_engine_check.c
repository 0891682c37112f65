/* kvcap engine check: does the engine compute what it should on this machine?
 *
 *   operations   each against a naive oracle or a property (engine/exec/self_check.h)
 *   memory       bytes of the KV pool against the bill that `kvcap fit` would write
 *
 * One line a check; exit status 1 when one fails.
 */
#include <stdio.h>

#include "engine/base/check.h"
#include "engine/exec/self_check_device.h"
#include "sim/cli/cmd_engine.h"
#include "sim/cli/engine_device.h"
#include "sim/cli/engine_setup.h"

enum { CHECK_SCHEMA = 1, CHECKS_MAX = 64, PAGES = 1000, PAGE_TOKENS = 16 };

struct arguments {
  int device;
  bool json;
};

static const struct kc_option options[] = {
    {.key = "device", .type = KC_OPTION_CHOICE, .offset = offsetof(struct arguments, device),
     .values = "cpu|cuda", .fallback = "cpu", .help = "What is checked."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct arguments, json),
     .help = "Print one JSON document instead of a line a check."},
};

static const struct kc_cli_usage usage = {
    .name = "engine check",
    .synopsis = "[options]",
    .about = "Checks every operation of the engine, the page tags and the memory of its KV pool.\n"
             "Exit status 1 when one is wrong, 7 when the device is not there.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
};

struct outcome {
  const char *name, *what;
  bool good;
  char text[KC_SELF_CHECK_TEXT_BYTES];
};

/* The pool takes what the model's bill says, for both formats. */
static bool check_memory(const struct kc_site *site, char *text)
{
  static const enum kc_kv_format formats[] = {KC_KV_BF16, KC_KV_FP8_E4M3};
  struct kc_engine_model model;
  struct kc_diag diag = {0};
  bool good = kc_engine_model_build(&model, site, 64, 1, &diag) == KC_OK;
  uint64_t held[2] = {0}, billed[2] = {0};
  for (int i = 0; i < 2 && good; i++) {
    struct kc_cache cache;
    const struct kc_cache_config config = {.k_format = formats[i], .v_format = formats[i],
                                           .pages = PAGES, .page_tokens = PAGE_TOKENS,
                                           .site = *site};
    good = kc_cache_init(&cache, &model.weights.recipe, &config, &diag) == KC_OK;
    if (!good) break;
    held[i] = cache.bytes;
    billed[i] = (uint64_t)PAGES * PAGE_TOKENS *
                kc_model_kv_token_bytes(&model.shapes, formats[i], formats[i], 1);
    good = held[i] == billed[i];
    kc_cache_deinit(&cache);
  }
  if (diag.code != KC_OK) {
    snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "%.120s", diag.text);
  } else {
    snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "bf16 %llu of %llu bytes, fp8 %llu of %llu",
             (unsigned long long)held[0], (unsigned long long)billed[0],
             (unsigned long long)held[1], (unsigned long long)billed[1]);
  }
  kc_engine_model_free(&model);
  return good;
}

static size_t run_checks(const struct kc_site *site, struct outcome outcome[CHECKS_MAX])
{
  size_t count;
  const struct kc_self_check *checks = kc_self_checks(&count);
  KC_ASSERT(count < CHECKS_MAX);
  for (size_t i = 0; i < count; i++) {
    outcome[i] = (struct outcome){.name = checks[i].name, .what = checks[i].what};
    outcome[i].good = kc_self_check_at(site, &checks[i], outcome[i].text);
  }
  outcome[count] = (struct outcome){.name = "memory", .what = "the KV pool is as large as billed"};
  outcome[count].good = check_memory(site, outcome[count].text);
  return count + 1;
}

static int print_json(const char *device, const struct outcome *outcome, size_t count,
                      size_t failed)
{
  json_t *list = json_array();
  for (size_t i = 0; i < count && list != NULL; i++) {
    json_t *row = json_pack("{s:s, s:s, s:b, s:s}", "name", outcome[i].name, "what",
                            outcome[i].what, "passed", (int)outcome[i].good, "found",
                            outcome[i].text);
    if (row == NULL || json_array_append_new(list, row) != 0) break;
  }
  json_t *root = json_pack("{s:i, s:s, s:I, s:o}", "schema", CHECK_SCHEMA, "device", device,
                           "failed", (json_int_t)failed, "checks", list);
  if (root != NULL && json_array_size(list) != count) { /* memory ran out for a row */
    json_decref(root);
    root = NULL;
  }
  return kc_cli_print_json(root);
}

int kc_cmd_engine_check(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_diag diag = {0};
  struct outcome outcome[CHECKS_MAX];
  struct kc_accelerator device;
  size_t failed = 0;
  int status = 0;
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, NULL, NULL);
  if (usage_status >= 0) return usage_status;
  if (kc_engine_device_open(&device, (enum kc_engine_device)a.device, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  const size_t count = run_checks(&device.site, outcome);
  for (size_t i = 0; i < count; i++) failed += !outcome[i].good;
  if (a.json) {
    status = print_json(kc_engine_device_name(&device), outcome, count, failed);
  } else {
    for (size_t i = 0; i < count; i++) {
      printf("%-6s %-12s %s: %s\n", outcome[i].good ? "ok" : "FAILED", outcome[i].name,
             outcome[i].what, outcome[i].text);
    }
    printf("%zu checks on %s, %zu failed\n", count, kc_engine_device_name(&device), failed);
  }
  kc_accelerator_close(&device);
  return status != 0 ? status : failed > 0;
}
