/* kvcap fit: the memory bill of a model on a GPU, to the byte, and what to change when it does not
 * fit.
 *
 *   options or scenario -> struct fit_question -> kc_fit_compute -> bill  (fit_print.c, fit_json.c)
 *                                                     `- fails -> kc_fit_nearest_change over every
 *                                                        GPU file in the folder of the one in use
 *
 * An option given twice counts as given last, with a note: so the nearest change can simply be put
 * at the end of the command that failed. Exit status 0 fits, 5 does not, 2 and 3 as everywhere.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"
#include "sim/cli/fit.h"
#include "sim/scenario/scenario.h"

enum { GPUS_MAX = 64 };

struct fit_arguments {
  bool json;
  char model[KC_DIAG_PATH_BYTES], gpu[KC_DIAG_PATH_BYTES], scenario[KC_DIAG_PATH_BYTES];
  char weights[512];
  int kv, k_format, v_format; /* enum kc_kv_format */
  int rule;                   /* enum kc_memory_rule */
  struct kc_memory_config config;
  uint32_t replicas;
  struct kc_option_list sets;
  bool has_k_format, has_v_format;
  /* options that a scenario states itself; set_offset points here */
  bool has_model, has_gpu, has_tensor, has_pipeline, has_weights, has_kv, has_page_size, has_rule,
      has_fraction, has_kv_budget, has_pages, has_draft_layers, has_extra, has_max_running,
      has_replicas;
};

#define FIELD(NAME) .offset = offsetof(struct fit_arguments, NAME)
#define CONFIG(NAME) \
  .offset = offsetof(struct fit_arguments, config) + offsetof(struct kc_memory_config, NAME)
#define GIVEN(NAME) .set_offset = offsetof(struct fit_arguments, NAME)
#define KV_FORMATS "bf16|fp8-e4m3|fp8-g128|int8|fp4"

