/* The expect: list of a scenario (see expect.h): its option table, its checks, its arithmetic. */
#include "sim/scenario/expect.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/option.h"

#define FIELD(field) .offset = offsetof(struct kc_expect, field), \
                     .size = sizeof(((struct kc_expect *)0)->field)
#define GIVEN(field) .set_offset = offsetof(struct kc_expect, field)
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

#define NAME(id, name, unit, better, run, decimals, help) name "|"
static const char metric_names[] = KC_FIGURE_TABLE(NAME) "largest_fit";

static const char *const kind_names[] = {"derived", "calibrated", "left-out", "modelled"};

static const struct kc_option expect_options[] = {
  {.key = "what", .type = KC_OPTION_TEXT, FIELD(what), .required = true,
   .help = "the figure in words"},
  {.key = "metric", .type = KC_OPTION_CHOICE, FIELD(metric), .required = true,
   .values = metric_names, .help = "which figure"},
  {.key = "value", .type = KC_OPTION_DOUBLE, FIELD(value), .required = true, .min = -1e15,
   .max = 1e15, .help = "as published"},
  {.key = "within_percent", .type = KC_OPTION_DOUBLE, FIELD(within_percent),
   GIVEN(has_within_percent), .min = 0, .max = 1000, .unit = "percent",
   .help = "largest difference, in percent of the value"},
  {.key = "within", .type = KC_OPTION_DOUBLE, FIELD(within), GIVEN(has_within), .min = 0,
   .max = 1e15, .help = "largest difference, in the unit of the value"},
  {.key = "at_least", .type = KC_OPTION_DOUBLE, FIELD(at_least), GIVEN(has_at_least),
   .min = -1e15, .max = 1e15, .help = "least that is accepted"},
  {.key = "at_most", .type = KC_OPTION_DOUBLE, FIELD(at_most), GIVEN(has_at_most), .min = -1e15,
   .max = 1e15, .help = "most that is accepted"},
  {.key = "kind", .type = KC_OPTION_CHOICE, FIELD(kind), .required = true,
   .values = "derived|calibrated|left-out|modelled", .help = "what the prediction rests on"},
  {.key = "set", .type = KC_OPTION_TEXT, FIELD(set),
   .help = "changes of the scenario for this figure: \"key=value; key=value\""},
  {.key = "against", .type = KC_OPTION_TEXT, FIELD(against), GIVEN(has_against),
   .help = "the figure is the change in percent from the scenario with these changes"},
  {.key = "among", .type = KC_OPTION_TEXT, FIELD(among),
   .help = "largest_fit: the numbers of requests that were tried, such as \"1 8 16\""},
  {.key = "source", .type = KC_OPTION_TEXT, FIELD(source), .required = true,
   .help = "who published it where"},
};

const char *kc_expect_metric_name(int metric)
{
  KC_ASSERT(metric >= 0 && metric <= KC_EXPECT_LARGEST_FIT);
  return metric == KC_EXPECT_LARGEST_FIT ? "largest_fit" : kc_figure_name((enum kc_figure)metric);
}

/* Which figure a metric is worked out from. */
static enum kc_figure figure_of(int metric)
{
  KC_ASSERT(metric >= 0 && metric <= KC_EXPECT_LARGEST_FIT);
  return metric == KC_EXPECT_LARGEST_FIT ? KC_FIGURE_REQUESTS_FIT : (enum kc_figure)metric;
}

const char *kc_expect_metric_unit(int metric)
{
  return kc_figure_unit(figure_of(metric));
}

bool kc_expect_needs_run(int metric)
{
  return kc_figure_needs_run(figure_of(metric));
}

const char *kc_expect_kind_name(enum kc_expect_kind kind)
{
  KC_ASSERT((unsigned)kind < COUNT(kind_names));
  return kind_names[kind];
}

static void check_item(const struct kc_expect *expect, const struct kc_node *item,
                       const char *path, struct kc_diag_list *problems)
{
  const bool largest = expect->metric == KC_EXPECT_LARGEST_FIT;
  KC_ASSERT(item->kind == KC_NODE_MAP);
  if (largest != (expect->among[0] != '\0')) {
    kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                     "expect: `among` goes with metric largest_fit, and only with it");
  }
  if (expect->has_within_percent && (expect->value == 0 || expect->has_against)) {
    kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                     "expect: within_percent needs a value other than 0 and no `against`; use "
                     "within, in %s", expect->has_against ? "points" : "the value's unit");
  }
  if (expect->has_at_least && expect->has_at_most && expect->at_least > expect->at_most) {
    kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                     "expect: at_least %.10g lies above at_most %.10g, so no figure can hold",
                     expect->at_least, expect->at_most);
  }
}

