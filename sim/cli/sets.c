/* Changes of a scenario on the command line (see sets.h). */
#include "sim/cli/sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"
#include "sim/scenario/scenario.h"

void kc_cli_sets_fill(struct kc_cli_sets *out, const struct kc_option_list *sets,
                      const char *trace, const char *format)
{
  KC_ASSERT(sets->count <= KC_OPTION_LIST_MAX);
  out->count = 0;
  if (trace != NULL) {
    snprintf(out->trace, sizeof out->trace, "workload.trace=%s", trace);
    out->item[out->count++] = "workload.closed=null";
    out->item[out->count++] = out->trace;
  }
  if (format != NULL) {
    snprintf(out->format, sizeof out->format, "workload.format=%s", format);
    out->item[out->count++] = out->format;
  }
  for (size_t i = 0; i < sets->count; i++) out->item[out->count++] = sets->item[i];
}

enum kc_err kc_cli_trace_check(const char *trace, const char *scenario, struct kc_diag *diag)
{
  char found[KC_DIAG_PATH_BYTES], near[2 * KC_DIAG_PATH_BYTES];
  const char *slash = strrchr(scenario, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - scenario) + 1;
  KC_TRY(kc_trace_find(trace, scenario, found, diag));
  snprintf(near, sizeof near, "%.*s%s", folder, scenario, trace);
  if (strcmp(trace, "-") == 0 || kc_trace_exists(trace) || kc_trace_exists(near)) return KC_OK;
  kc_text_clean(found);
  kc_cli_note("there is no %s here; the one that is replayed is %s", trace, found);
  return KC_OK;
}

/* ---- as a command ---- */

static bool is_plain(const char *text)
{
  KC_ASSERT(text != NULL);
  const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+@%-";
  return text[0] != '\0' && text[strspn(text, allowed)] == '\0';
}

/* Words that a shell would take apart are quoted. */
static void put_word(FILE *out, const char *text)
{
  KC_ASSERT(out != NULL);
  if (is_plain(text)) {
    fputs(text, out);
    return;
  }
  fputc('\'', out);
  for (; *text != '\0'; text++) {
    if (*text == '\'') {
      fputs("'\\''", out);
    } else {
      fputc(*text, out);
    }
  }
  fputc('\'', out);
}

char *kc_cli_sets_command(const char *start, const char *path, const char *const *sets,
                          size_t count)
{
  char *text = NULL;
  size_t bytes = 0;
  KC_ASSERT(sets != NULL || count == 0);
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  fprintf(out, "%s ", start);
  put_word(out, path);
  for (size_t i = 0; i < count; i++) {
    fputs(" --set ", out);
    put_word(out, sets[i]);
  }
  const bool failed = ferror(out) != 0;
  if (fclose(out) == 0 && !failed) {
    kc_text_clean(text);
    return text;
  }
  free(text);
  return NULL;
}