static const struct kc_option fit_options[] = {
  {.key = "model", .type = KC_OPTION_TEXT, FIELD(model), .size = KC_DIAG_PATH_BYTES,
   GIVEN(has_model), .values = "NAME", .help = "model of scenarios/models, or a config.json"},
  {.key = "gpu", .type = KC_OPTION_TEXT, FIELD(gpu), .size = KC_DIAG_PATH_BYTES, GIVEN(has_gpu),
   .values = "NAME", .help = "GPU of scenarios/gpus, or a file like those"},
  {.key = "tensor", .type = KC_OPTION_U32, CONFIG(tensor), GIVEN(has_tensor), .min = 1,
   .max = KC_TENSOR_DEGREE_MAX, .fallback = "1", .unit = "GPUs", .help = "tensor-parallel degree"},
  {.key = "pipeline", .type = KC_OPTION_U32, CONFIG(pipeline), GIVEN(has_pipeline), .min = 1,
   .max = KC_STAGES_MAX, .fallback = "1", .unit = "stages", .help = "pipeline stages"},
  {.key = "replicas", .type = KC_OPTION_U32, FIELD(replicas), GIVEN(has_replicas), .min = 1,
   .max = KC_REPLICAS_MAX, .fallback = "1", .unit = "instances",
   .help = "equal instances; what all of them hold is said beside the bill of one"},
  {.key = "weights", .type = KC_OPTION_TEXT, FIELD(weights), .size = 512, GIVEN(has_weights),
   .values = "CLASS=FORMAT,...",
   .help = "weight formats, such as routed_experts=int4-g32,default=bf16,mtp=none"},
  {.key = "kv", .type = KC_OPTION_CHOICE, FIELD(kv), GIVEN(has_kv), .fallback = "bf16",
   .values = KV_FORMATS, .help = "format of keys and values"},
  {.key = "k-format", .type = KC_OPTION_CHOICE, FIELD(k_format), GIVEN(has_k_format),
   .values = KV_FORMATS, .help = "format of keys alone"},
  {.key = "v-format", .type = KC_OPTION_CHOICE, FIELD(v_format), GIVEN(has_v_format),
   .values = KV_FORMATS, .help = "format of values alone"},
  {.key = "page-size", .type = KC_OPTION_U32, CONFIG(page_size), GIVEN(has_page_size), .min = 1,
   .max = KC_PAGE_SIZE_MAX, .unit = "tokens",
   .help = "tokens in a page of KV; when left out 16 for vllm, 64 for sglang"},
  {.key = "memory-rule", .type = KC_OPTION_CHOICE, FIELD(rule), GIVEN(has_rule),
   .fallback = "sglang", .values = "sglang|vllm", .help = "whose arithmetic sets the KV budget"},
  {.key = "fraction", .type = KC_OPTION_DOUBLE, CONFIG(fraction), GIVEN(has_fraction), .min = 0.01,
   .max = 1, .help = "mem_fraction_static or gpu_memory_utilization; when left out the framework's "
   "own default"},
  {.key = "kv-budget", .type = KC_OPTION_BYTES, CONFIG(kv_budget_bytes), GIVEN(has_kv_budget),
   .min = 1, .max = 4e18, .help = "KV budget per GPU, instead of a rule"},
  {.key = "pages", .type = KC_OPTION_U64, CONFIG(pages), GIVEN(has_pages), .min = 1, .max = 4e9,
   .unit = "pages", .help = "pages in the pool, instead of a rule"},
  {.key = "draft-layers", .type = KC_OPTION_U32, CONFIG(draft_layers), GIVEN(has_draft_layers),
   .max = KC_DRAFT_LAYERS_MAX, .fallback = "0", .unit = "layers",
   .help = "KV layers of a draft head, without weights"},
  {.key = "extra", .type = KC_OPTION_BYTES, CONFIG(extra_bytes), GIVEN(has_extra), .fallback = "0",
   .help = "bytes per GPU to set aside for anything else"},
  {.key = "max-running", .type = KC_OPTION_U32, CONFIG(max_running), GIVEN(has_max_running),
   .min = 1, .max = 65536, .unit = "requests",
   .help = "requests in one step, for vllm's activation peak; when left out vLLM's default"},
  {.key = "context", .type = KC_OPTION_U64, CONFIG(context), .min = 1, .max = 4e9, .unit = "tokens",
   .help = "tokens that a request reaches: say how many such requests fit"},
  {.key = "concurrency", .type = KC_OPTION_U32, CONFIG(concurrency), .min = 1, .max = 1e9,
   .unit = "requests",
   .help = "requests of --context tokens that must fit together, an equal share in each replica"},
  {.key = "scenario", .type = KC_OPTION_TEXT, FIELD(scenario), .size = KC_DIAG_PATH_BYTES,
   .values = "FILE", .help = "take model, GPU, precision and memory from a scenario"},
  {.key = "set", .type = KC_OPTION_LIST, FIELD(sets), .values = "KEY=VALUE",
   .help = "override a key of the scenario"},
  {.key = "json", .type = KC_OPTION_FLAG, FIELD(json), .help = "print one JSON document"},
};
enum { FIT_OPTIONS = sizeof fit_options / sizeof fit_options[0] };

static const struct kc_cli_usage fit_usage = {
  .name = "fit",
  .synopsis = "[SCENARIO] [options]",
  .about = "Prints what a model takes on each GPU, how many tokens of KV are left, and, when it\n"
           "does not fit, the inequality that fails and the nearest single change that fits.\n"
           "An option given twice counts as given last.",
  .options = fit_options,
  .option_count = FIT_OPTIONS,
  .positional_max = 1,
  .epilogue =
      "examples:\n"
      "  kvcap fit --model kimi-k2.6 --gpu h200 --tensor 8 --kv fp8-e4m3\n"
      "  kvcap fit --model llama-3.1-8b --gpu h100 --memory-rule vllm --context 8192 "
      "--concurrency 64\n"
      "  kvcap fit scenarios/examples/kimi-k2.6-decode-8xh200.yaml --set pools.decode.gpu=h100",
};

/* ---- arguments ---- */

static const struct kc_option *option_named(const char *argument)
{
  if (strncmp(argument, "--", 2) != 0) return NULL;
  const size_t length = strcspn(argument + 2, "=");
  for (size_t i = 0; i < FIT_OPTIONS; i++) {
    if (strlen(fit_options[i].key) != length) continue;
    if (strncmp(fit_options[i].key, argument + 2, length) == 0) return &fit_options[i];
  }
  return NULL;
}

/* Arguments that an option takes up: 2 when its value stands behind it. */
static int span_of(const struct kc_option *option, const char *argument)
{
  return option->type == KC_OPTION_FLAG || strchr(argument, '=') != NULL ? 1 : 2;
}

