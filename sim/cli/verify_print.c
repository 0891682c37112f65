/* The faces of verified figures: a table for people, a JSON object, a CSV for the plots. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "sim/cli/cli.h"
#include "sim/cli/verify.h"

enum { CELL_BYTES = 64 };

/* "1234567.8" -> "1,234,567.8" in place; `text` has room. */
static void group(char text[CELL_BYTES])
{
  char out[CELL_BYTES];
  const size_t whole = strspn(text + (text[0] == '-'), "0123456789");
  size_t used = 0;
  const char *at = text;
  if (*at == '-') out[used++] = *at++;
  for (size_t i = 0; i < whole; i++) {
    if (i > 0 && (whole - i) % 3 == 0) out[used++] = ',';
    out[used++] = *at++;
  }
  snprintf(out + used, sizeof out - used, "%s", at);
  memcpy(text, out, sizeof out);
}

/* As published: no decimals that nobody printed. */
static void published(char out[CELL_BYTES], const struct kc_expect *expect)
{
  snprintf(out, CELL_BYTES, "%.10g", expect->value);
  if (!expect->has_against) {
    group(out);
    return;
  }
  snprintf(out, CELL_BYTES, "%+.10g %%", expect->value);
}

static void predicted(char out[CELL_BYTES], const struct kc_verify_row *row)
{
  const double size = fabs(row->predicted);
  if (!row->has_value) {
    snprintf(out, CELL_BYTES, "none");
  } else if (row->expect.has_against) {
    snprintf(out, CELL_BYTES, "%+.2f %%", row->predicted);
  } else {
    const bool whole = row->predicted == floor(row->predicted);
    snprintf(out, CELL_BYTES, "%.*f", whole || size >= 10000 ? 0 : size >= 100 ? 1 : 2,
             row->predicted);
    group(out);
  }
}

static void error_text(char out[CELL_BYTES], const struct kc_verify_row *row)
{
  if (!row->has_value) {
    snprintf(out, CELL_BYTES, "-");
  } else if (row->expect.has_against) {
    snprintf(out, CELL_BYTES, "%+.2f pt", row->error);
  } else {
    snprintf(out, CELL_BYTES, row->expect.value == 0 ? "%+.3g" : "%+.2f %%", row->error);
  }
}

static void bound_text(char out[CELL_BYTES], const struct kc_expect *e)
{
  size_t used = 0;
  out[0] = '\0';
  if (e->has_within_percent) {
    used += (size_t)snprintf(out + used, CELL_BYTES - used, "%g %%", e->within_percent);
  }
  if (e->has_within) {
    used += (size_t)snprintf(out + used, CELL_BYTES - used, "%s%g%s", used > 0 ? ", " : "",
                             e->within, e->has_against ? " pt" : "");
  }
  if (e->has_at_least) {
    used += (size_t)snprintf(out + used, CELL_BYTES - used, "%s>= %.10g", used > 0 ? ", " : "",
                             e->at_least);
  }
  if (e->has_at_most) {
    used += (size_t)snprintf(out + used, CELL_BYTES - used, "%s<= %.10g", used > 0 ? ", " : "",
                             e->at_most);
  }
  if (used == 0) snprintf(out, CELL_BYTES, "none");
}

/* What the prediction rests on, and what its times are worth. */
static void trust_text(char out[CELL_BYTES], const struct kc_verify_row *row)
{
  const char *kind = kc_expect_kind_name((enum kc_expect_kind)row->expect.kind);
  const bool extrapolated = row->ran && row->trust.level == KC_LEVEL_EXTRAPOLATED;
  const bool datasheet = row->ran && row->trust.level == KC_LEVEL_DATASHEET;
  snprintf(out, CELL_BYTES, "%s%s%s", kind, extrapolated ? ", extrapolated" : "",
           datasheet ? ", datasheet" : "");
}

