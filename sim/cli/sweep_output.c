/* Tables, CSV and JSON of a sweep (see sweep_output.h). */
#include "sim/cli/sweep_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/sets.h"

enum { SWEEP_SCHEMA = 1 };

/* ---- columns ---- */

static const enum kc_figure usual[] = {KC_FIGURE_KV_TOKENS, KC_FIGURE_OUTPUT_TOK_S,
                                       KC_FIGURE_TTFT_P95_MS, KC_FIGURE_TPOT_P95_MS,
                                       KC_FIGURE_KV_PEAK_SHARE, KC_FIGURE_OOM_S,
                                       KC_FIGURE_USD_PER_MTOK};
static const enum kc_figure usual_bill[] = {KC_FIGURE_FITS, KC_FIGURE_WEIGHTS_GPU_GIB,
                                            KC_FIGURE_KV_ROOM_GIB, KC_FIGURE_KV_TOKENS,
                                            KC_FIGURE_REQUESTS_FIT};

static void usual_figures(struct kc_sweep_output *out)
{
  const bool bill = out->sweep->bill_only;
  const enum kc_figure *from = bill ? usual_bill : usual;
  KC_ASSERT(out->figure_count == 0);
  out->figure_count = bill ? sizeof usual_bill / sizeof usual_bill[0]
                           : sizeof usual / sizeof usual[0];
  memcpy(out->figure, from, out->figure_count * sizeof *from);
}

static void all_figures(struct kc_sweep_output *out)
{
  KC_ASSERT(out->figure_count == 0);
  for (int f = 0; f < KC_FIGURES; f++) {
    if (out->sweep->bill_only && kc_figure_needs_run((enum kc_figure)f)) continue;
    out->figure[out->figure_count++] = (enum kc_figure)f;
  }
}

enum kc_err kc_sweep_output_figures(struct kc_sweep_output *out, const char *names,
                                    struct kc_diag *diag)
{
  out->figure_count = 0;
  if (names == NULL) {
    if (out->format == KC_SWEEP_TABLE) usual_figures(out);
    if (out->format != KC_SWEEP_TABLE) all_figures(out);
    return KC_OK;
  }
  for (const char *at = names;; at++) {
    const size_t bytes = strcspn(at, ",");
    enum kc_figure figure;
    KC_TRY(kc_figure_parse(at, bytes, &figure, diag));
    for (uint32_t i = 0; i < out->figure_count; i++) {
      if (out->figure[i] != figure) continue;
      return kc_fail(diag, KC_ERR_USAGE, "--figures names %s twice", kc_figure_name(figure));
    }
    KC_ASSERT(out->figure_count < KC_FIGURES);
    out->figure[out->figure_count++] = figure;
    at += bytes;
    if (*at == '\0') return KC_OK;
  }
}

/* ---- the command of a point ---- */

char *kc_sweep_command(const struct kc_sweep *sweep, uint64_t number)
{
  const char *sets[KC_SWEEP_SETS_MAX];
  const size_t count = kc_sweep_sets(sweep, number, sets);
  KC_ASSERT(count > 0);
  return kc_cli_sets_command(sweep->bill_only ? "kvcap fit" : "kvcap run", sweep->path, sets,
                             count);
}

/* ---- the table ---- */

/* "concurrency" of "workload.closed.concurrency", unless another axis would be called so, too. */
static const char *heading(const struct kc_vary *grid, uint32_t axis)
{
  KC_ASSERT(axis < grid->axis_count);
  const char *key = grid->axis[axis].key, *dot = strrchr(key, '.');
  const char *last = dot == NULL ? key : dot + 1;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const char *other_dot = strrchr(grid->axis[a].key, '.');
    const char *other = other_dot == NULL ? grid->axis[a].key : other_dot + 1;
    if (a != axis && strcmp(other, last) == 0) return key;
  }
  return last;
}

static int axis_width(const struct kc_vary *grid, uint32_t axis)
{
  size_t width = strlen(heading(grid, axis));
  for (uint32_t i = 0; i < grid->axis[axis].count; i++) {
    const size_t length = strlen(grid->axis[axis].value[i].label);
    if (length > width) width = length;
  }
  KC_ASSERT(width > 0);
  return width < 60 ? (int)width : 60;
}

static int figure_width(enum kc_figure figure)
{
  const int length = (int)strlen(kc_figure_name(figure));
  KC_ASSERT(length > 0);
  return length < 10 ? 10 : length;
}

/* Text from a command line or a file, for a terminal. */
static void put_clean(const char *text, int width)
{
  char clean[256];
  KC_ASSERT(width >= 0);
  snprintf(clean, sizeof clean, "%s", text);
  kc_text_clean(clean);
  printf("  %-*s", width, clean);
}

