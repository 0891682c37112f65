/* Any bytes as a scenario: parse, override, read through the option tables. Never a crash; whatever
 * is refused is refused with a sentence. A first line "#set key=value" of an input is an override.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/scenario/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problems(const struct kc_diag_list *problems)
{
  for (uint32_t i = 0; i < problems->count && i < KC_DIAG_LIST_MAX; i++) {
    KC_ASSERT(problems->items[i].code != KC_OK);
    KC_ASSERT(problems->items[i].text[0] != '\0');
    for (const char *c = problems->items[i].text; *c != '\0'; c++) KC_ASSERT(*c != '\n');
  }
}

/* Applies the override of the first line, if it is one. */
static void apply_set(struct kc_document *document, const char *data, size_t size)
{
  char assignment[256];
  struct kc_diag diag;
  if (size < 5 || memcmp(data, "#set ", 5) != 0) return;
  const char *end = memchr(data, '\n', size);
  const size_t length = end == NULL ? size : (size_t)(end - data);
  snprintf(assignment, sizeof assignment, "%.*s", (int)(length - 5 < 200 ? length - 5 : 200),
           data + 5);
  if (kc_document_set(document, assignment, &diag) != KC_OK) KC_ASSERT(diag.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kc_document document;
  struct kc_diag diag;
  if (kc_document_parse(&document, "f.yaml", (const char *)data, size, &diag) != KC_OK) {
    KC_ASSERT(diag.text[0] != '\0');
    return 0;
  }
  apply_set(&document, (const char *)data, size);
  struct kc_scenario_source *source = malloc(sizeof *source);
  struct kc_diag_list *problems = malloc(sizeof *problems);
  KC_ASSERT(source != NULL && problems != NULL);
  kc_diag_list_init(problems);
  kc_scenario_source_read(source, &document, problems);
  check_problems(problems);
  if (problems->count == 0) {
    /* What was accepted keeps the promises that later stages rely on. */
    KC_ASSERT(source->pool_count == 1 && source->model[0] != '\0');
    KC_ASSERT(source->is_closed != source->has_trace);
    KC_ASSERT(!source->is_closed || source->requests >= source->concurrency);
    KC_ASSERT(source->rate_fraction.numerator > 0 && source->sample_fraction.denominator > 0);
    KC_ASSERT(!source->has_to || source->is_closed || source->to_ps > source->from_ps);
    KC_ASSERT(source->pool[0].tensor >= 1 && source->pool[0].gpu[0] != '\0');
  }
  free(source);
  free(problems);
  kc_document_free(&document);
  return 0;
}
