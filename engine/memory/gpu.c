/* Reads scenarios/gpus/NAME.yaml into struct kc_gpu.
 *
 *   memory:
 *     board_mib: {value: 81559, source: "...", confirmed: false}     one figure = three rows below
 *   bandwidth: ...  rates: ...  board: ...
 *   prices:   [{usd_per_hour, date, source}]                         may be empty: cost unknown
 *   profiles: [{name, bandwidth_efficiency, ..., source}]            at least one
 *
 * A figure without a source is refused: the file is the only place that says where a number came
 * from. Units stand in the key names, so that values stay the round numbers a person can look up;
 * they are turned into bytes and plain rates once, here.
 */
#include "engine/memory/gpu.h"

#include <string.h>

#include "engine/base/check.h"
#include "engine/base/option.h"

enum { SOURCE_BYTES = 160 };

enum figure_index {
  BOARD_MIB, TOTAL_GIB, FREE_GIB, FREE_TP_GIB, NON_TORCH_GIB, NON_TORCH_TP_GIB,
  MEMORY_GB_S, LINK_GB_S, PCIE_GB_S, NODE_GB_S, LINK_LATENCY_US,
  BF16_TFLOPS, FP8_TFLOPS, INT8_TFLOPS, FP4_TFLOPS,
  GPUS_PER_NODE, POWER_W, IDLE_W, SM_COUNT,
  FIGURES
};

struct figure {
  double value;
  char source[SOURCE_BYTES];
  bool confirmed;
};

/* The file as it is written, before units are applied. */
struct gpu_file {
  char name[KC_GPU_NAME_BYTES];
  char title[64];
  struct figure figure[FIGURES];
};

#define AT(INDEX, FIELD) \
  (offsetof(struct gpu_file, figure) + (INDEX) * sizeof(struct figure) + \
   offsetof(struct figure, FIELD))

#define FIGURE(KEY, INDEX, MIN, MAX, UNIT, HELP)                                              \
  {.key = KEY ".value", .type = KC_OPTION_DOUBLE, .offset = AT(INDEX, value), .min = (MIN),   \
   .max = (MAX), .unit = (UNIT), .help = (HELP), .required = true},                           \
  {.key = KEY ".source", .type = KC_OPTION_TEXT, .offset = AT(INDEX, source),                 \
   .size = SOURCE_BYTES, .values = "TEXT", .help = "where the figure was read",               \
   .required = true},                                                                         \
  {.key = KEY ".confirmed", .type = KC_OPTION_BOOL, .offset = AT(INDEX, confirmed),           \
   .fallback = "true", .help = "false: derived or from memory, not read"}

