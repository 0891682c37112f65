/* What `kvcap plan` says to people: the answer first, then why, then what else could be bought. */
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/plan_output.h"
#include "sim/cli/run_output.h"
#include "sim/plan/judge.h"

enum { NONE = UINT32_MAX, UNIT_FIGURES = 3 };

/* ---- pieces ---- */

static const char *known_text(const struct kc_figure_set *figures, enum kc_figure figure,
                              char out[KC_FIGURE_TEXT_BYTES])
{
  if (!figures->known[figure]) {
    snprintf(out, KC_FIGURE_TEXT_BYTES, "does not exist");
    return out;
  }
  return kc_figure_text(figure, figures->value[figure], out);
}

/* The same of a figure that must be above or below a limit: the text is on its side of it. */
static const char *judged_text(const struct kc_figure_set *figures,
                               const struct kc_requirement *require,
                               char out[KC_FIGURE_TEXT_BYTES])
{
  if (!figures->known[require->figure]) return known_text(figures, require->figure, out);
  return kc_figure_text_against(require->figure, figures->value[require->figure], require->limit,
                                out);
}

const char *kc_plan_hardware(const struct kc_plan *plan, const struct kc_search_probe *probe,
                             char out[96])
{
  const struct kc_plan_column *column = &plan->columns[probe->column];
  const uint32_t spare = plan->request.spare;
  char aside[32] = "";
  if (spare > 0) snprintf(aside, sizeof aside, " (%u spare)", spare);
  snprintf(out, 96, "%u%s x %u %s", probe->replicas + spare, aside, column->gpus, column->gpu);
  return out;
}

static const char *settings(const struct kc_plan_column *column, char out[256])
{
  snprintf(out, 256, "tensor %u, weights %s, KV %s, page %u, chunk %u, max running %u",
           column->tensor, column->weights, column->kv, column->page_size, column->chunk,
           column->cap);
  return out;
}

static bool is_priced(const struct kc_plan *plan, const struct kc_search_probe *probe)
{
  return plan->columns[probe->column].priced;
}

static const char *price_text(const struct kc_plan *plan, const struct kc_search_probe *probe,
                              char out[48])
{
  if (is_priced(plan, probe)) {
    snprintf(out, 48, "$%.2f an hour", kc_plan_usd_hour(plan, probe));
  } else {
    snprintf(out, 48, "no price known");
  }
  return out;
}

static void print_requirements(const struct kc_plan *plan)
{
  for (uint32_t i = 0; i < plan->require_count; i++) {
    printf("%s%s", i == 0 ? "" : ", ", plan->require[i].text);
  }
  if (plan->require_count == 0) printf("no requirement");
}

static void print_conditions(const struct kc_plan *plan)
{
  const struct kc_plan_request *request = &plan->request;
  if (request->headroom > 0) printf(", with traffic %.4g %% faster", 100 * request->headroom);
  if (request->spare > 0) {
    printf(", with %u replica%s down", request->spare, kc_plural(request->spare));
  }
  if (request->lost > 0) printf(", at most %.4g %% of requests lost", 100 * request->lost);
  if (request->budget_usd_hour > 0) printf(", at most $%.2f an hour", request->budget_usd_hour);
  if (request->gpus_max > 0) {
    printf(", at most %u GPU%s", request->gpus_max, kc_plural(request->gpus_max));
  }
}

/* ---- the winner ---- */

static void print_figures(const struct kc_plan *plan, const struct kc_plan_run *run)
{
  const struct kc_figure_set *figures = &run->result.figures;
  char value[64], limit[64];
  for (uint32_t i = 0; i < plan->require_count; i++) {
    const struct kc_requirement *require = &plan->require[i];
    const struct kc_require_outcome outcome = kc_requirement_check(require, figures);
    printf("  %-15s %s, must be %s %s", kc_figure_name(require->figure),
           judged_text(figures, require, value), kc_require_sign(require->sense),
           kc_figure_text_against(require->figure, require->limit, require->limit, limit));
    if (outcome.known && outcome.met) printf(" (%.0f %% of it used)", 100 * outcome.excess);
    if (outcome.known && !outcome.met) {
      const double missed = 100 * (outcome.excess - 1);
      printf(missed < 0.5 ? " (missed by %.1g %%)" : " (missed by %.0f %%)", missed);
    }
    printf("\n");
  }
}