/* `later` makes `earlier` void: the same option, or --kv, which sets what the other two set. */
static bool overrides(const struct kc_option *later, const struct kc_option *earlier)
{
  if (later->type == KC_OPTION_LIST) return false;
  if (later == earlier) return true;
  return strcmp(later->key, "kv") == 0 && (strcmp(earlier->key, "k-format") == 0 ||
                                           strcmp(earlier->key, "v-format") == 0);
}

static bool is_overridden(int argc, char **argv, int at)
{
  const struct kc_option *option = option_named(argv[at]);
  if (option == NULL) return false;
  for (int i = at + span_of(option, argv[at]); i < argc;) {
    if (strcmp(argv[i], "--") == 0) return false;
    const struct kc_option *other = option_named(argv[i]);
    if (other != NULL && overrides(other, option)) {
      kc_cli_note("--%s is set again later by --%s; the last one counts", option->key, other->key);
      return true;
    }
    i += other != NULL ? span_of(other, argv[i]) : 1;
  }
  return false;
}

/* Copies into `out` the arguments that count; returns their number. */
static int last_ones(int argc, char **argv, char **out)
{
  int kept = 0;
  bool is_over = false; /* past "--" */
  for (int i = 0; i < argc;) {
    is_over = is_over || strcmp(argv[i], "--") == 0;
    const struct kc_option *option = is_over || i == 0 ? NULL : option_named(argv[i]);
    const int span = option != NULL ? span_of(option, argv[i]) : 1;
    const bool keep = option == NULL || !is_overridden(argc, argv, i);
    for (int j = i; keep && j < i + span && j < argc; j++) out[kept++] = argv[j];
    i += span;
  }
  KC_ASSERT(kept >= 1 && kept <= argc);
  return kept;
}

static int read_arguments(struct fit_arguments *arguments, int argc, char **argv)
{
  char **kept = calloc((size_t)argc + 1, sizeof *kept);
  if (kept == NULL) {
    struct kc_diag diag;
    kc_fail(&diag, KC_ERR_MEMORY, "the host ran out of memory while the arguments were read");
    return kc_cli_fail(&diag);
  }
  const char *positional[1] = {NULL};
  size_t given = 0;
  kc_memory_config_default(&arguments->config);
  int status = kc_cli_arguments(&fit_usage, arguments, last_ones(argc, argv, kept), kept,
                                positional, &given);
  free(kept);
  if (status >= 0 || given == 0) return status;
  struct kc_diag diag;
  if (arguments->scenario[0] != '\0') {
    kc_fail(&diag, KC_ERR_USAGE, "a scenario is given twice, as \"%.128s\" and with --scenario; "
            "keep one", positional[0]);
    return kc_cli_fail(&diag);
  }
  if (strlen(positional[0]) >= sizeof arguments->scenario) {
    kc_fail(&diag, KC_ERR_USAGE, "the scenario's path is longer than %zu bytes",
            sizeof arguments->scenario - 1);
    return kc_cli_fail(&diag);
  }
  snprintf(arguments->scenario, sizeof arguments->scenario, "%s", positional[0]);
  return status;
}

/* ---- the question ---- */

/* Requests of one replica when all hold equal shares. */
static uint32_t share_of(uint32_t requests, uint32_t replicas)
{
  KC_ASSERT(replicas >= 1);
  return requests / replicas + (requests % replicas != 0);
}

/* The first option given that a scenario states itself, or NULL. */
static const char *clashing_option(const struct fit_arguments *arguments)
{
  for (size_t i = 0; i < FIT_OPTIONS; i++) {
    const size_t offset = fit_options[i].set_offset;
    if (offset != 0 && *((const bool *)arguments + offset)) return fit_options[i].key;
  }
  return NULL;
}