static const struct kc_option file_options[] = {
  {.key = "name", .type = KC_OPTION_TEXT, .offset = offsetof(struct gpu_file, name),
   .size = KC_GPU_NAME_BYTES, .values = "NAME", .help = "as on the command line", .required = true},
  {.key = "title", .type = KC_OPTION_TEXT, .offset = offsetof(struct gpu_file, title), .size = 64,
   .values = "TEXT", .help = "for people", .required = true},
  FIGURE("memory.board_mib", BOARD_MIB, 1024, 4e6, "MiB", "memory as nvidia-smi reports it"),
  FIGURE("memory.vllm_total_gib", TOTAL_GIB, 1, 4e3, "GiB", "total that the runtime reports"),
  FIGURE("memory.sglang_free_gib", FREE_GIB, 1, 4e3, "GiB", "free before weights, one GPU"),
  FIGURE("memory.sglang_free_tp_gib", FREE_TP_GIB, 1, 4e3, "GiB",
         "free before weights, with a communicator"),
  FIGURE("memory.vllm_non_torch_gib", NON_TORCH_GIB, 0, 100, "GiB",
         "outside the allocator, one GPU"),
  FIGURE("memory.vllm_non_torch_tp_gib", NON_TORCH_TP_GIB, 0, 100, "GiB",
         "outside the allocator, with a communicator"),
  FIGURE("bandwidth.memory_gb_s", MEMORY_GB_S, 1, 1e6, "GB/s", "of the GPU's own memory"),
  FIGURE("bandwidth.link_gb_s", LINK_GB_S, 0, 1e6, "GB/s",
         "between GPUs of a node, one way per GPU; 0 = none but PCIe"),
  FIGURE("bandwidth.pcie_gb_s", PCIE_GB_S, 1, 1e6, "GB/s", "to the host, one way"),
  FIGURE("bandwidth.node_gb_s", NODE_GB_S, 0, 1e6, "GB/s", "between nodes, one way per GPU"),
  FIGURE("bandwidth.link_latency_us", LINK_LATENCY_US, 0, 1e6, "us", "of one small collective"),
  FIGURE("rates.bf16_tflops", BF16_TFLOPS, 1, 1e6, "TFLOP/s", "dense BF16"),
  FIGURE("rates.fp8_tflops", FP8_TFLOPS, 0, 1e6, "TFLOP/s", "dense FP8; 0 = not native"),
  FIGURE("rates.int8_tflops", INT8_TFLOPS, 0, 1e6, "TOP/s", "dense INT8; 0 = not native"),
  FIGURE("rates.fp4_tflops", FP4_TFLOPS, 0, 1e6, "TFLOP/s", "dense FP4; 0 = not native"),
  FIGURE("board.gpus_per_node", GPUS_PER_NODE, 1, 1024, "GPUs", "in one node"),
  FIGURE("board.power_w", POWER_W, 1, 1e5, "W", "board power limit"),
  FIGURE("board.idle_w", IDLE_W, 0, 1e5, "W", "drawn with nothing to do"),
  FIGURE("board.sm_count", SM_COUNT, 1, 1e5, "multiprocessors", "tiles of a product run on them"),
  {.key = "prices", .type = KC_OPTION_SUBTREE, .help = "dated prices, the default one first",
   .required = true},
  {.key = "profiles", .type = KC_OPTION_SUBTREE, .help = "how well software uses the board",
   .required = true},
};

static const struct kc_option price_options[] = {
  {.key = "usd_per_hour", .type = KC_OPTION_DOUBLE,
   .offset = offsetof(struct kc_gpu_price, usd_per_hour), .min = 0.001, .max = 1e4, .unit = "USD",
   .help = "per GPU and hour, on demand", .required = true},
  {.key = "date", .type = KC_OPTION_TEXT, .offset = offsetof(struct kc_gpu_price, date),
   .size = sizeof((struct kc_gpu_price *)0)->date, .values = "YYYY-MM[-DD]",
   .help = "when the price stood there", .required = true},
  {.key = "source", .type = KC_OPTION_TEXT, .offset = offsetof(struct kc_gpu_price, source),
   .size = sizeof((struct kc_gpu_price *)0)->source, .values = "TEXT", .help = "whose price",
   .required = true},
};

#define P(FIELD) .offset = offsetof(struct kc_gpu_profile, FIELD)
#define P_TEXT(FIELD) P(FIELD), .size = sizeof((struct kc_gpu_profile *)0)->FIELD

