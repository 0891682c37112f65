/* kvcap calibrate kernels: profiles of measured kernels, and what they are worth.
 *
 *   files of timings --sim/calibrate--> struct kc_profile --> residual table on stdout (or JSON)
 *                                                         `-> profile file (--out)
 *   --evaluate: an existing profile instead of a fit, scored on all rows of the files, under the
 *   datasheet of --gpu, which may be another card than the profile's
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/memory/gpu.h"
#include "sim/calibrate/layered_fit.h"
#include "sim/calibrate/profile_write.h"
#include "sim/cli/bench_samples.h"
#include "sim/cli/cmd_calibrate.h"
#include "sim/scenario/scenario.h"

enum { KERNELS_SCHEMA = 1, FILES_MAX = KC_CLI_POSITIONAL_MAX };

struct kernels_arguments {
  char gpu[KC_DIAG_PATH_BYTES], name[64], source[160];
  char out[KC_DIAG_PATH_BYTES], evaluate[KC_DIAG_PATH_BYTES];
  bool name_given, source_given, out_given, evaluate_given, hold_given, seed_given, tensor_given;
  bool model_given;
  char model[KC_DIAG_PATH_BYTES];
  uint32_t hold_out, tensor;
  uint64_t seed;
  bool json;
};

#define FIELD(field) .offset = offsetof(struct kernels_arguments, field)
#define TEXT(field) FIELD(field), .size = sizeof(((struct kernels_arguments *)NULL)->field)
#define GIVEN(field) .set_offset = offsetof(struct kernels_arguments, field)

static const struct kc_option options[] = {
  {.key = "gpu", .type = KC_OPTION_TEXT, TEXT(gpu), .values = "NAME", .required = true,
   .help = "GPU file whose datasheet the physics uses: a name or a path"},
  {.key = "name", .type = KC_OPTION_TEXT, TEXT(name), GIVEN(name_given), .values = "NAME",
   .fallback = "measured", .help = "of the profile, such as sglang-0.5.14"},
  {.key = "source", .type = KC_OPTION_TEXT, TEXT(source), GIVEN(source_given), .values = "TEXT",
   .fallback = "", .help = "who measured; the kernels' names are added"},
  {.key = "out", .type = KC_OPTION_TEXT, TEXT(out), GIVEN(out_given), .values = "FILE",
   .help = "write the profile here; when left out only its residuals are printed"},
  {.key = "hold-out", .type = KC_OPTION_U32, FIELD(hold_out), GIVEN(hold_given), .min = 0,
   .max = 90, .fallback = "20", .unit = "%",
   .help = "part of the rows that no fit sees and the residuals are measured on"},
  {.key = "seed", .type = KC_OPTION_U64, FIELD(seed), GIVEN(seed_given), .fallback = "1",
   .help = "chooses the rows kept out"},
  {.key = "tensor", .type = KC_OPTION_U32, FIELD(tensor), GIVEN(tensor_given), .min = 1,
   .max = 1024, .fallback = "1", .help = "tensor degree of layered timings"},
  {.key = "model", .type = KC_OPTION_TEXT, TEXT(model), GIVEN(model_given), .values = "NAME",
   .help = "model of layered timings, whose shapes the profile is then held to"},
  {.key = "evaluate", .type = KC_OPTION_TEXT, TEXT(evaluate), GIVEN(evaluate_given),
   .values = "PROFILE", .help = "fit nothing: score this profile file on all rows"},
  {.key = "json", .type = KC_OPTION_FLAG, FIELD(json), .help = "print one JSON document"},
};

static const struct kc_cli_usage usage = {
  .name = "calibrate kernels",
  .synopsis = "FILE... --gpu NAME [options]",
  .about = "Fits, for each op family in files of measured kernels, physics (latency, bandwidth,\n"
           "rate) times interpolated corrections, and scores the fit on rows that it never saw.\n"
           "Files are named by operation (.csv or .csv.gz): gemm, generation_attention,\n"
           "context_attention, generation_mla, context_mla, mla_bmm, moe, custom_allreduce,\n"
           "dsa_generation_module; or, for one model's layers: dense, per_sequence, attention,\n"
           "skew, and meta.yaml; or FILE.db, in which `kvcap engine bench` has left figures.",
  .options = options,
  .option_count = sizeof options / sizeof options[0],
  .positional_min = 1,
  .positional_max = FILES_MAX,
  .epilogue = "examples:\n"
              "  kvcap calibrate kernels timings/*.csv.gz --gpu h200 --name sglang-0.5.14 \\\n"
              "    --source \"aiconfigurator 095f58a5\" --out sglang-0.5.14.yaml\n"
              "  kvcap calibrate kernels h100/*.csv.gz --gpu h100 --evaluate sglang-0.5.14.yaml",
};

struct work {
  const struct kernels_arguments *arguments;
  struct kc_gpu gpu;
  struct kc_samples samples;
  struct kc_layered_rows layered;
  struct kc_profile *profile; /* heap */
};