static void table_begin(const struct kc_sweep_output *out)
{
  const struct kc_sweep *sweep = out->sweep;
  char name[256];
  snprintf(name, sizeof name, "%s", sweep->name);
  kc_text_clean(name);
  printf("%s: %llu point%s", name, (unsigned long long)sweep->grid->points,
         kc_plural(sweep->grid->points));
  if (sweep->shards > 1) {
    printf(", shard %llu of %llu", (unsigned long long)sweep->shard,
           (unsigned long long)sweep->shards);
  }
  printf("\n\npoint");
  for (uint32_t a = 0; a < sweep->grid->axis_count; a++) {
    put_clean(heading(sweep->grid, a), axis_width(sweep->grid, a));
  }
  for (uint32_t i = 0; i < out->figure_count; i++) {
    printf("  %*s", figure_width(out->figure[i]), kc_figure_name(out->figure[i]));
  }
  printf("  trust\n");
}

static void table_point(const struct kc_sweep_output *out, uint64_t number,
                        const struct kc_point_result *result)
{
  const struct kc_vary *grid = out->sweep->grid;
  printf("%5llu", (unsigned long long)number);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    put_clean(kc_vary_label(grid, number, a), axis_width(grid, a));
  }
  for (uint32_t i = 0; i < out->figure_count; i++) {
    const enum kc_figure f = out->figure[i];
    if (result->figures.known[f]) {
      printf("  %*.*f", figure_width(f), kc_figure_decimals(f), result->figures.value[f]);
    } else {
      printf("  %*s", figure_width(f), "-");
    }
  }
  if (result->status != KC_POINT_DONE) {
    printf("  %s: %s\n", kc_point_status_name(result->status), result->why.text);
  } else {
    printf("  %s\n", result->ran ? kc_cost_level_name(result->trust.level) : "derived");
  }
}

static void table_end(const struct kc_sweep_totals *totals)
{
  static const char *const words[] = {"done", "do not fit", "refused", "failed"};
  if (totals->points == 0) return; /* a shard beyond the last point */
  printf("\n%llu point%s:", (unsigned long long)totals->points, kc_plural(totals->points));
  for (int s = KC_POINT_DONE; s <= KC_POINT_FAILED; s++) {
    if (s > KC_POINT_DONE && totals->by_status[s] == 0) continue;
    printf("%s %llu %s", s > KC_POINT_DONE ? "," : "", (unsigned long long)totals->by_status[s],
           words[s]);
  }
  printf("; `kvcap sweep ... --point N` prints the command of one\n");
}

/* ---- CSV ---- */

/* A cell as RFC 4180 wants it. */
static void put_cell(const char *text)
{
  KC_ASSERT(text != NULL);
  if (strpbrk(text, ",\"\r\n") == NULL) {
    fputs(text, stdout);
    return;
  }
  putchar('"');
  for (; *text != '\0'; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  putchar('"');
}

static void csv_begin(const struct kc_sweep_output *out)
{
  const struct kc_vary *grid = out->sweep->grid;
  KC_ASSERT(out->figure_count > 0);
  printf("point");
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    putchar(',');
    put_cell(grid->axis[a].key);
  }
  printf(",status,reason,trust");
  for (uint32_t i = 0; i < out->figure_count; i++) {
    printf(",%s", kc_figure_name(out->figure[i]));
  }
  printf(",config_sha256,result_sha256\n");
}

static const char *trust_of(const struct kc_point_result *result)
{
  KC_ASSERT(result != NULL);
  if (result->ran) return kc_cost_level_name(result->trust.level);
  return result->figures.known[KC_FIGURE_FITS] ? "derived" : "";
}

static void csv_point(const struct kc_sweep_output *out, uint64_t number,
                      const struct kc_point_result *result)
{
  const struct kc_vary *grid = out->sweep->grid;
  printf("%llu", (unsigned long long)number);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    putchar(',');
    put_cell(kc_vary_label(grid, number, a));
  }
  printf(",%s,", kc_point_status_name(result->status));
  put_cell(result->status == KC_POINT_DONE ? "" : result->why.text);
  printf(",%s", trust_of(result));
  for (uint32_t i = 0; i < out->figure_count; i++) {
    const enum kc_figure f = out->figure[i];
    putchar(',');
    if (result->figures.known[f]) printf("%.15g", result->figures.value[f]);
  }
  printf(",%s,%s\n", result->config_sha256, result->result_sha256);
}

/* ---- JSON ---- */

/* Counts are whole. */
static json_t *figure_json(enum kc_figure figure, double value)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  const bool whole = kc_figure_decimals(figure) == 0 && value >= -9e15 && value <= 9e15;
  return whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *figures_json(const struct kc_sweep_output *out, const struct kc_figure_set *set)
{
  json_t *object = json_object();
  for (uint32_t i = 0; i < out->figure_count; i++) {
    const enum kc_figure f = out->figure[i];
    json_object_set_new(object, kc_figure_name(f),
                        set->known[f] ? figure_json(f, set->value[f]) : json_null());
  }
  return object;
}