static void print_load(const struct kc_plan_run *run)
{
  const struct kc_figure_set *figures = &run->result.figures;
  char text[3][64];
  printf("  %-15s %s, at most %s running and %s waiting, KV pool %.0f %% full\n", "load",
         known_text(figures, KC_FIGURE_OUTPUT_TOK_S, text[0]),
         known_text(figures, KC_FIGURE_MAX_RUNNING, text[1]),
         known_text(figures, KC_FIGURE_MAX_WAITING, text[2]),
         100 * figures->value[KC_FIGURE_KV_PEAK_SHARE]);
}

static void print_token_price(const struct kc_plan *plan, const struct kc_plan_run *run,
                              const char *before)
{
  char usd[KC_FIGURE_TEXT_BYTES];
  if (!run->result.figures.known[KC_FIGURE_USD_PER_MTOK]) return;
  printf("%s%s per million output tokens%s", before,
         known_text(&run->result.figures, KC_FIGURE_USD_PER_MTOK, usd),
         plan->base.scenario.price.cold_start_ps > 0 ? ", cold starts included" : "");
}

static void print_winner(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  const struct kc_plan_run *run = &plan->run[plan->winner];
  const struct kc_plan_run *bought = &plan->run[answer->bought.run];
  char text[256];
  printf("  %-15s %s\n", "deployment", kc_plan_hardware(plan, &run->probe, text));
  printf("  %-15s %s\n", "", settings(&plan->columns[run->probe.column], text));
  printf("  %-15s %s", "price", price_text(plan, &run->probe, text));
  if (answer->bought.run == plan->winner) print_token_price(plan, bought, ", ");
  printf("\n");
  print_figures(plan, run);
  print_load(run);
  if (answer->bought.run != plan->winner) {
    printf("  %-15s ", "as bought");
    for (uint32_t i = 0; i < plan->require_count; i++) {
      const enum kc_figure figure = plan->require[i].figure;
      printf("%s%s %s", i == 0 ? "" : ", ", kc_figure_name(figure),
             known_text(&bought->result.figures, figure, text));
    }
    print_token_price(plan, bought, plan->require_count > 0 ? ", " : "");
    printf("\n");
  }
}

/* Why another one that meets the SLO is not the winner. */
static void print_runner_up(const struct kc_plan *plan)
{
  char text[256];
  enum kc_figure most;
  if (plan->runner_up == NONE) return;
  const struct kc_search_probe *probe = &plan->run[plan->runner_up].probe;
  const struct kc_search_probe *winner = &plan->run[plan->winner].probe;
  printf("  %-15s %s, ", "runner-up", kc_plan_hardware(plan, probe, text));
  printf("%s: ", settings(&plan->columns[probe->column], text));
  const double more = kc_plan_usd_hour(plan, probe) - kc_plan_usd_hour(plan, winner);
  const uint32_t gpus[] = {kc_plan_gpus(plan, winner), kc_plan_gpus(plan, probe)};
  if (more > 0) {
    printf("$%.2f an hour more\n", more);
  } else if (gpus[1] > gpus[0]) {
    printf("%u GPUs, not %u\n", gpus[1], gpus[0]);
  } else if (kc_plan_wants_most(plan->request.objective, &most)) {
    printf("%s\n", known_text(&plan->run[plan->runner_up].result.figures, most, text));
  } else {
    printf("%s, listed later\n", is_priced(plan, winner) ? "costs the same" : "as many GPUs");
  }
}

static void print_worst(const struct kc_plan *plan, const struct kc_plan_run *run)
{
  char text[64];
  if (run->result.status != KC_POINT_DONE) {
    printf("%s", run->result.why.text);
  } else if (run->worst < 0) {
    printf("requests were rejected, failed or timed out");
  } else {
    const struct kc_requirement *require = &plan->require[run->worst];
    const bool known = run->result.figures.known[require->figure];
    printf("%s %s%s", kc_figure_name(require->figure), known ? "is " : "",
           judged_text(&run->result.figures, require, text));
  }
}

