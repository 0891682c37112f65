/* What a scenario says about its trace, checked: the part of source.c about workload keys that only
 * a trace has. Names of formats come from the readers, so that a new reader is known here at once.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/scenario/source.h"

static const char *const trace_keys[] = {
  "format", "loop", "unit", "block_tokens", "tail", "zero_output", "missing_output", "failed",
  "cancelled", "from", "to", "skip", "limit", "sample", "idle_cap", "rate", "spread"};
enum { TRACE_KEYS = sizeof trace_keys / sizeof trace_keys[0] };

const char *kc_trace_format_literal(const char *name)
{
  KC_ASSERT(name != NULL);
  const char *literal;
  for (size_t i = 0; (literal = kc_trace_format_name(i)) != NULL; i++) {
    KC_ASSERT(literal[0] != '\0');
    if (strcmp(literal, name) == 0) return literal;
  }
  return NULL;
}

/* "auto, azure, ..." */
static void format_names(char *out, size_t size)
{
  KC_ASSERT(size > 5);
  const char *name;
  size_t used = (size_t)snprintf(out, size, "auto");
  for (size_t i = 0; used < size - 1 && (name = kc_trace_format_name(i)) != NULL; i++) {
    used += (size_t)snprintf(out + used, size - used, ", %s", name);
  }
}

static void check_format(const struct kc_scenario_source *source,
                         const struct kc_document *document, struct kc_diag_list *problems)
{
  KC_ASSERT(source->format[0] != '\0');
  char names[256];
  if (strcmp(source->format, "auto") == 0 || kc_trace_format_literal(source->format) != NULL) {
    return;
  }
  format_names(names, sizeof names);
  kc_source_problem(document, document->root, "workload.format", problems,
                    "workload.format: expected one of %s, got \"%s\"", names, source->format);
}

static void check_fraction(const char *key, const char *text, bool share,
                           struct kc_fraction *fraction, const struct kc_document *document,
                           struct kc_diag_list *problems)
{
  KC_ASSERT(key != NULL && text != NULL);
  *fraction = (struct kc_fraction){1, 1};
  if (kc_fraction_parse(text, fraction) &&
      (!share || fraction->numerator <= fraction->denominator)) {
    return;
  }
  kc_source_problem(document, document->root, key, problems,
                    "%s: expected a fraction such as 3/4 or 0.75 above 0%s, got \"%s\"", key,
                    share ? " and at most 1" : "", text);
  *fraction = (struct kc_fraction){1, 1};
}

static void refuse_trace_keys(const struct kc_document *document, struct kc_diag_list *problems)
{
  const struct kc_node *workload = kc_node_get(document->root, "workload");
  KC_ASSERT(workload != NULL);
  for (size_t i = 0; i < TRACE_KEYS; i++) {
    char key[48];
    if (kc_node_get(workload, trace_keys[i]) == NULL) continue;
    snprintf(key, sizeof key, "workload.%s", trace_keys[i]);
    kc_source_problem(document, document->root, key, problems,
                      "%s does not apply to a closed workload; take it away", key);
  }
}

void kc_source_check_trace(struct kc_scenario_source *source, const struct kc_document *document,
                           struct kc_diag_list *problems)
{
  KC_ASSERT(source != NULL && problems != NULL);
  check_fraction("workload.rate", source->rate, false, &source->rate_fraction, document, problems);
  check_fraction("workload.sample", source->sample, true, &source->sample_fraction, document,
                 problems);
  check_format(source, document, problems);
  if (source->is_closed) {
    refuse_trace_keys(document, problems);
    return;
  }
  if (source->has_to && source->to_ps <= source->from_ps) {
    kc_source_problem(document, document->root, "workload.to", problems,
                      "workload.to must be later than workload.from; nothing arrives between them");
  }
}
