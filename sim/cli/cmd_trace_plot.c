/* kvcap trace plot: figures of a trace.
 *
 *   trace --> OUT/trace_arrivals.csv, trace_lengths.csv, trace_reuse.csv --gnuplot--> .svg, .png
 *
 *   arrivals  time in bins, requests per second in each
 *   lengths   shares of requests with at most so many tokens, input and output
 *   reuse     time in bins, share of the input tokens that an infinite prefix cache would find;
 *             only for traces with prefix ids, because without them it is unknown, not zero
 *
 * The numbers are integers until they are printed, so the same trace gives the same files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cmd_trace.h"
#include "sim/cli/figures.h"

enum { PLOT_SCHEMA = 1, BINS_MAX = 400, POINTS_MAX = 1000, LABEL_BYTES = 80, NUMBER_BYTES = 48 };

struct plot_arguments {
  struct kc_cli_trace_input input;
  char out[1024];
  int figure_format;
  bool json;
};

static const struct kc_option plot_options[] = {
  KC_CLI_TRACE_INPUT_OPTIONS(plot_arguments, "floor"),
  {.key = "out", .type = KC_OPTION_TEXT, .offset = offsetof(struct plot_arguments, out),
   .size = sizeof(((struct plot_arguments *)NULL)->out), .fallback = "report", .values = "FOLDER",
   .help = "where the files go; made when it is not there"},
  {.key = "figure-format", .type = KC_OPTION_CHOICE,
   .offset = offsetof(struct plot_arguments, figure_format), .fallback = "both",
   .values = "svg|png|both", .help = "kind of figure"},
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct plot_arguments, json),
   .help = "print the names of the files as one JSON document"},
};

static const struct kc_cli_usage plot_usage = {
  .name = "trace plot",
  .synopsis = "FILE... [options]",
  .about = "Draws a trace: arrivals over time, lengths, reuse of prefixes. Writes the data behind\n"
           "every figure as CSV beside it.",
  .options = plot_options,
  .option_count = sizeof plot_options / sizeof plot_options[0],
  .positional_min = 1,
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "example:\n  kvcap trace plot azure.csv --out figures --figure-format svg",
};

struct plot {
  const struct kc_trace *trace;
  struct kc_figures figures;
  enum kc_figure_format format;
  char label[LABEL_BYTES]; /* the file's name, for the titles */
  kc_ps bin_ps;
  uint64_t bins;
};

/* ---- bins ---- */

/* The narrowest of 1, 2, 5 x 10^k ms that needs at most BINS_MAX bins. */
static void choose_bins(struct plot *plot)
{
  static const int64_t steps[] = {1, 2, 5};
  const kc_ps span_ps = plot->trace->span_ps;
  int64_t power = KC_PS_PER_MS;
  plot->bin_ps = power;
  for (unsigned i = 0; span_ps / plot->bin_ps >= BINS_MAX; i++) {
    if (i > 0 && i % 3 == 0) power *= 10;
    plot->bin_ps = steps[i % 3] * power;
  }
  plot->bins = (uint64_t)(span_ps / plot->bin_ps) + 1;
  KC_ASSERT(plot->bins <= BINS_MAX);
}

static uint64_t bin_of(const struct plot *plot, uint64_t row)
{
  return (uint64_t)(plot->trace->row[row].arrival_ps / plot->bin_ps);
}

/* ---- files ---- */

/* A name that is safe in a CSV cell and a title. */
static void set_label(struct plot *plot, const char *path)
{
  const char *slash = strrchr(path, '/');
  snprintf(plot->label, sizeof plot->label, "%s", slash == NULL ? path : slash + 1);
  for (char *c = plot->label; *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20 || *c == ',' || *c == '"' || *c == 0x7f) *c = '_';
  }
}

static enum kc_err open_csv(struct plot *plot, const char *name, const char *header, FILE **file,
                            char path[KC_FIGURE_PATH_BYTES], struct kc_diag *diag)
{
  KC_TRY(kc_figures_join(path, plot->figures.out, name, ".csv", diag));
  KC_TRY(kc_file_create(file, path, diag));
  fprintf(*file, "%s\n", header);
  return KC_OK;
}

/* Closes, announces, draws. */
static enum kc_err close_csv(struct plot *plot, const char *name, FILE *file, const char *path,
                             struct kc_diag *diag)
{
  KC_TRY(kc_file_finish(file, path, diag));
  kc_figures_announce(&plot->figures, path);
  return kc_figures_draw(&plot->figures, name, plot->format, diag);
}

static void print_fixed(FILE *file, kc_i128 value, unsigned decimals, char after)
{
  char text[NUMBER_BYTES];
  kc_format_fixed(value, decimals, text);
  fprintf(file, "%s%c", text, after);
}

/* ---- figures ---- */

static enum kc_err plot_arrivals(struct plot *plot, struct kc_diag *diag)
{
  const char *const name = "trace_arrivals";
  const kc_i128 micro_second = (kc_i128)KC_PS_PER_S * 1000000;
  uint64_t arrived[BINS_MAX + 1] = {0};
  char path[KC_FIGURE_PATH_BYTES];
  FILE *file;
  KC_TRY(open_csv(plot, name, "label,time_s,requests_per_s", &file, path, diag));
  for (uint64_t i = 0; i < plot->trace->count; i++) arrived[bin_of(plot, i)]++;
  for (uint64_t bin = 0; bin <= plot->bins; bin++) { /* the last point only ends the last step */
    const uint64_t shown = arrived[bin < plot->bins ? bin : bin - 1];
    fprintf(file, "%s,", plot->label);
    print_fixed(file, (kc_i128)bin * plot->bin_ps, 12, ',');
    print_fixed(file, (kc_i128)shown * micro_second / plot->bin_ps, 6, '\n');
  }
  return close_csv(plot, name, file, path, diag);
}