static const struct kc_option profile_options[] = {
  {.key = "name", .type = KC_OPTION_TEXT, P_TEXT(name), .values = "NAME",
   .help = "as in `profile:` of a scenario", .required = true},
  {.key = "bandwidth_efficiency", .type = KC_OPTION_DOUBLE, P(bandwidth_efficiency), .min = 0.01,
   .max = 1, .help = "part of the memory bandwidth that is reached", .required = true},
  {.key = "kv_efficiency", .type = KC_OPTION_DOUBLE, P(kv_efficiency), .min = 0.01, .max = 1,
   .help = "the same for keys and values; bandwidth_efficiency unless given"},
  {.key = "flops_efficiency", .type = KC_OPTION_DOUBLE, P(flops_efficiency), .min = 0.001,
   .max = 1, .help = "part of the dense rate that is reached", .required = true},
  {.key = "expand_efficiency", .type = KC_OPTION_DOUBLE, P(expand_efficiency), .min = 0, .max = 1,
   .help = "part of the memory bandwidth at which weight-only formats are expanded to BF16 before "
   "a prefill product; 0 = products expand as they go"},
  {.key = "op_latency_us", .type = KC_OPTION_DOUBLE, P(op_latency_us), .min = 0, .max = 1e6,
   .unit = "us", .help = "added to every operation", .required = true},
  {.key = "host_step_us", .type = KC_OPTION_DOUBLE, P(host_step_us), .min = 0,
   .max = 1e6, .unit = "us", .help = "added to every step", .required = true},
  {.key = "host_sequence_us", .type = KC_OPTION_DOUBLE, P(host_sequence_us), .min = 0, .max = 1e6,
   .unit = "us", .help = "added for each sequence of a step"},
  {.key = "prompt_step_us", .type = KC_OPTION_DOUBLE, P(prompt_step_us), .min = 0, .max = 1e7,
   .unit = "us", .help = "added to every step that computes prompt tokens"},
  {.key = "kernel_scale", .type = KC_OPTION_DOUBLE, P(kernel_scale), .min = 0, .max = 1000,
   .help = "time of all kernels in a server's step, as a multiple of what they take one by one; 0 "
   "= as measured"},
  {.key = "spread_share", .type = KC_OPTION_DOUBLE, P(spread_share), .min = 0, .max = 1,
   .help = "layered kernels: part of the measured cost of unequal contexts that a step pays; 0 = "
   "all of it"},
  {.key = "eager_step_us", .type = KC_OPTION_DOUBLE, P(eager_step_us), .min = 0, .max = 1e7,
   .unit = "us", .help = "least time of the kernels of a step that is no CUDA graph"},
  {.key = "graph_batch_max", .type = KC_OPTION_DOUBLE, P(graph_batch_max), .min = 0, .max = 1e6,
   .unit = "sequences", .help = "decode steps up to so many sequences are CUDA graphs"},
  {.key = "link_efficiency", .type = KC_OPTION_DOUBLE, P(link_efficiency), .min = 0, .max = 1,
   .help = "part of the link's bandwidth that collectives reach; 0 = as the kernels say"},
  {.key = "link_latency_us", .type = KC_OPTION_DOUBLE, P(link_latency_us), .min = 0, .max = 1e6,
   .unit = "us", .help = "of one collective, with link_efficiency"},
  {.key = "host_measured", .type = KC_OPTION_BOOL, P(host_measured),
   .help = "false: the host term is a placeholder", .required = true},
  {.key = "calibrated", .type = KC_OPTION_BOOL, P(calibrated), .fallback = "false",
   .help = "true: fitted to a serving measurement by kvcap calibrate serving"},
  {.key = "batch_min", .type = KC_OPTION_DOUBLE, P(batch_min), .min = 0, .max = 1e9,
   .unit = "tokens", .help = "fewest tokens a step in the measurement"},
  {.key = "batch_max", .type = KC_OPTION_DOUBLE, P(batch_max), .min = 0, .max = 1e9,
   .unit = "tokens", .help = "most tokens a step in the measurement"},
  {.key = "sequences_min", .type = KC_OPTION_DOUBLE, P(sequences_min), .min = 0, .max = 1e9,
   .unit = "requests", .help = "fewest requests a step in the measurement"},
  {.key = "sequences_max", .type = KC_OPTION_DOUBLE, P(sequences_max), .min = 0, .max = 1e9,
   .unit = "requests", .help = "most requests a step in the measurement"},
  {.key = "context_min", .type = KC_OPTION_DOUBLE, P(context_min), .min = 0, .max = 1e9,
   .unit = "tokens", .help = "shortest mean context of a step in the measurement"},
  {.key = "context_max", .type = KC_OPTION_DOUBLE, P(context_max), .min = 0, .max = 1e9,
   .unit = "tokens", .help = "longest mean context of a step in the measurement"},
  {.key = "fitted_gpu", .type = KC_OPTION_TEXT, P_TEXT(fitted_gpu), .values = "NAME",
   .help = "GPU of the measurement; in another one's file the profile is extrapolated"},
  {.key = "fitted_model", .type = KC_OPTION_TEXT, P_TEXT(fitted_model), .values = "NAME",
   .help = "model of the measurement; another one is extrapolated"},
  {.key = "fitted_tensor", .type = KC_OPTION_U32, P(fitted_tensor), .min = 0, .max = 1024,
   .unit = "GPUs", .help = "tensor degree of the measurement"},
  {.key = "fitted_kv", .type = KC_OPTION_TEXT, P_TEXT(fitted_kv), .values = "FORMAT",
   .help = "format of keys and values in the measurement"},
  {.key = "fitted_weights", .type = KC_OPTION_TEXT, P_TEXT(fitted_weights), .values = "FORMAT",
   .help = "format of the weights in the measurement, by class where they differ"},
  {.key = "rows", .type = KC_OPTION_U32, P(rows), .min = 0, .max = 1e9,
   .help = "rows of the measurement"},
  {.key = "residual_percent", .type = KC_OPTION_DOUBLE, P(residual_percent), .min = 0, .max = 1e6,
   .help = "largest difference of a row's rate from the fit"},
  {.key = "kernels", .type = KC_OPTION_TEXT, P_TEXT(kernels), .values = "PATH", .fallback = "",
   .help = "measured kernels, beside this file: a profile, or a folder of layered ones"},
  {.key = "left_out", .type = KC_OPTION_SUBTREE,
   .help = "the fit with one row kept out, for each row"},
  {.key = "source", .type = KC_OPTION_TEXT, P_TEXT(source), .values = "TEXT",
   .help = "where the entries come from", .required = true},
};

