/* What a precision table comes to, in sentences: the one conclusion of text and JSON.
 *
 *   1  with an SLO, who keeps it, and who misses which limit by how much
 *   2  the fastest row against the first; or that the load is too small to tell the rows apart, and
 *      the commands that find what each can take
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/precision_output.h"
#include "sim/cli/sets.h"
#include "sim/plan/judge.h"

/* Outputs that differ by fewer percent are what the trace offers, not what is served. */
#define SAME_PERCENT 1.0
enum { COMMANDS_MAX = 3 }; /* shown; the others follow their pattern */

static void put_row(FILE *out, const struct kc_precision_table *table, uint32_t row)
{
  KC_ASSERT(row < table->row_count);
  fprintf(out, "weights %s with KV %s", table->row[row].weights, table->row[row].kv);
}

/* ---- the SLO ---- */

static bool keeps(const struct kc_precision_table *table, uint32_t row)
{
  return kc_precision_table_best(table, row) != NULL && table->row[row].missed == NULL;
}

/* "tpot_p95_ms 52.77 ms, 5.5 % beyond 50.00 ms", and from the double on "2.4 times 50.00 ms", for
 * every limit that the row's point misses. */
static void put_misses(FILE *out, const struct kc_precision_table *table, uint32_t row)
{
  const struct kc_point_result *best = kc_precision_table_best(table, row);
  const char *separator = "";
  if (best == NULL) {
    fprintf(out, "no listed load that fits keeps %s", table->row[row].missed->text);
    return;
  }
  for (uint32_t i = 0; i < table->slo_count; i++) {
    const struct kc_requirement *slo = &table->slo[i];
    const struct kc_require_outcome outcome = kc_requirement_check(slo, &best->figures);
    char value[KC_FIGURE_TEXT_BYTES], limit[KC_FIGURE_TEXT_BYTES];
    if (outcome.met) continue;
    fprintf(out, "%s%s ", separator, kc_figure_name(slo->figure));
    separator = "; ";
    if (!outcome.known) {
      fputs("is not known", out);
      continue;
    }
    fputs(kc_figure_text(slo->figure, outcome.value, value), out);
    if (outcome.excess < 2) {
      fprintf(out, ", %.1f %% beyond", 100 * (outcome.excess - 1));
    } else if (outcome.excess < KC_REQUIRE_HOPELESS) {
      fprintf(out, ", %.1f times", outcome.excess);
    } else {
      fputs(" instead of", out);
    }
    fprintf(out, " %s", kc_figure_text(slo->figure, slo->limit, limit));
  }
}

static void put_slo(FILE *out, const struct kc_precision_table *table)
{
  uint32_t kept = 0, missed = 0;
  for (uint32_t r = 0; r < table->row_count; r++) kept += keeps(table, r);
  for (uint32_t r = 0; r < table->row_count; r++) missed += table->row[r].missed != NULL;
  if (table->slo_count == 0 || kept + missed == 0) return;
  fputs(kept == 0 ? "No precision keeps the SLO.\n" : "The SLO is kept by", out);
  for (uint32_t r = 0, shown = 0; r < table->row_count; r++) {
    if (!keeps(table, r)) continue;
    fputs(shown++ > 0 ? ", " : " ", out);
    put_row(out, table, r);
  }
  if (kept > 0) fputs(".\n", out);
  for (uint32_t r = 0; r < table->row_count; r++) {
    if (table->row[r].missed == NULL) continue;
    fputs("It is missed by ", out);
    put_row(out, table, r);
    fputs(": ", out);
    put_misses(out, table, r);
    fputs(".\n", out);
  }
}

/* ---- a load that is too small ---- */

/* All rows give the same output of a trace and none ever lacked memory; *fullest: of the pools. */
static bool load_is_small(const struct kc_precision_table *table, double *fullest)
{
  uint32_t judged = 0;
  *fullest = 0;
  if (table->closed) return false;
  for (uint32_t r = 0; r < table->row_count; r++) {
    const struct kc_point_result *best = kc_precision_table_best(table, r);
    double percent;
    if (best == NULL) continue;
    if (!kc_precision_table_change(table, r, KC_FIGURE_OUTPUT_TOK_S, &percent) ||
        fabs(percent) >= SAME_PERCENT || best->figures.value[KC_FIGURE_OOM] > 0) {
      return false;
    }
    *fullest = fmax(*fullest, best->figures.value[KC_FIGURE_KV_PEAK_SHARE]);
    judged++;
  }
  return judged > 1;
}