static void print_near_miss(const struct kc_plan *plan)
{
  char text[256];
  if (plan->near_miss == NONE) return;
  const struct kc_plan_run *run = &plan->run[plan->near_miss];
  printf("  %-15s %s, ", plan->found ? "nearest miss" : "best there is",
         kc_plan_hardware(plan, &run->probe, text));
  printf("%s", settings(&plan->columns[run->probe.column], text));
  printf(" (%s): ", price_text(plan, &run->probe, text));
  print_worst(plan, run);
  printf("\n");
  if (plan->found) return;
  printf("  %-15s the smallest worst miss; of what comes within %.0f %% of it, the cheapest that "
         "was run\n", "", 100 * KC_PLAN_ALMOST);
}

/* ---- what limits it, and what else could be bought ---- */

static void print_limits(const struct kc_plan_answer *answer)
{
  const struct kc_plan_limits *limits = &answer->limits;
  if (!limits->known) return;
  char nearest[80] = "";
  if (limits->nearest >= 0) {
    const struct kc_requirement *require = &answer->plan->require[limits->nearest];
    snprintf(nearest, sizeof nearest, ", as %s is nearest its limit",
             kc_figure_name(require->figure));
  }
  printf("  %-15s %s%s\n", "limited by", limits->name, nearest);
  printf("  %-15s of the time: prefill %.0f %%, decode %.0f %%, host %.0f %%, idle %.0f %%;"
         " waiting for memory %.0f %%\n", "", 100 * limits->prefill, 100 * limits->decode,
         100 * limits->host, 100 * limits->idle, 100 * limits->memory);
}

static void print_delta(const struct kc_figure_set *from, const struct kc_figure_set *to,
                        enum kc_figure figure)
{
  if (!from->known[figure] || !to->known[figure]) {
    printf(" %22s", "-");
    return;
  }
  char text[32];
  const double before = from->value[figure], after = to->value[figure];
  snprintf(text, sizeof text, "%.*f", kc_figure_decimals(figure), after);
  if (before > 0) {
    printf(" %12s (%+5.1f %%)", text, 100 * (after / before - 1));
  } else {
    printf(" %22s", text);
  }
}

/* What the table of units shows: what is to be high, and what is limited. */
static uint32_t unit_figures(const struct kc_plan *plan, enum kc_figure figure[UNIT_FIGURES])
{
  uint32_t count = kc_plan_wants_most(plan->request.objective, &figure[0]) ? 1 : 0;
  for (uint32_t i = 0; i < plan->require_count && count < UNIT_FIGURES; i++) {
    figure[count++] = plan->require[i].figure;
  }
  return count;
}

static void print_unit(const struct kc_plan *plan, const struct kc_plan_unit *unit)
{
  printf("    %-26s", unit->what);
  if (!unit->possible) {
    printf(" not possible: %.60s%s\n", unit->why.text, strlen(unit->why.text) > 60 ? "..." : "");
    return;
  }
  const struct kc_figure_set *from = &plan->run[plan->winner].result.figures;
  const struct kc_plan_run *run = &plan->run[unit->run];
  printf(" %5d", (int)kc_plan_gpus(plan, &plan->run[plan->winner].probe) + unit->gpus);
  if (is_priced(plan, &run->probe)) {
    printf(" %9.2f", unit->usd_hour);
  } else {
    printf(" %9s", "-");
  }
  enum kc_figure figure[UNIT_FIGURES];
  const uint32_t count = unit_figures(plan, figure);
  for (uint32_t i = 0; i < count; i++) print_delta(from, &run->result.figures, figure[i]);
  if (plan->require_count > 0) printf(" %9.0f %%", 100 * run->excess);
  printf("%s\n", run->excess > 1 ? ", misses" : "");
}

static void print_units(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  enum kc_figure figure[UNIT_FIGURES];
  if (answer->units.count == 0) return;
  const uint32_t count = unit_figures(plan, figure);
  printf("\n  one more unit of...           %5s %9s", "GPUs", "USD/h");
  for (uint32_t i = 0; i < count; i++) printf(" %22s", kc_figure_name(figure[i]));
  if (plan->require_count > 0) printf(" %11s", "limit used");
  printf("\n");
  for (uint32_t i = 0; i < answer->units.count; i++) print_unit(plan, &answer->units.unit[i]);
}