#define L(FIELD) .offset = offsetof(struct kc_left_out, FIELD)

static const struct kc_option left_out_options[] = {
  {.key = "row", .type = KC_OPTION_TEXT, L(row), .size = sizeof((struct kc_left_out *)0)->row,
   .values = "TEXT", .help = "which row was kept out", .required = true},
  {.key = "bandwidth_efficiency", .type = KC_OPTION_DOUBLE, L(bandwidth_efficiency), .min = 0.01,
   .max = 1, .help = "fitted without the row", .required = true},
  {.key = "kv_efficiency", .type = KC_OPTION_DOUBLE, L(kv_efficiency), .min = 0.01, .max = 1,
   .help = "fitted without the row", .required = true},
  {.key = "flops_efficiency", .type = KC_OPTION_DOUBLE, L(flops_efficiency), .min = 0.001, .max = 1,
   .help = "fitted without the row", .required = true},
  {.key = "expand_efficiency", .type = KC_OPTION_DOUBLE, L(expand_efficiency), .min = 0, .max = 1,
   .help = "fitted without the row"},
  {.key = "host_step_us", .type = KC_OPTION_DOUBLE, L(host_step_us), .min = 0, .max = 1e6,
   .unit = "us", .help = "fitted without the row", .required = true},
};

#define ROWS(TABLE) (sizeof(TABLE) / sizeof((TABLE)[0]))

/* value x unit in whole bytes, nearest. */
static uint64_t bytes_of(const struct figure *figure, double unit_bytes)
{
  KC_ASSERT(figure->value >= 0);
  return (uint64_t)(figure->value * unit_bytes + 0.5);
}

