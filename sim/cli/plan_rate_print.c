/* What `kvcap plan --max-rate` says to people, and how a plan is written as a command. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/plan_output.h"
#include "sim/cli/sets.h"
#include "sim/plan/sweep.h"

enum { NONE = UINT32_MAX };

/* ---- the highest rate ---- */

static void print_load(const struct kc_rate *rate, uint32_t index)
{
  const struct kc_rate_probe *probe = &rate->probe[index];
  if (rate->closed) {
    printf("%llu request%s at once", (unsigned long long)probe->load, kc_plural(probe->load));
    return;
  }
  const double factor = (double)probe->load / KC_RATE_UNIT;
  printf("%.3f times the trace's rate", factor);
  if (rate->arrivals_s > 0) printf(", %.3f requests a second", factor * rate->arrivals_s);
}

static void print_probe_figures(const struct kc_rate *rate, uint32_t index)
{
  const struct kc_figure_set *figures = &rate->probe[index].result.figures;
  for (uint32_t i = 0; i < rate->require_count; i++) {
    const struct kc_requirement *require = &rate->require[i];
    const struct kc_require_outcome outcome = kc_requirement_check(require, figures);
    char value[KC_FIGURE_TEXT_BYTES], limit[KC_FIGURE_TEXT_BYTES];
    printf("  %-15s %s, must be %s %s\n", kc_figure_name(require->figure),
           outcome.known ? kc_figure_text_against(require->figure, outcome.value, require->limit,
                                                  value)
                         : "does not exist",
           kc_require_sign(require->sense),
           kc_figure_text_against(require->figure, require->limit, require->limit, limit));
  }
}

/* What is certain of the answer. Loads of a closed loop are whole, so its ends may lie further
 * apart. */
static void print_ends(const struct kc_rate *rate, double tolerance)
{
  if (rate->best == NONE || rate->above == NONE) {
    printf("no load that %s was found, so the answer has one end\n",
           rate->best == NONE ? "holds" : "fails");
    return;
  }
  const double low = (double)rate->probe[rate->best].load;
  const double high = (double)rate->probe[rate->above].load;
  if (high < low) {
    printf("both ends were run; a lower load fails and a higher one holds\n");
  } else if (high - low <= tolerance * low) {
    printf("both ends were run, and lie %.4g %% apart at the most\n", 100 * tolerance);
  } else {
    printf("both ends were run, and lie one request apart\n");
  }
}

void kc_rate_print(const struct kc_rate *rate, double tolerance)
{
  printf("%s\nhighest load with ", rate->base.scenario.name);
  for (uint32_t i = 0; i < rate->require_count; i++) {
    printf("%s%s", i == 0 ? "" : ", ", rate->require[i].text);
  }
  printf("\n\n");
  if (rate->best == NONE) {
    printf("  %-15s none; the lowest tried, ", "holds");
    print_load(rate, rate->above);
    printf(", fails\n");
    print_probe_figures(rate, rate->above);
  } else {
    const struct kc_figure_set *figures = &rate->probe[rate->best].result.figures;
    printf("  %-15s ", "holds");
    print_load(rate, rate->best);
    printf("\n");
    print_probe_figures(rate, rate->best);
    if (figures->known[KC_FIGURE_GOODPUT_REQ_S]) {
      printf("  %-15s %.3f requests a second\n", "goodput",
             figures->value[KC_FIGURE_GOODPUT_REQ_S]);
    }
    if (figures->known[KC_FIGURE_OUTPUT_TOK_S]) {
      printf("  %-15s %.1f tok/s, within limits and beyond\n", "all output",
             figures->value[KC_FIGURE_OUTPUT_TOK_S]);
    }
    printf("  %-15s ", "fails");
    if (rate->above == NONE) {
      printf("no load that was tried; the trace is too short to fill the deployment\n");
    } else {
      print_load(rate, rate->above);
      printf("\n");
      print_probe_figures(rate, rate->above);
    }
  }
  printf("  %-15s %u run%s; ", "search", rate->probe_count, kc_plural(rate->probe_count));
  print_ends(rate, tolerance);
}

/* ---- the command ---- */

char *kc_plan_command(const struct kc_plan *plan, const char *path, bool as_bought)
{
  const size_t given = plan->request.set_count;
  struct kc_plan_sets *own = calloc(1, sizeof *own);
  const char *sets[KC_SWEEP_BASE_SETS_MAX + KC_PLAN_SETS_MAX];
  if (own == NULL) return NULL;
  kc_plan_sets_of(plan, &plan->run[plan->winner].probe, as_bought, own);
  for (size_t i = 0; i < given; i++) sets[i] = plan->request.sets[i];
  for (size_t i = 0; i < own->count; i++) sets[given + i] = own->text[i];
  char *command = kc_cli_sets_command("kvcap run", path, sets, given + own->count);
  free(own);
  return command;
}