/* Options that the way the pool is set leaves without effect. */
static enum kc_err check_pool(const struct fit_arguments *arguments, struct kc_diag *diag)
{
  const bool is_fixed = arguments->has_kv_budget || arguments->has_pages;
  if (arguments->has_kv_budget && arguments->has_pages) {
    return kc_fail(diag, KC_ERR_USAGE, "--kv-budget and --pages each set the pool; keep one");
  }
  if (is_fixed && (arguments->has_fraction || arguments->has_extra)) {
    return kc_fail(diag, KC_ERR_USAGE, "--%s does not apply when --%s sets the pool; keep one",
                   arguments->has_fraction ? "fraction" : "extra",
                   arguments->has_pages ? "pages" : "kv-budget");
  }
  if (arguments->has_max_running && (is_fixed || arguments->rule != KC_RULE_VLLM)) {
    return kc_fail(diag, KC_ERR_USAGE, "--max-running sizes the activation peak of --memory-rule "
                   "vllm and does not apply here; take it away");
  }
  return KC_OK;
}

static enum kc_err check_arguments(const struct fit_arguments *arguments, struct kc_diag *diag)
{
  if (arguments->config.concurrency > 0 && arguments->config.context == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--concurrency says how many requests of --context tokens "
                   "must fit; give --context as well");
  }
  if (arguments->scenario[0] != '\0') {
    const char *clash = clashing_option(arguments);
    if (clash == NULL) return KC_OK;
    return kc_fail(diag, KC_ERR_USAGE, "--%s does not go with a scenario, which says it itself; "
                   "use --set KEY=VALUE", clash);
  }
  if (arguments->sets.count > 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--set changes keys of a scenario, and none is given");
  }
  if (!arguments->has_model || !arguments->has_gpu) {
    return kc_fail(diag, KC_ERR_USAGE, "--%s is missing; give --model and --gpu, or a scenario",
                   arguments->has_model ? "gpu" : "model");
  }
  return check_pool(arguments, diag);
}

static enum kc_err ask_by_options(struct fit_question *question,
                                  const struct fit_arguments *arguments, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  kc_precision_default(&question->precision);
  if (arguments->has_weights) {
    KC_TRY(kc_precision_parse(&question->precision, arguments->weights, diag));
  }
  const int k = arguments->has_k_format ? arguments->k_format : arguments->kv;
  const int v = arguments->has_v_format ? arguments->v_format : arguments->kv;
  KC_ASSERT(k >= 0 && k < KC_KV_FORMATS && v >= 0 && v < KC_KV_FORMATS);
  question->precision.k_format = (enum kc_kv_format)k;
  question->precision.v_format = (enum kc_kv_format)v;
  question->config = arguments->config;
  question->config.rule = (enum kc_memory_rule)arguments->rule;
  question->replicas = arguments->replicas;
  question->config.concurrency = share_of(arguments->config.concurrency, question->replicas);
  KC_TRY(kc_data_find_option("--model", "models", arguments->model, ".json", NULL, path, diag));
  KC_TRY(kc_model_load(&question->model, path, diag));
  if (question->model.is_mla && (arguments->has_k_format || arguments->has_v_format)) {
    return kc_fail(diag, KC_ERR_USAGE, "%s keeps one latent for keys and values; use --kv instead "
                   "of --%s", question->model.name,
                   arguments->has_k_format ? "k-format" : "v-format");
  }
  KC_TRY(kc_data_find_option("--gpu", "gpus", arguments->gpu, ".yaml", NULL, path, diag));
  return kc_gpu_load(&question->gpu, path, diag);
}

static void take_pool(struct fit_question *question, const struct kc_scenario *scenario,
                      const struct fit_arguments *arguments)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  question->model = scenario->model;
  question->gpu = pool->gpu;
  question->precision = pool->precision;
  question->config = pool->memory;
  question->config.context = arguments->config.context;
  question->replicas = pool->replicas;
  question->config.concurrency = share_of(arguments->config.concurrency, question->replicas);
  /* The loader fills the default in. It must stay a default here, or a search over boards and
   * degrees would carry this board's fraction along. */
  if (question->config.fraction == kc_memory_default_fraction(question->config.rule, &pool->gpu,
                                                              &scenario->model, &pool->memory)) {
    question->config.fraction = 0;
  }
  snprintf(question->scenario, sizeof question->scenario, "%s", arguments->scenario);
  snprintf(question->pool, sizeof question->pool, "%s", pool->name);
}

