/* Axes of a sweep (see vary.h). Set-up code: it may allocate. */
#include "sim/plan/vary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/vtime.h"
#include "traces/transform/transform.h"

void kc_vary_init(struct kc_vary *grid)
{
  KC_ASSERT(grid != NULL);
  memset(grid, 0, sizeof *grid);
}

void kc_vary_free(struct kc_vary *grid)
{
  KC_ASSERT(grid->axis_count <= KC_VARY_AXES_MAX);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    struct kc_vary_axis *axis = &grid->axis[a];
    for (uint32_t i = 0; i < axis->count; i++) {
      free(axis->value[i].label);
      free(axis->value[i].sets);
    }
    free(axis->value);
    free(axis->key);
  }
  kc_vary_init(grid);
}

static enum kc_err no_memory(struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for the points of the sweep");
}

/* ---- axes and values ---- */

static enum kc_err add_axis(struct kc_vary *grid, const char *key, size_t bytes,
                            struct kc_vary_axis **out, struct kc_diag *diag)
{
  KC_ASSERT(bytes > 0);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const char *other = grid->axis[a].key;
    if (strlen(other) != bytes || memcmp(other, key, bytes) != 0) continue;
    return kc_fail(diag, KC_ERR_USAGE, "--vary: %.*s is varied twice; put all its values into one "
                   "list", (int)bytes, key);
  }
  if (grid->axis_count == KC_VARY_AXES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "--vary: at most %d keys can be varied",
                   (int)KC_VARY_AXES_MAX);
  }
  char *copy = strndup(key, bytes);
  if (copy == NULL) return no_memory(diag);
  *out = &grid->axis[grid->axis_count++];
  **out = (struct kc_vary_axis){.key = copy};
  return KC_OK;
}

static enum kc_err too_many(const struct kc_vary_axis *axis, struct kc_diag *diag)
{
  KC_ASSERT(axis->count <= KC_VARY_VALUES_MAX);
  return kc_fail(diag, KC_ERR_LIMIT, "--vary: %s has more than %d values", axis->key,
                 (int)KC_VARY_VALUES_MAX);
}

/* Takes over `label` and `sets`, also on failure; either may be NULL (memory ran out). The first
 * `others` values of the axis are those that it may not repeat. */
static enum kc_err add_value(struct kc_vary_axis *axis, char *label, char *sets,
                             uint32_t set_count, uint32_t others, struct kc_diag *diag)
{
  enum kc_err err = label == NULL || sets == NULL ? no_memory(diag) : KC_OK;
  KC_ASSERT(others <= axis->count);
  for (uint32_t i = 0; err == KC_OK && i < others; i++) {
    if (strcmp(axis->value[i].label, label) != 0) continue;
    err = kc_fail(diag, KC_ERR_USAGE, "--vary: %s has the value \"%.64s\" twice", axis->key, label);
  }
  if (err == KC_OK && axis->count == KC_VARY_VALUES_MAX) {
    err = too_many(axis, diag);
  }
  if (err == KC_OK && axis->count == axis->room) {
    const uint32_t room = axis->room == 0 ? 16 : axis->room * 2;
    struct kc_vary_value *grown = realloc(axis->value, room * sizeof *grown);
    if (grown == NULL) {
      err = no_memory(diag);
    } else {
      axis->value = grown;
      axis->room = room;
    }
  }
  if (err == KC_OK) {
    axis->value[axis->count++] = (struct kc_vary_value){label, sets, set_count};
    return KC_OK;
  }
  free(label);
  free(sets);
  return err;
}

/* One value of a key: the change is "key=value". */
static enum kc_err add_text(struct kc_vary_axis *axis, const char *text, size_t bytes,
                            uint32_t others, struct kc_diag *diag)
{
  char *sets = NULL;
  KC_ASSERT(bytes <= INT32_MAX);
  if (asprintf(&sets, "%s=%.*s", axis->key, (int)bytes, text) < 0) sets = NULL;
  return add_value(axis, strndup(text, bytes), sets, 1, others, diag);
}

/* ---- ranges ---- */

struct range {
  double first, last, step; /* step: added, or the factor */
  bool whole, factor;
};

