/* Any bytes as the axes of a sweep: a line each, "case ..." or a --vary list. Never a crash;
 * whatever is refused is refused with a sentence; what is taken gives points whose changes are all
 * "key=value", each point other changes than the one before, and a text that says all of them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/vary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINE_BYTES = 512, POINTS_LOOKED_AT = 64 };

static void check_points(const struct kc_vary *vary)
{
  const char *sets[KC_VARY_SETS_MAX], *before[KC_VARY_SETS_MAX];
  size_t had = 0;
  const uint64_t step = vary->points / POINTS_LOOKED_AT + 1;
  for (uint64_t p = 0; p < vary->points; p += step) {
    const size_t count = kc_vary_sets(vary, p, sets);
    bool other = count != had;
    for (size_t i = 0; i < count; i++) {
      KC_ASSERT(strchr(sets[i], '=') != NULL);
      other = other || sets[i] != before[i];
    }
    KC_ASSERT(count > 0 && other);
    memcpy(before, sets, sizeof before);
    had = count;
  }
}

/* One line as an axis or a case; false when it was refused. */
static bool add_line(struct kc_vary *vary, const char *line)
{
  struct kc_diag diag = {0};
  const bool is_case = strncmp(line, "case ", 5) == 0;
  if (is_case && vary->axis_count > (vary->has_cases ? 1 : 0)) return true; /* cases come first */
  const enum kc_err err = is_case ? kc_vary_case(vary, line + 5, &diag)
                                  : kc_vary_key(vary, line, &diag);
  if (err != KC_OK) KC_ASSERT(diag.text[0] != '\0' && strchr(diag.text, '\n') == NULL);
  return err == KC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kc_vary vary;
  struct kc_diag diag = {0};
  bool taken = true;
  kc_vary_init(&vary);
  const bool zip = size > 0 && data[0] == 'z';
  for (size_t at = 0; at < size && taken;) {
    char line[LINE_BYTES];
    const uint8_t *end = memchr(data + at, '\n', size - at);
    const size_t bytes = end != NULL ? (size_t)(end - data) - at : size - at;
    snprintf(line, sizeof line, "%.*s", (int)(bytes < LINE_BYTES ? bytes : LINE_BYTES - 1),
             (const char *)data + at);
    taken = add_line(&vary, line);
    at += bytes + 1;
  }
  if (taken && kc_vary_finish(&vary, zip, &diag) == KC_OK) {
    check_points(&vary);
    char *text = vary.points <= 100000 ? kc_vary_text(&vary) : NULL;
    free(text);
  } else {
    KC_ASSERT(!taken || diag.text[0] != '\0');
  }
  kc_vary_free(&vary);
  return 0;
}