static void fill_memory(struct kc_gpu *gpu, const struct figure *figure)
{
  const double gib = 1073741824.0;
  const double mib = 1048576.0;
  gpu->memory_bytes = bytes_of(&figure[BOARD_MIB], mib);
  gpu->total_vllm_bytes = bytes_of(&figure[TOTAL_GIB], gib);
  gpu->total_confirmed = figure[TOTAL_GIB].confirmed;
  gpu->free_sglang_bytes = bytes_of(&figure[FREE_GIB], gib);
  gpu->free_sglang_tp_bytes = bytes_of(&figure[FREE_TP_GIB], gib);
  gpu->free_confirmed = figure[FREE_GIB].confirmed;
  gpu->free_tp_confirmed = figure[FREE_TP_GIB].confirmed;
  gpu->non_torch_bytes = bytes_of(&figure[NON_TORCH_GIB], gib);
  gpu->non_torch_tp_bytes = bytes_of(&figure[NON_TORCH_TP_GIB], gib);
}

static void fill_rates(struct kc_gpu *gpu, const struct figure *figure)
{
  gpu->memory_bandwidth = figure[MEMORY_GB_S].value * 1e9;
  gpu->link_bandwidth = figure[LINK_GB_S].value * 1e9;
  gpu->pcie_bandwidth = figure[PCIE_GB_S].value * 1e9;
  gpu->node_bandwidth = figure[NODE_GB_S].value * 1e9;
  gpu->link_latency_us = figure[LINK_LATENCY_US].value;
  gpu->flops[KC_MATH_BF16] = figure[BF16_TFLOPS].value * 1e12;
  gpu->flops[KC_MATH_FP8] = figure[FP8_TFLOPS].value * 1e12;
  gpu->flops[KC_MATH_INT8] = figure[INT8_TFLOPS].value * 1e12;
  gpu->flops[KC_MATH_FP4] = figure[FP4_TFLOPS].value * 1e12;
  gpu->gpus_per_node = (uint32_t)figure[GPUS_PER_NODE].value;
  gpu->power_w = figure[POWER_W].value;
  gpu->idle_w = figure[IDLE_W].value;
  gpu->sm_count = figure[SM_COUNT].value;
}

/* Each view of the memory is a part of the one before it. */
static void check_memory(const struct kc_gpu *gpu, const struct kc_document *document,
                         struct kc_diag_list *problems)
{
  const struct kc_node *memory = kc_node_get(document->root, "memory");
  const uint32_t line = memory != NULL ? memory->line : 0;
  const uint32_t column = memory != NULL ? memory->column : 0;
  if (gpu->total_vllm_bytes > gpu->memory_bytes) {
    kc_diag_list_add(problems, KC_ERR_INPUT, document->path, line, column,
                     "memory.vllm_total_gib is more than memory.board_mib; the runtime never "
                     "reports more than the board has");
  }
  if (gpu->free_sglang_bytes > gpu->total_vllm_bytes ||
      gpu->free_sglang_tp_bytes > gpu->free_sglang_bytes) {
    kc_diag_list_add(problems, KC_ERR_INPUT, document->path, line, column,
                     "expected memory.sglang_free_tp_gib <= memory.sglang_free_gib <= "
                     "memory.vllm_total_gib");
  }
}

static void check_power(const struct kc_gpu *gpu, const struct kc_document *document,
                        struct kc_diag_list *problems)
{
  const struct kc_node *board = kc_node_get(document->root, "board");
  if (gpu->idle_w <= gpu->power_w) return;
  KC_ASSERT(board != NULL);
  kc_diag_list_add(problems, KC_ERR_INPUT, document->path, board->line, board->column,
                   "board.idle_w is more than board.power_w; an idle board draws less than its "
                   "limit");
}

/* "YYYY-MM" or "YYYY-MM-DD". */
static bool is_date(const char *text)
{
  const size_t length = strlen(text);
  if (length != 7 && length != 10) return false;
  for (size_t i = 0; i < length; i++) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : (text[i] < '0' || text[i] > '9')) return false;
  }
  return true;
}