static int by_value(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* One side's distribution; `tokens` has room for all rows. */
static void print_side(const struct plot *plot, FILE *file, const char *side, uint32_t *tokens)
{
  const uint64_t count = plot->trace->count;
  const uint64_t points = count < POINTS_MAX ? count : POINTS_MAX;
  for (uint64_t i = 0; i < count; i++) {
    const struct kc_trace_row *const row = &plot->trace->row[i];
    tokens[i] = side[0] == 'i' ? row->input_tokens : row->output_tokens;
  }
  qsort(tokens, (size_t)count, sizeof *tokens, by_value);
  for (uint64_t point = 1; point <= points; point++) {
    const uint64_t rank = (uint64_t)((kc_u128)count * point / points);
    fprintf(file, "%s,%s,%" PRIu32 ",", plot->label, side, tokens[rank - 1]);
    print_fixed(file, (kc_i128)rank * 1000000 / count, 4, '\n');
  }
}

static enum kc_err plot_lengths(struct plot *plot, struct kc_diag *diag)
{
  const char *const name = "trace_lengths";
  char path[KC_FIGURE_PATH_BYTES];
  FILE *file;
  uint32_t *tokens = malloc((size_t)plot->trace->count * sizeof *tokens);
  if (tokens == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  const enum kc_err err =
      open_csv(plot, name, "label,side,tokens,share_percent", &file, path, diag);
  if (err == KC_OK) {
    print_side(plot, file, "input", tokens);
    print_side(plot, file, "output", tokens);
  }
  free(tokens);
  return err == KC_OK ? close_csv(plot, name, file, path, diag) : err;
}

/* Tokens of the row's leading ids that earlier rows have shown; marks its ids in `seen`. */
static uint64_t reused_tokens(const struct kc_trace *trace, uint64_t row, uint8_t *seen)
{
  const uint32_t *const id = trace->block + trace->column.block_first[row];
  const uint32_t blocks = trace->column.block_count[row];
  uint32_t leading = 0;
  while (leading < blocks && seen[id[leading]] != 0) leading++;
  for (uint32_t k = 0; k < blocks; k++) seen[id[k]] = 1;
  const uint64_t tokens = (uint64_t)leading * trace->block_tokens;
  return tokens < trace->row[row].input_tokens ? tokens : trace->row[row].input_tokens;
}

static void print_reuse(const struct plot *plot, FILE *file, uint8_t *seen)
{
  uint64_t reused[BINS_MAX] = {0}, input[BINS_MAX] = {0}, reused_sum = 0, input_sum = 0;
  for (uint64_t i = 0; i < plot->trace->count; i++) {
    if (plot->trace->column.block_count[i] == 0) continue;
    reused[bin_of(plot, i)] += reused_tokens(plot->trace, i, seen);
    input[bin_of(plot, i)] += plot->trace->row[i].input_tokens;
  }
  for (uint64_t bin = 0; bin < plot->bins; bin++) {
    if (input[bin] == 0) continue;
    reused_sum += reused[bin];
    input_sum += input[bin];
    fprintf(file, "%s,", plot->label);
    print_fixed(file, (kc_i128)bin * plot->bin_ps + plot->bin_ps / 2, 12, ',');
    print_fixed(file, (kc_i128)reused[bin] * 1000000 / input[bin], 4, ',');
    print_fixed(file, (kc_i128)reused_sum * 1000000 / input_sum, 4, '\n');
  }
}

static enum kc_err plot_reuse(struct plot *plot, struct kc_diag *diag)
{
  const char *const name = "trace_reuse";
  char path[KC_FIGURE_PATH_BYTES];
  FILE *file;
  if (!plot->trace->prefix_ids || plot->trace->block_total == 0) {
    kc_cli_note("the trace has no prefix ids, so its reuse is unknown and not drawn");
    return KC_OK;
  }
  uint8_t *seen = calloc(plot->trace->block_distinct, 1);
  if (seen == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  const enum kc_err err = open_csv(
      plot, name, "label,time_s,reused_percent,reused_so_far_percent", &file, path, diag);
  if (err == KC_OK) print_reuse(plot, file, seen);
  free(seen);
  return err == KC_OK ? close_csv(plot, name, file, path, diag) : err;
}

static enum kc_err make_plots(struct plot *plot, const char *out, struct kc_diag *diag)
{
  KC_TRY(kc_figures_find(&plot->figures, diag));
  KC_TRY(kc_figures_make_out(&plot->figures, out, diag));
  choose_bins(plot);
  KC_TRY(plot_arrivals(plot, diag));
  KC_TRY(plot_lengths(plot, diag));
  return plot_reuse(plot, diag);
}

int kc_cmd_trace_plot(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct plot_arguments arguments = {0};
  struct kc_trace trace;
  struct kc_diag diag;
  const char *path[KC_CLI_POSITIONAL_MAX];
  size_t count = 0;
  int status = kc_cli_arguments(&plot_usage, &arguments, argc, argv, path, &count);
  if (status >= 0) return status;
  if (kc_cli_trace_load(&trace, &arguments.input, path, count, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  kc_cli_trace_notes(&trace);
  struct plot plot = {.trace = &trace, .format = (enum kc_figure_format)arguments.figure_format};
  set_label(&plot, path[0]);
  if (arguments.json) plot.figures.files = json_array();
  const enum kc_err err = make_plots(&plot, arguments.out, &diag);
  status = err != KC_OK ? kc_cli_fail(&diag) : kc_figures_print(&plot.figures, PLOT_SCHEMA);
  json_decref(plot.figures.files);
  kc_trace_free(&trace);
  return status;
}