/* ---- the search ---- */

static void print_search(const struct kc_plan *plan)
{
  const struct kc_plan_counts *n = &plan->count;
  const struct kc_plan_space *space = &plan->request.space;
  char text[5][32];
  printf("\n  %-15s %s run%s for %s candidate%s (%.1f %%), %s more for the details\n", "search",
         kc_run_grouped(n->runs, text[0]), kc_plural(n->runs),
         kc_run_grouped(n->candidates, text[1]), kc_plural(n->candidates),
         n->candidates > 0 ? 100.0 * (double)n->runs / (double)n->candidates : 0,
         kc_run_grouped(n->runs_after, text[2]));
  printf("  %-15s exactly: %s dearer than the winner, %s twins, %s below a bound; if faster and\n"
         "  %-15s more never hurt: %s by more replicas that failed, %s by a faster column that "
         "failed\n", "decided unrun", kc_run_grouped(n->decided[KC_SEARCH_PRICE], text[0]),
         kc_run_grouped(n->decided[KC_SEARCH_TWIN], text[1]),
         kc_run_grouped(n->decided[KC_SEARCH_BOUND], text[2]), "",
         kc_run_grouped(n->decided[KC_SEARCH_REPLICAS], text[3]),
         kc_run_grouped(n->decided[KC_SEARCH_FASTER], text[4]));
  for (uint32_t i = 0; i < space->axis[KC_AXIS_GPU].count; i++) {
    if (!space->plain[i]) continue;
    printf("  %-15s %s has no profile %s: its plain one stands in\n", "profile",
           space->axis[KC_AXIS_GPU].value[i], plan->base.scenario.pool[0].profile_name);
  }
  if (!plan->monotone) {
    printf("  %-15s a requirement can be missed by having more: what fails it decides no other\n",
           "");
  }
  if (n->no_fit > 0) {
    printf("  %-15s %llu of %llu combinations; %s\n", "do not fit", (unsigned long long)n->no_fit,
           (unsigned long long)n->columns, plan->why_no_fit.text);
  }
  if (n->refused > 0) {
    printf("  %-15s %llu of %llu combinations: %s\n", "make no sense",
           (unsigned long long)n->refused, (unsigned long long)n->columns,
           plan->why_refused.text);
  }
  if (n->exhaustive_runs > 0) {
    printf("  %-15s %s runs of the whole grid give %s\n", "exhaustive",
           kc_run_grouped(n->exhaustive_runs, text[0]),
           plan->agrees ? "the same answer" : "ANOTHER ANSWER");
    if (plan->has_better) {
      char hardware[96], chosen[256];
      printf("  %-15s %s, ", "", kc_plan_hardware(plan, &plan->better, hardware));
      printf("%s\n", settings(&plan->columns[plan->better.column], chosen));
    }
  }
}

/* ---- nothing found ---- */

static void print_part(const struct kc_plan *plan, uint32_t i, const struct kc_plan_part *part)
{
  const struct kc_requirement *require = &plan->require[i];
  char text[256];
  printf("  %-22s ", require->text);
  if (part->impossible) {
    const struct kc_plan_column *column = &plan->columns[part->floor_column];
    printf("impossible: %s at the least, %s",
           kc_figure_text_floor(require->figure, part->floor, text),
           part->alone ? "alone on an empty server" : "however it is scheduled");
    if (part->prompt_tokens > 0) printf(" (a prompt of %u tokens)", part->prompt_tokens);
    printf("\n  %-22s on the %s, %s, %s\n", "", part->alone ? "fastest" : "best", column->gpu,
           settings(column, text));
  } else if (part->met) {
    printf("can be met (best seen: %s), but not with all the others\n",
           kc_figure_text(require->figure, part->best, text));
  } else if (part->seen) {
    printf("was not met; best seen: %s\n",
           kc_figure_text_against(require->figure, part->best, require->limit, text));
  } else {
    printf("does not exist in any run\n");
  }
}