static int ask_by_scenario(struct fit_question *question, const struct fit_arguments *arguments)
{
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  int status = -1;
  if (scenario == NULL || problems == NULL) {
    struct kc_diag diag;
    kc_fail(&diag, KC_ERR_MEMORY, "the host ran out of memory while the scenario was read");
    status = kc_cli_fail(&diag);
  } else if (kc_scenario_load(scenario, arguments->scenario, arguments->sets.item,
                              arguments->sets.count, problems) != KC_OK) {
    status = kc_cli_fail_list(problems);
  } else {
    take_pool(question, scenario, arguments);
  }
  free(problems);
  free(scenario);
  return status;
}

/* ---- the other GPUs ---- */

/* Least memory first: the nearest other board is the smallest that does. */
static int compare_gpus(const void *a, const void *b)
{
  const struct kc_gpu *x = a;
  const struct kc_gpu *y = b;
  if (x->memory_bytes != y->memory_bytes) return x->memory_bytes < y->memory_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* True when --gpu NAME finds this very file: a suggestion must work as it is printed. */
static bool is_found_by_name(const struct kc_gpu *gpu)
{
  char path[KC_DIAG_PATH_BYTES];
  return kc_data_find("gpus", gpu->name, ".yaml", NULL, path, NULL) == KC_OK &&
         strcmp(path, gpu->path) == 0;
}

/* Loads every GPU file of a folder that a name finds; what does not load is named on stderr. */
static uint32_t load_folder(struct kc_gpu *gpus, const char *folder)
{
  DIR *directory = opendir(folder);
  if (directory == NULL) return 0;
  uint32_t count = 0;
  for (const struct dirent *entry = readdir(directory); entry != NULL && count < GPUS_MAX;
       entry = readdir(directory)) {
    const char *suffix = strrchr(entry->d_name, '.');
    if (entry->d_name[0] == '.' || suffix == NULL || strcmp(suffix, ".yaml") != 0) continue;
    char path[2 * KC_DIAG_PATH_BYTES];
    struct kc_diag diag;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (kc_gpu_load(&gpus[count], path, &diag) != KC_OK) {
      kc_cli_note("%s is left out of the search: %s", entry->d_name, diag.text);
    } else if (is_found_by_name(&gpus[count])) {
      count++;
    }
  }
  closedir(directory);
  qsort(gpus, count, sizeof *gpus, compare_gpus);
  return count;
}

static void search_change(const struct fit_question *question, struct kc_fit *fit)
{
  struct kc_gpu *gpus = calloc(GPUS_MAX, sizeof *gpus);
  uint32_t count = 0;
  if (gpus != NULL) {
    char folder[KC_DIAG_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", question->gpu.path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) *slash = '\0';
    count = load_folder(gpus, slash != NULL ? folder : ".");
  }
  kc_fit_nearest_change(fit, &question->model, &question->precision, &question->gpu,
                        &question->config, gpus, count);
  free(gpus);
}

/* ---- the answer ---- */

static int print_answer(const struct fit_question *question, const struct kc_fit *fit, bool as_json)
{
  if (!as_json) {
    kc_fit_print(question, fit);
    return 0;
  }
  json_t *root = kc_fit_json(question, fit);
  return kc_cli_print_json(root);
}

static int answer(const struct fit_question *question, bool as_json)
{
  struct kc_fit fit;
  struct kc_diag diag;
  if (kc_fit_compute(&fit, &question->model, &question->precision, &question->gpu,
                     &question->config, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  if (!fit.fits) search_change(question, &fit);
  kc_fit_notes(question, &fit);
  const int status = print_answer(question, &fit, as_json);
  if (status != 0) return status;
  return fit.fits ? 0 : kc_err_exit_status(KC_ERR_NO_FIT);
}

int kc_cmd_fit(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct fit_arguments arguments;
  memset(&arguments, 0, sizeof arguments);
  int status = read_arguments(&arguments, argc, argv);
  if (status >= 0) return status;
  struct kc_diag diag;
  if (check_arguments(&arguments, &diag) != KC_OK) return kc_cli_fail(&diag);
  struct fit_question *question = calloc(1, sizeof *question);
  if (question == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "the host ran out of memory while the model was read");
    return kc_cli_fail(&diag);
  }
  if (arguments.scenario[0] != '\0') {
    status = ask_by_scenario(question, &arguments);
  } else if (ask_by_options(question, &arguments, &diag) != KC_OK) {
    status = kc_cli_fail(&diag);
  }
  if (status < 0) status = answer(question, arguments.json);
  free(question);
  return status;
}