/* True when `list` is a list; otherwise says so (an absent one was reported by the table). */
static bool expect_list(const struct kc_node *list, const char *key, const char *path,
                        struct kc_diag_list *problems)
{
  if (list == NULL) return false;
  if (list->kind == KC_NODE_LIST) return true;
  kc_diag_list_add(problems, KC_ERR_INPUT, path, list->line, list->column,
                   "\"%s\" must be a list; write [] for none", key);
  return false;
}

/* The item is a map and there is room for it. */
static bool expect_item(const struct kc_node *item, const char *key, uint32_t count, uint32_t max,
                        const char *path, struct kc_diag_list *problems)
{
  if (count >= max) {
    kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                     "\"%s\" has more than %u entries; remove the oldest", key, max);
    return false;
  }
  if (item->kind == KC_NODE_MAP) return true;
  kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                   "an entry of \"%s\" must be a map of keys and values", key);
  return false;
}

static void read_prices(struct kc_gpu *gpu, const struct kc_document *document,
                        struct kc_diag_list *problems)
{
  const struct kc_node *list = kc_node_get(document->root, "prices");
  if (!expect_list(list, "prices", document->path, problems)) return;
  for (const struct kc_node *item = list->child; item != NULL; item = item->next) {
    if (!expect_item(item, "prices", gpu->price_count, KC_GPU_PRICES_MAX, document->path,
                     problems)) {
      return;
    }
    struct kc_gpu_price *price = &gpu->price[gpu->price_count++];
    kc_options_read_map(price_options, ROWS(price_options), price, item, document->path, "prices.",
                        problems);
    if (price->date[0] != '\0' && !is_date(price->date)) {
      kc_diag_list_add(problems, KC_ERR_INPUT, document->path, item->line, item->column,
                       "prices.date is \"%s\"; expected YYYY-MM or YYYY-MM-DD", price->date);
    }
  }
}

static void read_left_out(struct kc_gpu_profile *profile, const struct kc_node *item,
                          const char *path, struct kc_diag_list *problems)
{
  KC_ASSERT(item->kind == KC_NODE_MAP);
  KC_ASSERT(profile->left_out_count == 0);
  const struct kc_node *list = kc_node_get(item, "left_out");
  if (!expect_list(list, "profiles.left_out", path, problems)) return;
  for (const struct kc_node *row = list->child; row != NULL; row = row->next) {
    if (!expect_item(row, "profiles.left_out", profile->left_out_count, KC_LEFT_OUT_MAX, path,
                     problems)) {
      return;
    }
    struct kc_left_out *fit = &profile->left_out[profile->left_out_count++];
    kc_options_read_map(left_out_options, ROWS(left_out_options), fit, row, path,
                        "profiles.left_out.", problems);
  }
}

static void read_profiles(struct kc_gpu *gpu, const struct kc_document *document,
                          struct kc_diag_list *problems)
{
  const struct kc_node *list = kc_node_get(document->root, "profiles");
  if (!expect_list(list, "profiles", document->path, problems)) return;
  for (const struct kc_node *item = list->child; item != NULL; item = item->next) {
    if (!expect_item(item, "profiles", gpu->profile_count, KC_GPU_PROFILES_MAX, document->path,
                     problems)) {
      return;
    }
    struct kc_gpu_profile *profile = &gpu->profile[gpu->profile_count];
    kc_options_read_map(profile_options, ROWS(profile_options), profile, item, document->path,
                        "profiles.", problems);
    if (profile->kv_efficiency == 0) profile->kv_efficiency = profile->bandwidth_efficiency;
    read_left_out(profile, item, document->path, problems);
    if (profile->left_out_count > profile->rows) {
      kc_diag_list_add(problems, KC_ERR_INPUT, document->path, item->line, item->column,
                       "profiles.left_out has more rows than profiles.rows says were measured");
    }
    if (kc_gpu_profile_find(gpu, profile->name) != NULL) {
      kc_diag_list_add(problems, KC_ERR_INPUT, document->path, item->line, item->column,
                       "profile \"%s\" is there twice; names must differ", profile->name);
    }
    gpu->profile_count++;
  }
  if (gpu->profile_count == 0) {
    kc_diag_list_add(problems, KC_ERR_INPUT, document->path, list->line, list->column,
                     "no profile is given; a GPU file needs at least one, such as \"plain\"");
  }
}