static void work_free(struct work *w)
{
  kc_samples_free(&w->samples);
  kc_layered_free(&w->layered);
  kc_profile_destroy(w->profile);
}

/* ---- input ---- */

static enum kc_err check_arguments(const struct kernels_arguments *a, struct kc_diag *diag)
{
  if (!a->evaluate_given) return KC_OK;
  if (a->name_given || a->source_given || a->out_given || a->hold_given || a->seed_given ||
      a->tensor_given || a->model_given) {
    return kc_fail(diag, KC_ERR_USAGE, "--evaluate scores a profile as it is; leave out --name, "
                   "--source, --out, --hold-out, --seed, --tensor and --model");
  }
  return KC_OK;
}

static enum kc_err read_file(struct work *w, const char *path, struct kc_diag *diag)
{
  if (kc_bench_is_database(path)) return kc_bench_samples_read(&w->samples, path, diag);
  if (kc_layered_is_part(path)) return kc_layered_read(&w->layered, path, diag);
  return kc_samples_read(&w->samples, path, diag);
}

/* Rows that are there twice would count twice, in the fit and in what it is scored on. */
static enum kc_err check_distinct(const char *const *files, size_t count, struct kc_diag *diag)
{
  char digest[FILES_MAX][KC_SHA256_HEX_BYTES];
  KC_ASSERT(count <= FILES_MAX);
  for (size_t i = 0; i < count; i++) {
    KC_TRY(kc_timing_digest(files[i], digest[i], diag));
    for (size_t k = 0; k < i; k++) {
      if (strcmp(digest[i], digest[k]) != 0) continue;
      return kc_fail(diag, KC_ERR_USAGE, "%.200s holds the same as %.200s, and its rows would "
                     "count twice; give it once", files[i], files[k]);
    }
  }
  return KC_OK;
}

static enum kc_err read_files(struct work *w, const char *const *files, size_t count,
                              struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  KC_TRY(check_distinct(files, count, diag));
  KC_TRY(kc_data_find_option("--gpu", "gpus", w->arguments->gpu, ".yaml", NULL, path, diag));
  KC_TRY(kc_gpu_load(&w->gpu, path, diag));
  for (size_t i = 0; i < count; i++) {
    const size_t real = w->samples.count, emulated = w->samples.emulated;
    KC_TRY(read_file(w, files[i], diag));
    if (w->samples.count > real || w->samples.emulated == emulated) continue;
    return kc_fail_at(diag, KC_ERR_INPUT, files[i], 0, 0, "its %zu measurements come from an "
                      "emulated device, which has no times; measure on a GPU",
                      w->samples.emulated - emulated);
  }
  if (w->layered.layer_count + w->layered.mixed_count == 0 && w->samples.count == 0) {
    return kc_fail(diag, KC_ERR_INPUT, "no timings in these files; give at least one CSV");
  }
  if (w->layered.layer_count + w->layered.mixed_count > 0 && w->samples.count > 0) {
    return kc_fail(diag, KC_ERR_USAGE, "these files hold kernels by family and layers of one "
                   "model; they make two profiles: run once for each");
  }
  return KC_OK;
}

/* ---- fit ---- */