static json_t *text_or_null(const char *text)
{
  return text[0] == '\0' ? json_null() : kc_cli_json_string(text);
}

static json_t *point_json(const struct kc_sweep_output *out, uint64_t number,
                          const struct kc_point_result *result)
{
  const struct kc_vary *grid = out->sweep->grid;
  json_t *object = json_object(), *values = json_object();
  char *command = kc_sweep_command(out->sweep, number);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    json_object_set_new(values, grid->axis[a].key,
                        kc_cli_json_string(kc_vary_label(grid, number, a)));
  }
  json_object_set_new(object, "point", json_integer((json_int_t)number));
  json_object_set_new(object, "values", values);
  json_object_set_new(object, "status", json_string(kc_point_status_name(result->status)));
  json_object_set_new(object, "reason",
                      text_or_null(result->status == KC_POINT_DONE ? "" : result->why.text));
  json_object_set_new(object, "trust", text_or_null(trust_of(result)));
  json_object_set_new(object, "figures", figures_json(out, &result->figures));
  json_object_set_new(object, "config_sha256", text_or_null(result->config_sha256));
  json_object_set_new(object, "result_sha256", text_or_null(result->result_sha256));
  json_object_set_new(object, "command", command == NULL ? NULL : json_string(command));
  free(command);
  return object;
}

static json_t *axes_json(const struct kc_vary *grid)
{
  json_t *axes = json_array();
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    json_t *values = json_array();
    for (uint32_t i = 0; i < grid->axis[a].count; i++) {
      json_array_append_new(values, kc_cli_json_string(grid->axis[a].value[i].label));
    }
    json_array_append_new(axes, json_pack("{s:o, s:o}", "key",
                                          kc_cli_json_string(grid->axis[a].key), "values",
                                          values));
  }
  return axes;
}

static int print_document(struct kc_sweep_output *out, const struct kc_sweep_totals *totals)
{
  json_t *root = json_object(), *counts = json_object();
  KC_ASSERT(out->points != NULL);
  for (int s = KC_POINT_DONE; s <= KC_POINT_FAILED; s++) {
    json_object_set_new(counts, kc_point_status_name((enum kc_point_status)s),
                        json_integer((json_int_t)totals->by_status[s]));
  }
  json_object_set_new(root, "schema", json_integer(SWEEP_SCHEMA));
  json_object_set_new(root, "name", kc_cli_json_string(out->sweep->name));
  json_object_set_new(root, "scenario", kc_cli_json_string(out->sweep->path));
  json_object_set_new(root, "axes", axes_json(out->sweep->grid));
  json_object_set_new(root, "zip", json_boolean(out->sweep->grid->zip));
  json_object_set_new(root, "point_count", json_integer((json_int_t)out->sweep->grid->points));
  json_object_set_new(root, "shard", json_integer((json_int_t)out->sweep->shard));
  json_object_set_new(root, "shards", json_integer((json_int_t)out->sweep->shards));
  json_object_set_new(root, "by_status", counts);
  json_object_set_new(root, "points", out->points);
  out->points = NULL;
  return kc_cli_print_json(root);
}

/* ---- any of them ---- */

void kc_sweep_output_begin(struct kc_sweep_output *out)
{
  KC_ASSERT(out->sweep != NULL);
  if (out->format == KC_SWEEP_TABLE) table_begin(out);
  if (out->format == KC_SWEEP_CSV) csv_begin(out);
  if (out->format == KC_SWEEP_JSON) out->points = json_array();
}

enum kc_err kc_sweep_output_point(struct kc_sweep_output *out, uint64_t number,
                                  const struct kc_point_result *result, struct kc_diag *diag)
{
  KC_ASSERT(result != NULL);
  if (out->format == KC_SWEEP_TABLE) table_point(out, number, result);
  if (out->format == KC_SWEEP_CSV) csv_point(out, number, result);
  if (out->format == KC_SWEEP_JSON &&
      json_array_append_new(out->points, point_json(out, number, result)) != 0) {
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the document");
  }
  return KC_OK;
}

int kc_sweep_output_end(struct kc_sweep_output *out, const struct kc_sweep_totals *totals,
                        bool complete)
{
  KC_ASSERT(totals != NULL);
  int status = 0;
  if (complete && out->format == KC_SWEEP_TABLE) table_end(totals);
  if (complete && out->format == KC_SWEEP_JSON) status = print_document(out, totals);
  json_decref(out->points);
  out->points = NULL;
  return status;
}