static void print_lost(const struct kc_plan *plan, const struct kc_plan_lost *lost)
{
  if (lost->impossible) {
    printf("  %-22s impossible: %.2f %% of the requests are longer than any candidate takes; "
           "--lost %.2f\n  %-22s would leave them out\n", "every answer", 100 * lost->floor,
           100 * lost->floor + 0.005, "");
  } else if (lost->seen && lost->least > plan->request.lost) {
    printf("  %-22s never; the least that were rejected, failed or timed out: %.2f %%\n",
           "every answer", 100 * lost->least);
  }
}

/* A part of what was asked that somebody can do, for the next try. */
static void print_possible(const struct kc_plan *plan, const struct kc_plan_run *run)
{
  const double lost = kc_judge_lost(&run->result.figures);
  if (run->result.status != KC_POINT_DONE || run->worst < 0 || lost >= 1) return;
  printf("  %-22s", "would be met");
  for (uint32_t i = 0; i < plan->require_count; i++) {
    const struct kc_requirement *require = &plan->require[i];
    const struct kc_require_outcome outcome = kc_requirement_check(require, &run->result.figures);
    if (!outcome.known) continue;
    const int decimals = kc_figure_decimals(require->figure);
    const bool low = kc_require_wants_low(require->sense);
    double step = 1;
    for (int d = 0; d < decimals; d++) step /= 10;
    const double limit = outcome.met ? require->limit : outcome.value + (low ? step : -step);
    printf(" --slo '%s%s%.*f'", kc_figure_name(require->figure), kc_require_sign(require->sense),
           decimals, limit);
  }
  if (lost > plan->request.lost) printf(" --lost %.2f", 100 * lost + 0.005);
  printf("\n");
}

/* The budget left no candidate: what it would have to be. */
static void print_least(const struct kc_plan *plan, const char *title, bool by_gpus)
{
  char hardware[96], chosen[256], price[48];
  const struct kc_search_probe probe = kc_plan_least(plan, by_gpus);
  printf("  %-15s %s, %u GPU%s: %s\n", title, price_text(plan, &probe, price),
         kc_plan_gpus(plan, &probe), kc_plural(kc_plan_gpus(plan, &probe)),
         kc_plan_hardware(plan, &probe, hardware));
  printf("  %-15s %s\n", "", settings(&plan->columns[probe.column], chosen));
}

static void print_nothing(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  if (plan->count.candidates == 0) {
    if (plan->request.budget_usd_hour > 0) print_least(plan, "the cheapest", false);
    if (plan->request.gpus_max > 0) print_least(plan, "the smallest", true);
    return;
  }
  for (uint32_t i = 0; i < plan->require_count; i++) print_part(plan, i, &answer->part[i]);
  print_lost(plan, &answer->lost);
  print_near_miss(plan);
  if (plan->near_miss == NONE) return;
  print_figures(plan, &plan->run[plan->near_miss]);
  print_possible(plan, &plan->run[plan->near_miss]);
}

/* Each line gives the figures above that stand under its name. */
static void print_commands(const struct kc_plan_answer *answer)
{
  const struct kc_plan_bought *bought = &answer->bought;
  if (bought->command == NULL) return;
  printf("  %-15s %s\n", "reproduce", bought->command);
  if (bought->command_bought != NULL) printf("  %-15s %s\n", "as bought", bought->command_bought);
}

void kc_plan_print(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  static const char *const goals[] = {"cheapest deployment", "smallest deployment",
                                      "highest goodput", "highest output rate"};
  char text[32];
  printf("%s\n", plan->base.scenario.name);
  if (plan->found) {
    printf("%s with ", goals[plan->request.objective]);
  } else if (plan->count.candidates == 0) {
    printf("no candidate is left for ");
  } else {
    printf("none of %s candidates meets ", kc_run_grouped(plan->count.candidates, text));
  }
  print_requirements(plan);
  print_conditions(plan);
  printf("\n\n");
  if (plan->found) {
    print_winner(answer);
    print_limits(answer);
    print_runner_up(plan);
    print_near_miss(plan);
    printf("  %-15s %s\n", "trust",
           kc_cost_level_name(plan->run[plan->winner].result.trust.level));
    print_units(answer);
  } else {
    print_nothing(answer);
  }
  print_search(plan);
  print_commands(answer);
}