/* Fills everything from a parsed document; what is wrong goes to `problems`. */
static void read_document(struct kc_gpu *gpu, const struct kc_document *document,
                          struct kc_diag_list *problems)
{
  struct gpu_file file;
  memset(&file, 0, sizeof file);
  kc_options_default(file_options, ROWS(file_options), &file);
  kc_options_read_map(file_options, ROWS(file_options), &file, document->root, document->path, "",
                      problems);
  if (problems->count == 0) {
    memcpy(gpu->name, file.name, sizeof gpu->name);
    memcpy(gpu->title, file.title, sizeof gpu->title);
    fill_memory(gpu, file.figure);
    fill_rates(gpu, file.figure);
    check_memory(gpu, document, problems);
    check_power(gpu, document, problems);
  }
  read_prices(gpu, document, problems);
  read_profiles(gpu, document, problems);
}

enum kc_err kc_gpu_load(struct kc_gpu *gpu, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(gpu != NULL);
  KC_ASSERT(path != NULL);
  memset(gpu, 0, sizeof *gpu);
  struct kc_document document;
  KC_TRY(kc_document_load(&document, path, diag));
  struct kc_diag_list problems;
  kc_diag_list_init(&problems);
  read_document(gpu, &document, &problems);
  memcpy(gpu->path, document.path, sizeof gpu->path);
  memcpy(gpu->sha256, document.sha256, sizeof gpu->sha256);
  kc_document_free(&document);
  if (problems.count > 0 && diag != NULL) *diag = problems.items[0];
  return kc_diag_list_result(&problems);
}

const struct kc_gpu_profile *kc_gpu_profile_find(const struct kc_gpu *gpu, const char *name)
{
  KC_ASSERT(gpu->profile_count <= KC_GPU_PROFILES_MAX);
  KC_ASSERT(name != NULL);
  for (uint32_t i = 0; i < gpu->profile_count; i++) {
    if (strcmp(gpu->profile[i].name, name) == 0) return &gpu->profile[i];
  }
  return NULL;
}

static void use_left_out(struct kc_gpu_profile *profile, const struct kc_left_out *fit)
{
  KC_ASSERT(profile->rows > 0);
  profile->bandwidth_efficiency = fit->bandwidth_efficiency;
  profile->kv_efficiency = fit->kv_efficiency;
  profile->flops_efficiency = fit->flops_efficiency;
  profile->expand_efficiency = fit->expand_efficiency;
  profile->host_step_us = fit->host_step_us;
  profile->left_out_count = 0;
  profile->rows--;
}

bool kc_gpu_profile_variant(const struct kc_gpu *gpu, const char *name,
                            struct kc_gpu_profile *out)
{
  static const char without[] = " without ";
  char whole[KC_PROFILE_NAME_BYTES];
  KC_ASSERT(out != NULL && strlen(name) < sizeof out->name);
  const char *cut = strstr(name, without);
  const size_t length = cut != NULL ? (size_t)(cut - name) : strlen(name);
  memcpy(whole, name, length);
  whole[length] = '\0';
  const struct kc_gpu_profile *profile = kc_gpu_profile_find(gpu, whole);
  if (profile == NULL) return false;
  *out = *profile;
  if (cut == NULL) return true;
  memcpy(out->name, name, strlen(name) + 1);
  for (uint32_t i = 0; i < profile->left_out_count; i++) {
    if (strcmp(profile->left_out[i].row, cut + strlen(without)) != 0) continue;
    use_left_out(out, &profile->left_out[i]);
    return true;
  }
  return false;
}
