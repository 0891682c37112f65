/* Requirements on figures (see require.h). */
#include "sim/scenario/require.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

static const char *const signs[] = {"<=", "<", ">=", ">"};

const char *kc_require_sign(enum kc_require_sense sense)
{
  KC_ASSERT((unsigned)sense < sizeof signs / sizeof signs[0]);
  return signs[sense];
}

bool kc_require_wants_low(enum kc_require_sense sense)
{
  KC_ASSERT((unsigned)sense < sizeof signs / sizeof signs[0]);
  return sense == KC_REQUIRE_AT_MOST || sense == KC_REQUIRE_LESS;
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

/* [*from, *to) without blanks at its ends. */
static void trim(const char **from, const char **to)
{
  KC_ASSERT(*from <= *to);
  while (*from < *to && is_blank(**from)) ++*from;
  while (*from < *to && is_blank((*to)[-1])) --*to;
}

static enum kc_err fail_syntax(const char *text, struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_USAGE, "\"%.80s\" is not a requirement; expected a figure, one of "
                 "<= < >= >, and a number, such as ttft_p95_ms<=500", text);
}

void kc_requirement_make(struct kc_requirement *requirement, enum kc_figure figure,
                         enum kc_require_sense sense, double limit)
{
  *requirement = (struct kc_requirement){.figure = figure, .sense = sense, .limit = limit};
  const int length = snprintf(requirement->text, sizeof requirement->text, "%s%s%.15g",
                              kc_figure_name(figure), kc_require_sign(sense), limit);
  KC_ASSERT(length > 0 && (size_t)length < sizeof requirement->text);
}

enum kc_err kc_requirement_parse(struct kc_requirement *requirement, const char *text,
                                 struct kc_diag *diag)
{
  const char *sign = strpbrk(text, "<>");
  KC_ASSERT(requirement != NULL);
  if (sign == NULL) return fail_syntax(text, diag);
  const bool equal = sign[1] == '=';
  const enum kc_require_sense sense = sign[0] == '<'
                                          ? equal ? KC_REQUIRE_AT_MOST : KC_REQUIRE_LESS
                                      : equal ? KC_REQUIRE_AT_LEAST
                                              : KC_REQUIRE_MORE;
  const char *name = text, *name_end = sign;
  const char *number = sign + (equal ? 2 : 1), *number_end = text + strlen(text);
  trim(&name, &name_end);
  trim(&number, &number_end);
  enum kc_figure figure;
  double limit;
  if (name == name_end || !kc_parse_double(number, (size_t)(number_end - number), &limit)) {
    return fail_syntax(text, diag);
  }
  KC_TRY(kc_figure_parse(name, (size_t)(name_end - name), &figure, diag));
  kc_requirement_make(requirement, figure, sense, limit);
  return KC_OK;
}

enum kc_err kc_requirements_parse(struct kc_requirement require[KC_REQUIREMENTS_MAX],
                                  uint32_t *count, const char *const *texts, size_t given,
                                  const char *option, struct kc_diag *diag)
{
  KC_ASSERT(option[0] != '\0');
  *count = 0;
  if (given > KC_REQUIREMENTS_MAX) {
    return kc_fail(diag, KC_ERR_USAGE, "--%s is given %zu times; at most %d are supported", option,
                   given, (int)KC_REQUIREMENTS_MAX);
  }
  for (size_t i = 0; i < given; i++) {
    struct kc_diag why;
    const enum kc_err err = kc_requirement_parse(&require[i], texts[i], &why);
    if (err != KC_OK) return kc_fail(diag, err, "--%s: %s", option, why.text);
  }
  *count = (uint32_t)given;
  return KC_OK;
}

/* `low` bounds a figure from above, `high` from below; nothing lies between them. */
static bool contradict(const struct kc_requirement *low, const struct kc_requirement *high)
{
  if (low->figure != high->figure || !kc_require_wants_low(low->sense) ||
      kc_require_wants_low(high->sense)) {
    return false;
  }
  if (low->limit < high->limit) return true;
  const bool both_equal = low->sense == KC_REQUIRE_AT_MOST && high->sense == KC_REQUIRE_AT_LEAST;
  return low->limit <= high->limit && !both_equal;
}

enum kc_err kc_requirements_agree(const struct kc_requirement *require, uint32_t count,
                                  const char *option, struct kc_diag *diag)
{
  KC_ASSERT(count <= KC_REQUIREMENTS_MAX);
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t j = 0; j < count; j++) {
      if (!contradict(&require[i], &require[j])) continue;
      return kc_fail(diag, KC_ERR_USAGE, "--%s: no value is both %s and %s; drop one of them",
                     option, require[i].text, require[j].text);
    }
  }
  return KC_OK;
}

static bool meets(enum kc_require_sense sense, double value, double limit)
{
  switch (sense) {
  case KC_REQUIRE_AT_MOST: return value <= limit;
  case KC_REQUIRE_LESS: return value < limit;
  case KC_REQUIRE_AT_LEAST: return value >= limit;
  case KC_REQUIRE_MORE: break;
  }
  return value > limit;
}

struct kc_require_outcome kc_requirement_check(const struct kc_requirement *requirement,
                                               const struct kc_figure_set *figures)
{
  struct kc_require_outcome outcome = {.known = figures->known[requirement->figure],
                                       .excess = KC_REQUIRE_HOPELESS};
  KC_ASSERT((unsigned)requirement->figure < KC_FIGURES);
  if (!outcome.known) return outcome;
  const bool low = kc_require_wants_low(requirement->sense);
  outcome.value = figures->value[requirement->figure];
  outcome.met = meets(requirement->sense, outcome.value, requirement->limit);
  const double over = low ? outcome.value : requirement->limit;
  const double under = low ? requirement->limit : outcome.value;
  if (over > 0 && under > 0) outcome.excess = over / under;
  if (outcome.met && !(outcome.excess <= 1)) outcome.excess = 1; /* signs that differ, zeros */
  if (!outcome.met && outcome.excess <= 1) { /* equality where less or more is wanted */
    outcome.excess = 1 + 1e-9;
  }
  if (outcome.excess > KC_REQUIRE_HOPELESS) outcome.excess = KC_REQUIRE_HOPELESS;
  KC_ASSERT(outcome.met == (outcome.excess <= 1));
  return outcome;
}