/* The shapes that the timings do not say; those they say must be the model's. */
static enum kc_err take_shapes(struct kc_layered_model *of, const char *name, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  KC_TRY(kc_data_find("models", name, ".json", NULL, path, diag));
  struct kc_model *model = malloc(sizeof *model);
  if (model == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the model");
  enum kc_err err = kc_model_load(model, path, diag);
  if (err == KC_OK && ((of->heads != 0 && of->heads != model->heads) ||
                       (of->kv_heads != 0 && of->kv_heads != model->kv_heads) ||
                       (of->inter != 0 && of->inter != model->dense_width))) {
    err = kc_fail(diag, KC_ERR_INPUT, "--model %.64s has %u heads, %u of keys and values and an "
                  "MLP of %u; the timings are of %u, %u and %u", name, model->heads,
                  model->kv_heads, model->dense_width, of->heads, of->kv_heads, of->inter);
  }
  if (err == KC_OK) {
    of->layers = model->layers;
    of->hidden = model->hidden;
    of->head_dim = model->head_width;
  }
  free(model);
  return err;
}

static enum kc_err fit(struct work *w, struct kc_diag *diag)
{
  const struct kernels_arguments *a = w->arguments;
  const struct kc_fit_options how = {a->hold_out, a->seed, a->source};
  const struct kc_device device = kc_device_of(&w->gpu);
  w->profile = kc_profile_create(KC_NUMBERS_MAX);
  if (w->profile == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: a profile");
  snprintf(w->profile->name, sizeof w->profile->name, "%s", a->name);
  snprintf(w->profile->gpu, sizeof w->profile->gpu, "%s", w->gpu.name);
  if (w->samples.count > 0) {
    return kc_fit_families(w->profile, &w->samples, &device, &how, diag);
  }
  w->layered.model.tensor = a->tensor;
  if (a->model_given) KC_TRY(take_shapes(&w->layered.model, a->model, diag));
  return kc_fit_layered(w->profile, &w->layered, &how, diag);
}

static enum kc_err write_profile(const struct work *w, struct kc_diag *diag)
{
  const struct kernels_arguments *a = w->arguments;
  char comment[512];
  snprintf(comment, sizeof comment,
           "How long operations take on %s\nunder %s, fitted by kvcap calibrate kernels.\n"
           "Values of tables are thousandths%s.\n"
           "held_out was scored on %u %% of the rows (seed %llu), which no fit saw.\n"
           "What the keys mean: README.md of the GPU files.",
           w->gpu.title, a->name,
           w->samples.count > 0 ? " of log2 of a factor"
                                 : " of log2 of microseconds or of a factor (spread: of a share)",
           a->hold_out, (unsigned long long)a->seed);
  char *text = kc_profile_text(w->profile, comment);
  if (text == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: the text of a profile");
  FILE *file;
  enum kc_err err = kc_file_create(&file, a->out, diag);
  if (err == KC_OK) {
    fputs(text, file);
    err = kc_file_finish(file, a->out, diag);
  }
  free(text);
  return err;
}

/* ---- residuals ---- */

/* One line of the table. */
struct line {
  const char *name;
  uint64_t rows, values;
  struct kc_residual fitted, scored;
};

static uint64_t values_of(const struct kc_family_fit *fit)
{
  uint64_t values = 0;
  for (uint32_t i = 0; i < fit->table_count; i++) values += kc_grid_values(&fit->table[i]);
  return values;
}

static struct line line_of(const char *name, const struct kc_family_fit *fit)
{
  return (struct line){name, fit->rows, values_of(fit), fit->fitted, fit->held_out};
}

enum { LINES_MAX = KC_FAMILIES + KC_LAYERS_PER_PROFILE + KC_MIXED_PARTS };

/* Lines of all entries; with --evaluate scored on the files' rows, without entries lacking rows. */
static enum kc_err gather(const struct work *w, struct line *lines, size_t *count,
                          struct kc_diag *diag)
{
  const struct kc_profile *p = w->profile;
  const bool score = w->arguments->evaluate_given;
  const struct kc_device device = kc_device_of(&w->gpu);
  *count = 0;
  for (int f = 0; f < KC_FAMILIES; f++) {
    const enum kc_family family = (enum kc_family)f;
    struct line line = line_of(kc_family_name(family), &p->fit[f]);
    if (score) KC_TRY(kc_score_family(p, &w->samples, &device, family, &line.scored, diag));
    if (score ? line.scored.rows > 0 : p->fit[f].present) lines[(*count)++] = line;
  }
  for (uint32_t i = 0; i < p->layer_count; i++) {
    struct line line = line_of(p->layer[i].name, &p->layer[i].fit);
    if (score) KC_TRY(kc_score_layer(p, &w->layered, (int)i, &line.scored, diag));
    if (!score || line.scored.rows > 0) lines[(*count)++] = line;
  }
  for (int i = 0; i < KC_MIXED_PARTS; i++) {
    struct line line = line_of(kc_mixed_part_name((enum kc_mixed_part)i), &p->mixed[i]);
    if (!p->mixed[i].present) continue;
    if (score) KC_TRY(kc_score_mixed(p, &w->layered, (enum kc_mixed_part)i, &line.scored, diag));
    if (!score || line.scored.rows > 0) lines[(*count)++] = line;
  }
  return KC_OK;
}

static void print_lines(const struct work *w, const struct line *lines, size_t count)
{
  const bool score = w->arguments->evaluate_given;
  printf("%s on %s%s\n", w->profile->name, w->gpu.name,
         score ? ", all rows of these files" : "");
  printf("  |predicted / measured - 1|, percent\n\n");
  printf("  %-18s %8s %8s %9s %8s %9s %8s\n", "family", "rows", "values", "fit p50", "p90",
         score ? "rows p50" : "out p50", "p90");
  for (size_t i = 0; i < count; i++) {
    const struct line *l = &lines[i];
    printf("  %-18s %8llu %8llu %9.2f %8.2f", l->name,
           (unsigned long long)(score ? l->scored.rows : l->rows), (unsigned long long)l->values,
           100 * l->fitted.median, 100 * l->fitted.p90);
    if (l->scored.rows > 0) {
      printf(" %9.2f %8.2f\n", 100 * l->scored.median, 100 * l->scored.p90);
    } else {
      printf(" %9s %8s\n", "-", "-");
    }
  }
}

static json_t *residual_json(const struct kc_residual *r)
{
  return json_pack("{s:I, s:f, s:f}", "rows", (json_int_t)r->rows, "median", r->median, "p90",
                   r->p90);
}

static int print_json(const struct work *w, const struct line *lines, size_t count)
{
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) {
    json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o, s:o}", "family", lines[i].name,
                                          "rows", (json_int_t)lines[i].rows, "values",
                                          (json_int_t)lines[i].values, "fitted",
                                          residual_json(&lines[i].fitted), "scored",
                                          residual_json(&lines[i].scored)));
  }
  json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:o}", "schema", KERNELS_SCHEMA, "profile",
                           w->profile->name, "gpu", w->gpu.name, "scored_on",
                           w->arguments->evaluate_given ? "all" : "held_out", "families", list);
  return kc_cli_print_json(root);
}