static enum kc_err bad_range(const struct kc_vary_axis *axis, const char *text, size_t bytes,
                             const char *fault, struct kc_diag *diag)
{
  KC_ASSERT(fault != NULL);
  return kc_fail(diag, KC_ERR_USAGE, "--vary %s: the range \"%.*s\" %s", axis->key,
                 bytes < 64 ? (int)bytes : 64, text, fault);
}

/* A number, whole if it can be ("8k" is). */
static bool parse_number(const char *text, size_t bytes, double *value, bool *whole)
{
  uint64_t number;
  KC_ASSERT(value != NULL);
  if (kc_parse_u64(text, bytes, &number) && number < UINT64_C(1) << 53) {
    *value = (double)number;
    return true;
  }
  *whole = false;
  return kc_parse_double(text, bytes, value);
}

/* "8..64*2"; `dots` is where the ".." stands. */
static enum kc_err parse_range(const struct kc_vary_axis *axis, const char *text, size_t bytes,
                               size_t dots, struct range *range, struct kc_diag *diag)
{
  const char *end = text + bytes, *last = text + dots + 2;
  const char *mark = last;
  while (mark < end && *mark != ':' && *mark != '*') mark++;
  *range = (struct range){.step = 1, .whole = true, .factor = mark < end && *mark == '*'};
  bool parsed = parse_number(text, dots, &range->first, &range->whole) &&
                parse_number(last, (size_t)(mark - last), &range->last, &range->whole);
  if (parsed && mark < end) {
    bool ignored;
    bool *whole = range->factor ? &ignored : &range->whole;
    parsed = parse_number(mark + 1, (size_t)(end - mark - 1), &range->step, whole);
  } else if (parsed && !range->whole) {
    return bad_range(axis, text, bytes, "needs a step, such as 0.1..0.5:0.1", diag);
  }
  if (!parsed) {
    return bad_range(axis, text, bytes, "is not FIRST..LAST, FIRST..LAST:STEP or "
                     "FIRST..LAST*FACTOR with numbers", diag);
  }
  KC_ASSERT(mark >= last);
  if (range->last < range->first) {
    return bad_range(axis, text, bytes, "is empty: its end is below its beginning", diag);
  }
  if (range->factor ? range->step <= 1 || range->first <= 0 : range->step <= 0) {
    return bad_range(axis, text, bytes, range->factor
                         ? "needs a factor above 1 and a beginning above 0"
                         : "needs a step above 0", diag);
  }
  return KC_OK;
}

/* The values of a range, each worked out from its beginning, so that steps do not add up errors. */
static enum kc_err add_range(struct kc_vary_axis *axis, const char *text, size_t bytes,
                             size_t dots, struct kc_diag *diag)
{
  struct range range;
  char number[40], before[40] = "";
  KC_TRY(parse_range(axis, text, bytes, dots, &range, diag));
  const double limit = range.last + (range.last < 0 ? -range.last : range.last) * 1e-12;
  double value = range.first;
  if (!range.factor && (range.last - range.first) / range.step >= KC_VARY_VALUES_MAX) {
    return too_many(axis, diag);
  }
  const uint32_t others = axis->count; /* values of one range ascend */
  KC_ASSERT(value <= limit);
  for (uint32_t i = 1; value <= limit; i++) {
    if (range.whole) {
      snprintf(number, sizeof number, "%.0f", floor(value + 0.5));
    } else {
      snprintf(number, sizeof number, "%.15g", value);
    }
    if (strcmp(number, before) != 0) KC_TRY(add_text(axis, number, strlen(number), others, diag));
    memcpy(before, number, sizeof before);
    value = range.factor ? value * range.step : range.first + (double)i * range.step;
  }
  return KC_OK;
}

/* ---- ranges of fractions ---- */

/* A fraction in the making: terms of up to 2^120, lowest. */
struct exact {
  kc_u128 over, under;
};

static struct exact lowest(kc_u128 over, kc_u128 under)
{
  kc_u128 a = over, b = under;
  KC_ASSERT(under > 0);
  while (b != 0) {
    const kc_u128 rest = a % b;
    a = b;
    b = rest;
  }
  return (struct exact){over / a, under / a};
}

static bool part_of_range(const char *text, size_t bytes, struct kc_fraction *out)
{
  char part[64];
  if (bytes >= sizeof part) return false;
  memcpy(part, text, bytes);
  part[bytes] = '\0';
  return kc_fraction_parse(part, out);
}

