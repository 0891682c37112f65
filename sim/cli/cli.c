/* Helpers shared by the commands: arguments, problems on stderr, JSON on stdout.
 *
 * Nothing here keeps state; what is printed is printed at once. JSON text is built whole before the
 * first byte goes out, so that stdout holds one valid document or nothing.
 */
#include "sim/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"

/* ---- arguments ---- */

static void write_stdout(void *context, const char *text)
{
  (void)context;
  fputs(text, stdout);
}

void kc_cli_help(const struct kc_cli_usage *usage)
{
  KC_ASSERT(usage != NULL);
  KC_ASSERT(usage->name != NULL);
  if (kc_manual_form() != KC_MANUAL_NONE) {
    kc_manual_usage(usage);
    return;
  }
  printf("usage: kvcap %s%s%s\n", usage->name, usage->synopsis[0] == '\0' ? "" : " ",
         usage->synopsis);
  printf("\n%s\n", usage->about);
  printf("\noptions:\n");
  kc_options_help(usage->options, usage->option_count, write_stdout, NULL);
  printf("  --help                  print this text\n");
  if (usage->epilogue != NULL) printf("\n%s\n", usage->epilogue);
}

/* --help wins over every error, wherever it stands before "--". */
static bool asks_for_help(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0) return false;
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  }
  return false;
}

int kc_cli_arguments(const struct kc_cli_usage *usage, void *target, int argc, char **argv,
                     const char **positional, size_t *given)
{
  KC_ASSERT(argc >= 1);
  KC_ASSERT(usage->positional_max <= KC_CLI_POSITIONAL_MAX);
  if (asks_for_help(argc, argv)) {
    kc_cli_help(usage);
    return 0;
  }
  struct kc_diag diag;
  size_t count = 0;
  kc_options_default(usage->options, usage->option_count, target);
  if (kc_options_read_arguments(usage->options, usage->option_count, target, argc, argv, positional,
                                usage->positional_max, &count, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  if (count < usage->positional_min) {
    kc_fail(&diag, KC_ERR_USAGE, "too few arguments; expected: kvcap %s %s", usage->name,
            usage->synopsis);
    return kc_cli_fail(&diag);
  }
  if (given != NULL) *given = count;
  return -1;
}

/* ---- problems ---- */

int kc_cli_fail(const struct kc_diag *diag)
{
  KC_ASSERT(diag != NULL);
  KC_ASSERT(diag->code != KC_OK);
  char line[KC_DIAG_TEXT_BYTES + KC_DIAG_PATH_BYTES + 64];
  kc_diag_print(diag, line, sizeof line);
  for (char *c = line; *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?'; /* input must not steer a terminal */
  }
  fprintf(stderr, "kvcap: %s\n", line);
  return kc_err_exit_status(diag->code);
}

int kc_cli_fail_list(const struct kc_diag_list *problems)
{
  KC_ASSERT(problems != NULL);
  KC_ASSERT(problems->count > 0);
  const uint32_t shown = problems->count < KC_DIAG_LIST_MAX ? problems->count : KC_DIAG_LIST_MAX;
  for (uint32_t i = 0; i < shown; i++) kc_cli_fail(&problems->items[i]);
  if (problems->count > shown) {
    fprintf(stderr, "kvcap: and %u more problems\n", problems->count - shown);
  }
  return kc_err_exit_status(problems->items[0].code);
}

enum { NOTE_BYTES = 4096 };

void kc_cli_note(const char *format, ...)
{
  KC_ASSERT(format != NULL);
  char text[NOTE_BYTES]; /* one write, so that lines of runs side by side do not mix */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "kvcap: note: %s\n", text);
}

json_t *kc_cli_json_string(const char *text)
{
  KC_ASSERT(text != NULL);
  json_t *const plain = json_string(text);
  if (plain != NULL) return plain;
  char *const clean = strdup(text);
  if (clean == NULL) return NULL;
  kc_text_clean(clean);
  json_t *const cleaned = json_string(clean);
  free(clean);
  return cleaned;
}

static int fail_memory(void)
{
  struct kc_diag diag;
  kc_fail(&diag, KC_ERR_MEMORY, "the host ran out of memory while the output was prepared");
  return kc_cli_fail(&diag);
}

/* ---- JSON ---- */

/* "{...}" of all keys but "schema", sorted; NULL when memory ran out. */
static char *text_without_schema(const json_t *root)
{
  json_t *rest = json_copy((json_t *)(uintptr_t)root); /* shallow; does not change root */
  if (rest == NULL) return NULL;
  json_object_del(rest, "schema");
  char *text = json_dumps(rest, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
  json_decref(rest);
  return text;
}

/* Joins the two texts: the schema's line goes in after the opening brace of the rest. */
char *kc_cli_json_text(const json_t *root)
{
  KC_ASSERT(json_is_object(root));
  const json_t *schema = json_object_get(root, "schema");
  KC_ASSERT(json_is_integer(schema));
  char *rest = text_without_schema(root);
  if (rest == NULL) return NULL;
  const bool alone = strcmp(rest, "{}") == 0;
  char *text = NULL;
  const int length = asprintf(&text, "{\n  \"schema\": %lld%s%s\n",
                              (long long)json_integer_value(schema), alone ? "\n" : ",",
                              alone ? "}" : rest + 1);
  free(rest);
  return length < 0 ? NULL : text;
}

int kc_cli_print_json(json_t *root)
{
  char *text = root == NULL ? NULL : kc_cli_json_text(root);
  json_decref(root);
  if (text == NULL) return fail_memory();
  fputs(text, stdout);
  free(text);
  return 0;
}

/* ---- end ---- */

/* True when nobody reads our standard output any more. */
static bool stdout_is_broken_pipe(void)
{
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int kc_cli_finish(int status)
{
  KC_ASSERT(status >= 0);
  const bool failed_before = ferror(stdout) != 0;
  errno = 0;
  const bool failed_now = fflush(stdout) != 0;
  const int cause = errno;
  if (!failed_before && !failed_now) return status;
  if (cause == EPIPE || stdout_is_broken_pipe()) return status;
  struct kc_diag diag;
  kc_fail(&diag, KC_ERR_FILE, "standard output could not be written%s%s; the output is incomplete",
          failed_now ? ": " : "", failed_now ? strerror(cause) : "");
  return kc_cli_fail(&diag);
}
