/* Errors as values: filling, printing and classing of struct kc_diag.
 *
 *   kc_fail(diag, code, "...", ...)     diag (caller's memory)
 *        |  format, cut, clean    --->  code | path | line | column | text
 *        v                                               |
 *   returns code, forwarded by KC_TRY                    v  kc_diag_print, in sim/cli only
 *                                       "path:line:column: text"
 *
 * The caller owns every struct; nothing here allocates, prints or keeps a pointer. Text and path
 * may quote bytes of hostile files, and later land on a terminal or in a JSON document, so both are
 * cleaned where they are stored: control characters and bytes that are not UTF-8 become '?'.
 *
 * With diag NULL nothing is formatted: a probe ("does it parse?") costs a compare and a return. */
#include "engine/base/diag.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"

/* Length of the well-formed, printable UTF-8 sequence that `s` (terminated) starts with; 0 when it
 * starts with anything else. Overlong forms, surrogates, values past U+10FFFF and the C0 and C1
 * controls count as anything else (The Unicode Standard, table 3-7). */
static size_t utf8_printable_bytes(const unsigned char *s)
{
  const unsigned char lead = s[0];
  if (lead < 0x80) return (lead >= 0x20 && lead != 0x7f) ? 1 : 0;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xbf;
  if (lead == 0xc2) second_min = 0xa0; /* U+0080..U+009F: C1 controls */
  if (lead == 0xe0) second_min = 0xa0;
  if (lead == 0xed) second_max = 0x9f;
  if (lead == 0xf0) second_min = 0x90;
  if (lead == 0xf4) second_max = 0x8f;
  if (s[1] < second_min || s[1] > second_max) return 0;
  for (size_t i = 2; i < bytes; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0; /* a terminator ends the walk here as well */
  }
  return bytes;
}

/* Replaces in place what a terminal or a JSON reader could choke on. A sequence that was cut in
 * the middle by the end of the buffer becomes '?' as well. */
void kc_text_clean(char *text)
{
  KC_ASSERT(text != NULL);
  unsigned char *s = (unsigned char *)text;
  while (*s != '\0') {
    const size_t bytes = utf8_printable_bytes(s);
    if (bytes == 0) *s = '?';
    s += bytes == 0 ? 1 : bytes;
  }
}

/* The end of a long path says more than its start: "...". */
static void store_path(char out[KC_DIAG_PATH_BYTES], const char *path)
{
  const size_t length = path == NULL ? 0 : strlen(path);
  KC_ASSERT(out != NULL);
  if (length < KC_DIAG_PATH_BYTES) {
    if (length > 0) memmove(out, path, length);
    out[length] = '\0';
  } else {
    const size_t kept = KC_DIAG_PATH_BYTES - 1 - 3;
    memmove(out + 3, path + length - kept, kept + 1);
    memcpy(out, "...", 3);
  }
  kc_text_clean(out);
}

/* `path` and the arguments may point into `diag` itself: a checker may reword its own diagnosis. */
static void fill(struct kc_diag *diag, enum kc_err code, const char *path, uint64_t line,
                 uint32_t column, const char *format, va_list arguments)
{
  KC_ASSERT(code != KC_OK);
  KC_ASSERT(format != NULL);
  char text[KC_DIAG_TEXT_BYTES];
  if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
  kc_text_clean(text);
  diag->code = code;
  store_path(diag->path, path);
  diag->line = line;
  diag->column = column;
  memcpy(diag->text, text, sizeof text);
}

enum kc_err kc_fail(struct kc_diag *diag, enum kc_err code, const char *format, ...)
{
  if (diag == NULL) return code;
  va_list arguments;
  va_start(arguments, format);
  fill(diag, code, NULL, 0, 0, format, arguments);
  va_end(arguments);
  return code;
}

enum kc_err kc_fail_at(struct kc_diag *diag, enum kc_err code, const char *path, uint64_t line,
                       uint32_t column, const char *format, ...)
{
  if (diag == NULL) return code;
  va_list arguments;
  va_start(arguments, format);
  fill(diag, code, path, line, column, format, arguments);
  va_end(arguments);
  return code;
}

size_t kc_diag_print(const struct kc_diag *diag, char *out, size_t size)
{
  KC_ASSERT(diag != NULL);
  KC_ASSERT(out != NULL && size > 0);
  char place[KC_DIAG_PATH_BYTES + 48]; /* ":" 20 digits ":" 10 digits ": " */
  int used = 0;
  if (diag->path[0] != '\0') used = snprintf(place, sizeof place, "%s:", diag->path);
  if (diag->line > 0) {
    used += snprintf(place + used, sizeof place - (size_t)used, "%llu:",
                     (unsigned long long)diag->line);
    if (diag->column > 0) {
      used += snprintf(place + used, sizeof place - (size_t)used, "%u:", diag->column);
    }
  }
  KC_ASSERT(used >= 0 && (size_t)used < sizeof place);
  const int wanted = snprintf(out, size, "%.*s%s%s", used, place, used > 0 ? " " : "", diag->text);
  KC_ASSERT(wanted >= 0);
  return (size_t)wanted < size ? (size_t)wanted : size - 1;
}

int kc_err_exit_status(enum kc_err code)
{
  KC_ASSERT(code >= KC_OK);
  if (code == KC_ERR_INTERRUPTED) return 130;
  KC_ASSERT(code < 90); /* tens 20..80 are statuses 2..8 */
  return (int)code / 10;
}

const char *kc_err_name(enum kc_err code)
{
  switch (code) {
    case KC_OK: return "ok";
    case KC_ERR_USAGE: return "usage";
    case KC_ERR_INPUT: return "input";
    case KC_ERR_FILE: return "file";
    case KC_ERR_STORE: return "store";
    case KC_ERR_NO_FIT: return "no_fit";
    case KC_ERR_INTEGRITY: return "integrity";
    case KC_ERR_TAG_STALE: return "tag_stale";
    case KC_ERR_TAG_RANGE: return "tag_range";
    case KC_ERR_TAG_OWNER: return "tag_owner";
    case KC_ERR_DOUBLE_FREE: return "double_free";
    case KC_ERR_RECORD: return "record";
    case KC_ERR_LEAK: return "leak";
    case KC_ERR_ROLLBACK: return "rollback";
    case KC_ERR_DEVICE: return "device";
    case KC_ERR_MEMORY: return "memory";
    case KC_ERR_LIMIT: return "limit";
    case KC_ERR_INTERRUPTED: return "interrupted";
  }
  return "unknown";
}

void kc_diag_list_init(struct kc_diag_list *list)
{
  KC_ASSERT(list != NULL);
  list->count = 0; /* items are written whole when they are added */
}

enum kc_err kc_diag_list_add(struct kc_diag_list *list, enum kc_err code, const char *path,
                             uint64_t line, uint32_t column, const char *format, ...)
{
  KC_ASSERT(list != NULL);
  KC_ASSERT(code != KC_OK);
  if (list->count < KC_DIAG_LIST_MAX) {
    va_list arguments;
    va_start(arguments, format);
    fill(&list->items[list->count], code, path, line, column, format, arguments);
    va_end(arguments);
  }
  if (list->count < UINT32_MAX) list->count++;
  return code;
}

enum kc_err kc_diag_list_result(const struct kc_diag_list *list)
{
  KC_ASSERT(list != NULL);
  return list->count == 0 ? KC_OK : list->items[0].code;
}