/* "1/8..1/2*2" and "1/4..1:1/4": each value in lowest terms, exactly. */
static enum kc_err add_fractions(struct kc_vary_axis *axis, const char *text, size_t bytes,
                                 size_t dots, struct kc_diag *diag)
{
  const char *end = text + bytes, *last = text + dots + 2, *mark = last;
  while (mark < end && *mark != ':' && *mark != '*') mark++;
  const bool factor = mark < end && *mark == '*';
  struct kc_fraction from, to, step;
  if (mark == end) return bad_range(axis, text, bytes, "needs a step, such as 1/4..1:1/4", diag);
  if (!part_of_range(text, dots, &from) || !part_of_range(last, (size_t)(mark - last), &to) ||
      !part_of_range(mark + 1, (size_t)(end - mark - 1), &step)) {
    return bad_range(axis, text, bytes, "is not FIRST..LAST:STEP or FIRST..LAST*FACTOR with "
                     "fractions above 0 whose terms are at most 10^9", diag);
  }
  if (factor && step.numerator <= step.denominator) {
    return bad_range(axis, text, bytes, "needs a factor above 1", diag);
  }
  const uint32_t others = axis->count; /* values of one range ascend */
  struct exact value = {from.numerator, from.denominator};
  while (value.over * to.denominator <= (kc_u128)to.numerator * value.under) {
    char number[48];
    if (value.under > UINT32_MAX || value.over > UINT32_MAX) {
      return bad_range(axis, text, bytes, "has values whose terms are too large; take another step",
                       diag);
    }
    const unsigned long long over = (unsigned long long)value.over;
    snprintf(number, sizeof number, value.under == 1 ? "%llu" : "%llu/%llu", over,
             (unsigned long long)value.under);
    KC_TRY(add_text(axis, number, strlen(number), others, diag));
    value = factor ? lowest(value.over * step.numerator, value.under * step.denominator)
                   : lowest(value.over * step.denominator + step.numerator * value.under,
                            value.under * step.denominator);
  }
  if (axis->count > others) return KC_OK;
  return bad_range(axis, text, bytes, "is empty: its end is below its beginning", diag);
}

/* ---- lists ---- */

/* Bytes of the item at `text`: up to a comma outside brackets, braces and quotes, or the end. */
static size_t item_bytes(const char *text)
{
  int depth = 0;
  char quote = '\0';
  size_t n = 0;
  for (; text[n] != '\0'; n++) {
    const char c = text[n];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      depth++;
    } else if (c == '}' || c == ']') {
      depth--;
    } else if (c == ',' && depth <= 0) {
      break;
    }
  }
  KC_ASSERT(text[n] == '\0' || text[n] == ',');
  return n;
}

/* Where the ".." of a range stands; false when the item is no range: what is before the dots is no
 * number or fraction then, as in a path. */
static bool find_dots(const char *text, size_t bytes, size_t *dots)
{
  double value;
  bool whole;
  KC_ASSERT(dots != NULL);
  for (size_t i = 1; i + 1 < bytes; i++) {
    if (text[i] != '.' || text[i + 1] != '.') continue;
    struct kc_fraction fraction;
    *dots = i;
    return parse_number(text, i, &value, &whole) || part_of_range(text, i, &fraction);
  }
  return false;
}

enum kc_err kc_vary_key(struct kc_vary *grid, const char *text, struct kc_diag *diag)
{
  KC_ASSERT(grid->points == 0);
  const char *equals = strchr(text, '=');
  struct kc_vary_axis *axis;
  if (equals == NULL || equals == text) {
    return kc_fail(diag, KC_ERR_USAGE, "--vary: expected KEY=VALUE,VALUE,... or KEY=FIRST..LAST, "
                   "got \"%.64s\"", text);
  }
  KC_TRY(add_axis(grid, text, (size_t)(equals - text), &axis, diag));
  for (const char *at = equals + 1;; at++) {
    const size_t bytes = item_bytes(at);
    size_t dots;
    if (bytes == 0) {
      return kc_fail(diag, KC_ERR_USAGE, "--vary %s: a value is empty; separate values by single "
                     "commas", axis->key);
    }
    KC_TRY(!find_dots(at, bytes, &dots)           ? add_text(axis, at, bytes, axis->count, diag)
           : memchr(at, '/', bytes) == NULL ? add_range(axis, at, bytes, dots, diag)
                                            : add_fractions(axis, at, bytes, dots, diag));
    at += bytes;
    if (*at == '\0') break;
  }
  KC_ASSERT(axis->count > 0);
  return KC_OK;
}