static int run(struct work *w, const char *const *files, size_t count)
{
  struct kc_diag diag;
  struct line lines[LINES_MAX];
  size_t line_count = 0;
  const struct kernels_arguments *a = w->arguments;
  enum kc_err err = check_arguments(a, &diag);
  if (err == KC_OK) err = read_files(w, files, count, &diag);
  if (err == KC_OK && a->evaluate_given) err = kc_profile_load(&w->profile, a->evaluate, &diag);
  if (err == KC_OK && !a->evaluate_given) err = fit(w, &diag);
  if (err == KC_OK) err = gather(w, lines, &line_count, &diag);
  if (err == KC_OK && line_count == 0) {
    err = kc_fail(&diag, KC_ERR_INPUT, "nothing to report: no family has %d rows or more, or the "
                  "profile has none of the families of these files", KC_FIT_ROWS_MIN);
  }
  if (err == KC_OK && a->out_given) err = write_profile(w, &diag);
  if (err != KC_OK) return kc_cli_fail(&diag);
  if (a->json) return print_json(w, lines, line_count);
  print_lines(w, lines, line_count);
  if (!a->out_given && !a->evaluate_given) {
    kc_cli_note("the profile is not kept; --out FILE writes it");
  }
  return 0;
}

int kc_cmd_calibrate_kernels(int argc, char **argv)
{
  struct kernels_arguments a;
  const char *files[FILES_MAX];
  size_t count = 0;
  memset(&a, 0, sizeof a);
  const int status = kc_cli_arguments(&usage, &a, argc, argv, files, &count);
  if (status >= 0) return status;
  struct work *w = calloc(1, sizeof *w);
  if (w == NULL) return kc_err_exit_status(KC_ERR_MEMORY);
  w->arguments = &a;
  const int result = run(w, files, count);
  work_free(w);
  free(w);
  return result;
}