void kc_verify_print(const struct kc_verify_file *file)
{
  KC_ASSERT(file->count <= KC_EXPECT_MAX);
  printf("%s\n  %s\n", file->name, file->path);
  printf("  %-38s %-8s %14s %14s %10s  %-14s %s\n", "", "", "published", "predicted", "error",
         "bound", "rests on");
  for (uint32_t i = 0; i < file->count; i++) {
    const struct kc_verify_row *row = &file->row[i];
    char cell[5][CELL_BYTES];
    published(cell[0], &row->expect);
    predicted(cell[1], row);
    error_text(cell[2], row);
    bound_text(cell[3], &row->expect);
    trust_text(cell[4], row);
    printf("  %-38s %-8s %14s %14s %10s  %-14s %s%s\n", row->expect.what,
           row->expect.has_against ? "change"
               : kc_expect_metric_unit(row->expect.metric), cell[0], cell[1],
           cell[2], cell[3], cell[4],
           !row->holds ? "  OUTSIDE" : kc_expect_has_bound(&row->expect) ? "" : "  (shown only)");
    if (!row->has_value) printf("      %s\n", row->problem.text);
  }
  printf("\n");
}

static void set_bound(json_t *object, const char *key, bool said, double value)
{
  if (said) json_object_set_new(object, key, json_real(value));
}

static json_t *row_json(const struct kc_verify_row *row)
{
  const struct kc_expect *e = &row->expect;
  json_t *object = json_object();
  json_t *bound = json_object();
  set_bound(bound, "within_percent", e->has_within_percent, e->within_percent);
  set_bound(bound, "within", e->has_within, e->within);
  set_bound(bound, "at_least", e->has_at_least, e->at_least);
  set_bound(bound, "at_most", e->has_at_most, e->at_most);
  json_object_set_new(object, "what", kc_cli_json_string(e->what));
  json_object_set_new(object, "metric",
                      json_string(kc_expect_metric_name(e->metric)));
  json_object_set_new(object, "unit", json_string(
      e->has_against ? "percent" : kc_expect_metric_unit(e->metric)));
  json_object_set_new(object, "published", json_real(e->value));
  json_object_set_new(object, "predicted",
                      row->has_value ? json_real(row->predicted) : json_null());
  json_object_set_new(object, e->has_against || e->value == 0 ? "error" : "error_percent",
                      row->has_value ? json_real(row->error) : json_null());
  json_object_set_new(object, "bound", bound);
  json_object_set_new(object, "kind",
                      json_string(kc_expect_kind_name((enum kc_expect_kind)e->kind)));
  json_object_set_new(object, "trust",
                      json_string(row->ran ? kc_cost_level_name(row->trust.level) : "derived"));
  json_object_set_new(object, "holds", json_boolean(row->holds));
  json_object_set_new(object, "problem",
                      row->has_value ? json_null() : kc_cli_json_string(row->problem.text));
  json_object_set_new(object, "source", kc_cli_json_string(e->source));
  return object;
}

json_t *kc_verify_json(const struct kc_verify_file *file)
{
  KC_ASSERT(file->count <= KC_EXPECT_MAX);
  json_t *object = json_object();
  json_t *rows = json_array();
  for (uint32_t i = 0; i < file->count; i++) json_array_append_new(rows, row_json(&file->row[i]));
  json_object_set_new(object, "path", kc_cli_json_string(file->path));
  json_object_set_new(object, "name", kc_cli_json_string(file->name));
  json_object_set_new(object, "figures", rows);
  return object;
}

/* A text without what would end a CSV cell. */
static void put_cell(FILE *out, const char *text)
{
  for (; *text != '\0'; text++) {
    if (*text == ',') {
      fputs(" \302\267", out); /* a middle dot, as in the figures of `kvcap report` */
    } else {
      fputc(*text == '"' || (unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
  }
}

enum kc_err kc_verify_csv(const struct kc_verify_file *files, size_t count, const char *path,
                          unsigned *series_count, struct kc_diag *diag)
{
  FILE *out;
  KC_TRY(kc_file_create(&out, path, diag));
  unsigned series = 0;
  fputs("series,label,requests,published_tok_s,predicted_tok_s,kind\n", out);
  for (size_t f = 0; f < count; f++) {
    bool any = false;
    for (uint32_t i = 0; i < files[f].count; i++) {
      const struct kc_verify_row *row = &files[f].row[i];
      const bool shown = row->has_value && row->concurrency > 0 && !row->expect.has_against &&
                         row->expect.metric == KC_FIGURE_OUTPUT_TOK_S;
      if (!shown) continue;
      fprintf(out, "%u,", series);
      put_cell(out, files[f].name);
      fprintf(out, ",%u,%.10g,%.6f,%s\n", row->concurrency, row->expect.value, row->predicted,
              kc_expect_kind_name((enum kc_expect_kind)row->expect.kind));
      any = true;
    }
    series += any;
  }
  *series_count = series;
  return kc_file_finish(out, path, diag);
}