/* ---- cases ---- */

/* Cuts "a=b; c=d" at its semicolons, in place, into "a=b\0c=d\0". Returns the number, or 0 when one
 * is no change or there are too many. */
static uint32_t cut_sets(char *text)
{
  char *out = text;
  uint32_t count = 0;
  KC_ASSERT(text != NULL);
  for (char *at = text; *at != '\0';) {
    at += strspn(at, " ");
    char *end = at + strcspn(at, ";");
    char *next = *end == ';' ? end + 1 : end;
    while (end > at && end[-1] == ' ') end--;
    const size_t bytes = (size_t)(end - at);
    if (bytes > 0) {
      if (memchr(at, '=', bytes) == NULL || ++count > KC_VARY_CASE_SETS_MAX) return 0;
      const bool last = *next == '\0';
      memmove(out, at, bytes);
      out[bytes] = '\0';
      out += bytes + 1;
      if (last) break;
    }
    at = next;
  }
  return count;
}

enum kc_err kc_vary_case(struct kc_vary *grid, const char *text, struct kc_diag *diag)
{
  KC_ASSERT(grid->axis_count == (grid->has_cases ? 1 : 0));
  KC_ASSERT(grid->points == 0);
  const char *colon = strstr(text, ": ");
  struct kc_vary_axis *axis = &grid->axis[0];
  if (colon == NULL || colon == text) {
    return kc_fail(diag, KC_ERR_USAGE, "--case: expected \"LABEL: KEY=VALUE; KEY=VALUE\", got "
                   "\"%.64s\"", text);
  }
  if (!grid->has_cases) KC_TRY(add_axis(grid, "case", 4, &axis, diag));
  grid->has_cases = true;
  char *sets = strdup(colon + 2);
  const uint32_t count = sets != NULL ? cut_sets(sets) : 0;
  if (sets != NULL && count == 0) {
    free(sets);
    return kc_fail(diag, KC_ERR_USAGE, "--case: expected 1 to %d changes KEY=VALUE separated by "
                   "semicolons, got \"%.64s\"", (int)KC_VARY_CASE_SETS_MAX, colon + 2);
  }
  return add_value(axis, strndup(text, (size_t)(colon - text)), sets, count, axis->count,
                   diag);
}

/* ---- points ---- */

/* With `zip`, axes have equal lengths. */
static enum kc_err check_zip(const struct kc_vary *grid, struct kc_diag *diag)
{
  const uint32_t first = grid->has_cases;
  KC_ASSERT(grid->axis_count > 0);
  for (uint32_t a = first + 1; a < grid->axis_count; a++) {
    if (grid->axis[a].count == grid->axis[first].count) continue;
    return kc_fail(diag, KC_ERR_USAGE, "--zip: %s has %u values and %s %u; lists that are walked "
                   "together must be equally long", grid->axis[first].key, grid->axis[first].count,
                   grid->axis[a].key, grid->axis[a].count);
  }
  return KC_OK;
}

/* The axis, not that of the cases, whose key "key=value" changes; NULL when there is none. */
static const char *varied_key(const struct kc_vary *grid, const char *change)
{
  const size_t length = strcspn(change, "=");
  for (uint32_t a = grid->has_cases; a < grid->axis_count; a++) {
    const char *key = grid->axis[a].key;
    KC_ASSERT(key[0] != '\0');
    if (strlen(key) == length && memcmp(key, change, length) == 0) return key;
  }
  return NULL;
}

enum kc_err kc_vary_check_sets(const struct kc_vary *grid, const char *const *sets, size_t count,
                               struct kc_diag *diag)
{
  KC_ASSERT(count == 0 || sets != NULL);
  for (size_t i = 0; i < count; i++) {
    const char *key = varied_key(grid, sets[i]);
    if (key == NULL) continue;
    return kc_fail(diag, KC_ERR_USAGE, "\"%.80s\" is set for every point, and --vary varies %s; "
                   "keep one", sets[i], key);
  }
  return KC_OK;
}