uint32_t kc_expect_read(struct kc_expect expect[KC_EXPECT_MAX], const struct kc_node *list,
                        const char *path, struct kc_diag_list *problems)
{
  KC_ASSERT(expect != NULL && problems != NULL);
  uint32_t count = 0;
  if (list == NULL) return 0;
  if (list->kind != KC_NODE_LIST) {
    kc_diag_list_add(problems, KC_ERR_INPUT, path, list->line, list->column,
                     "expect: expected a list of figures, each starting with \"- {what: ...\"");
    return 0;
  }
  for (const struct kc_node *item = list->child; item != NULL; item = item->next) {
    if (count == KC_EXPECT_MAX || item->kind != KC_NODE_MAP) {
      kc_diag_list_add(problems, KC_ERR_INPUT, path, item->line, item->column,
                       "expect: expected at most %d maps of keys and values", (int)KC_EXPECT_MAX);
      return count;
    }
    memset(&expect[count], 0, sizeof expect[count]);
    kc_options_default(expect_options, COUNT(expect_options), &expect[count]);
    kc_options_read_map(expect_options, COUNT(expect_options), &expect[count], item, path,
                        "expect.", problems);
    check_item(&expect[count], item, path, problems);
    count++;
  }
  KC_ASSERT(count <= KC_EXPECT_MAX);
  return count;
}

double kc_expect_error(const struct kc_expect *expect, double predicted)
{
  KC_ASSERT(predicted == predicted);
  const double difference = predicted - expect->value;
  if (expect->has_against || expect->value == 0) return difference;
  return 100.0 * difference / (expect->value < 0 ? -expect->value : expect->value);
}

bool kc_expect_has_bound(const struct kc_expect *expect)
{
  return expect->has_within_percent || expect->has_within || expect->has_at_least ||
         expect->has_at_most;
}

bool kc_expect_holds(const struct kc_expect *expect, double predicted)
{
  KC_ASSERT(predicted == predicted);
  const double difference = predicted - expect->value;
  const double away = difference < 0 ? -difference : difference;
  const double size = expect->value < 0 ? -expect->value : expect->value;
  if (expect->has_within_percent && away > size * expect->within_percent / 100.0) return false;
  if (expect->has_within && away > expect->within) return false;
  if (expect->has_at_least && predicted < expect->at_least) return false;
  return !expect->has_at_most || predicted <= expect->at_most;
}

/* The largest of the numbers in `among` that is not more than `fits`; 0 when none is. */
static enum kc_err largest_fit(const char *among, double fits, double *value,
                               struct kc_diag *diag)
{
  KC_ASSERT(among[0] != '\0');
  *value = 0;
  for (const char *at = among + strspn(among, " "); *at != '\0'; at += strspn(at, " ")) {
    uint64_t number;
    const size_t length = strcspn(at, " ");
    if (!kc_parse_u64(at, length, &number)) {
      return kc_fail(diag, KC_ERR_INPUT, "expect.among: expected whole numbers separated by "
                     "spaces, got \"%s\"", among);
    }
    if ((double)number <= fits && (double)number > *value) *value = (double)number;
    at += length;
  }
  return KC_OK;
}

enum kc_err kc_expect_value(const struct kc_expect *expect, const struct kc_figure_set *figures,
                            const char *name, double *value, struct kc_diag *diag)
{
  const enum kc_figure figure = figure_of(expect->metric);
  KC_ASSERT(value != NULL);
  if (!figures->known[figure]) {
    return kc_fail(diag, KC_ERR_INPUT, "\"%s\" has no %s", name, kc_figure_name(figure));
  }
  *value = figures->value[figure];
  if (expect->metric != KC_EXPECT_LARGEST_FIT) return KC_OK;
  return largest_fit(expect->among, *value, value, diag);
}

size_t kc_expect_sets(char *text, const char **sets, size_t max)
{
  KC_ASSERT(text != NULL && sets != NULL);
  size_t count = 0;
  while (*text != '\0') {
    text += strspn(text, " ");
    char *end = text + strcspn(text, ";");
    char *next = *end == ';' ? end + 1 : end;
    while (end > text && end[-1] == ' ') end--;
    *end = '\0';
    if (*text != '\0') {
      if (count == max) return SIZE_MAX;
      sets[count++] = text;
    }
    text = next;
  }
  return count;
}