/* The command that finds the highest rate of a row, one line. */
static void put_rate_command(FILE *out, const struct kc_precision_table *table, uint32_t row)
{
  const char *sets[KC_SWEEP_SETS_MAX];
  const struct kc_vary_value *value = &table->vary.axis[0].value[row];
  size_t count = 0;
  const char *at = value->sets;
  for (size_t i = 0; i < table->set_count; i++) sets[count++] = table->sets[i];
  for (uint32_t i = 0; i < value->set_count; i++, at += strlen(at) + 1) {
    KC_ASSERT(count < KC_SWEEP_SETS_MAX);
    sets[count++] = at;
  }
  char *command = kc_cli_sets_command("kvcap plan", table->path, sets, count);
  struct kc_requirement own[KC_REQUIREMENTS_MAX];
  const uint32_t stated = kc_judge_slo(table->scenario, own);
  bool same = stated == table->slo_count;
  for (uint32_t i = 0; same && i < stated; i++) {
    same = strcmp(own[i].text, table->slo[i].text) == 0;
  }
  fprintf(out, "  %s --max-rate", command != NULL ? command : "kvcap plan");
  for (uint32_t i = 0; !same && i < table->slo_count; i++) {
    fprintf(out, " --slo '%s'", table->slo[i].text);
  }
  fputs("\n", out);
  free(command);
}

static void put_small_load(FILE *out, const struct kc_precision_table *table, double fullest)
{
  fprintf(out, "All give the same output, because the load is below what each of them serves (KV "
          "at most %.0f %%\nfull): it tells them apart by latency alone", 100 * fullest);
  if (table->slo_count == 0) {
    fputs("; a faster one (--set workload.rate=N) or an SLO would.\n", out);
    return;
  }
  fputs(". The highest rate of each:\n", out);
  uint32_t judged = 0;
  for (uint32_t r = 0; r < table->row_count; r++) {
    if (kc_precision_table_best(table, r) == NULL) continue;
    if (judged++ < COMMANDS_MAX) put_rate_command(out, table, r);
  }
  if (judged > COMMANDS_MAX) fprintf(out, "and so on for the other %u.\n", judged - COMMANDS_MAX);
}

/* ---- the fastest ---- */

static void put_fastest(FILE *out, const struct kc_precision_table *table)
{
  uint32_t fastest = 0;
  double gain = 0, cost = 0;
  for (uint32_t r = 1; r < table->row_count; r++) {
    double percent;
    if (kc_precision_table_change(table, r, KC_FIGURE_OUTPUT_TOK_S, &percent) && percent > gain) {
      gain = percent;
      fastest = r;
    }
  }
  if (fastest == 0) return;
  const struct kc_precision_row *row = &table->row[fastest], *base = &table->row[0];
  put_row(out, table, fastest);
  fputs(" against ", out);
  put_row(out, table, 0);
  fprintf(out, ":\n%+.1f %% %s", gain, table->closed ? "peak throughput" : "throughput");
  if (kc_precision_table_change(table, fastest, KC_FIGURE_USD_PER_MTOK, &cost)) {
    fprintf(out, ", %+.1f %% cost per token", cost);
  }
  if (table->closed) {
    fprintf(out, ";\nlargest load listed that fits: %u -> %u; frontier: %llu -> %llu requests of "
            "%llu tokens", base->largest, row->largest, (unsigned long long)base->frontier,
            (unsigned long long)row->frontier, (unsigned long long)table->length);
  }
  fputs("\n", out);
}

char *kc_precision_verdict(const struct kc_precision_table *table)
{
  char *text = NULL;
  size_t bytes = 0;
  double fullest;
  KC_ASSERT(table->row_count > 0);
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  put_slo(out, table);
  if (load_is_small(table, &fullest)) {
    put_small_load(out, table, fullest);
  } else {
    put_fastest(out, table);
  }
  const bool failed = ferror(out) != 0;
  if (fclose(out) == 0 && !failed) return text;
  free(text);
  return NULL;
}