static enum kc_err check_cases(const struct kc_vary *grid, struct kc_diag *diag)
{
  KC_ASSERT(grid->axis_count > 0);
  for (uint32_t i = 0; grid->has_cases && i < grid->axis[0].count; i++) {
    const struct kc_vary_value *value = &grid->axis[0].value[i];
    const char *at = value->sets;
    for (uint32_t s = 0; s < value->set_count; s++, at += strlen(at) + 1) {
      const char *key = varied_key(grid, at);
      if (key == NULL) continue;
      return kc_fail(diag, KC_ERR_USAGE, "--case: \"%.64s\" changes %s, which --vary varies; keep "
                     "one", value->label, key);
    }
  }
  return KC_OK;
}

enum kc_err kc_vary_finish(struct kc_vary *grid, bool zip, struct kc_diag *diag)
{
  KC_ASSERT(grid->points == 0);
  if (grid->axis_count == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "nothing is varied; give --vary KEY=VALUE,VALUE,... or "
                   "--case");
  }
  KC_TRY(check_cases(grid, diag));
  grid->zip = zip;
  if (zip) KC_TRY(check_zip(grid, diag));
  uint64_t points = 1;
  const uint32_t zipped = grid->has_cases; /* of zipped axes, the first one counts */
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    if (!zip || a <= zipped) points *= grid->axis[a].count;
    if (points <= KC_VARY_POINTS_MAX) continue;
    return kc_fail(diag, KC_ERR_LIMIT, "the sweep has more than %d points; vary less at once, or "
                   "walk lists together with --zip", (int)KC_VARY_POINTS_MAX);
  }
  KC_ASSERT(points > 0);
  grid->points = points;
  return KC_OK;
}

uint32_t kc_vary_index(const struct kc_vary *grid, uint64_t point, uint32_t axis)
{
  KC_ASSERT(point < grid->points);
  KC_ASSERT(axis < grid->axis_count);
  uint64_t inner = 1; /* points for each step of the axis */
  if (grid->zip) {
    if (grid->has_cases && axis == 0) inner = grid->points / grid->axis[0].count;
  } else {
    for (uint32_t a = axis + 1; a < grid->axis_count; a++) inner *= grid->axis[a].count;
  }
  return (uint32_t)(point / inner % grid->axis[axis].count);
}

const char *kc_vary_label(const struct kc_vary *grid, uint64_t point, uint32_t axis)
{
  const uint32_t index = kc_vary_index(grid, point, axis);
  KC_ASSERT(index < grid->axis[axis].count);
  return grid->axis[axis].value[index].label;
}

size_t kc_vary_sets(const struct kc_vary *grid, uint64_t point,
                    const char *sets[KC_VARY_SETS_MAX])
{
  size_t count = 0;
  KC_ASSERT(sets != NULL);
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const struct kc_vary_value *value = &grid->axis[a].value[kc_vary_index(grid, point, a)];
    const char *at = value->sets;
    for (uint32_t i = 0; i < value->set_count; i++, at += strlen(at) + 1) {
      KC_ASSERT(count < KC_VARY_SETS_MAX);
      sets[count++] = at;
    }
  }
  return count;
}

char *kc_vary_text(const struct kc_vary *grid)
{
  char *text = NULL;
  size_t bytes = 0;
  KC_ASSERT(grid->points > 0);
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  fprintf(out, "%s\n", grid->zip ? "zipped" : "crossed");
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const struct kc_vary_axis *axis = &grid->axis[a];
    fprintf(out, "axis %s\n", axis->key);
    for (uint32_t i = 0; i < axis->count; i++) {
      const char *at = axis->value[i].sets;
      fprintf(out, "  %s:", axis->value[i].label);
      for (uint32_t s = 0; s < axis->value[i].set_count; s++, at += strlen(at) + 1) {
        fprintf(out, "%s %s", s == 0 ? "" : ";", at);
      }
      fputc('\n', out);
    }
  }
  const bool failed = ferror(out) != 0;
  if (fclose(out) == 0 && !failed) return text;
  free(text);
  return NULL;
}
