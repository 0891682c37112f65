/* Any bytes as a command line: words are split at newlines. Never a crash; a refusal has a sentence
 * on one line; what is accepted lies within the bounds of its row. */
#include <stdint.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/option.h"
#include "engine/base/vtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
  uint32_t pages;
  uint64_t count, budget;
  double fraction;
  bool chunked, json;
  kc_ps timeout;
  char name[16];
  int rule;
  struct kc_option_list sets;
};

#define AT(field)                           \
  .offset = offsetof(struct target, field), \
  .size = sizeof(((struct target *)0)->field)

static const struct kc_option table[] = {
  {.key = "pages", .type = KC_OPTION_U32, AT(pages), .min = 1, .max = 4096, .fallback = "16",
   .unit = "tokens", .help = "pages"},
  {.key = "count", .type = KC_OPTION_U64, AT(count), .help = "count"},
  {.key = "budget", .type = KC_OPTION_BYTES, AT(budget), .max = 1e12, .help = "budget"},
  {.key = "fraction", .type = KC_OPTION_DOUBLE, AT(fraction), .min = 0.01, .max = 1,
   .fallback = "0.9", .help = "fraction"},
  {.key = "chunked", .type = KC_OPTION_BOOL, AT(chunked), .help = "chunked"},
  {.key = "json", .type = KC_OPTION_FLAG, AT(json), .help = "json"},
  {.key = "timeout", .type = KC_OPTION_DURATION, AT(timeout), .help = "timeout"},
  {.key = "name", .type = KC_OPTION_TEXT, AT(name), .bare = "bare", .help = "name"},
  {.key = "rule", .type = KC_OPTION_CHOICE, AT(rule), .values = "sglang|vllm|fixed",
   .help = "rule"},
  {.key = "set", .type = KC_OPTION_LIST, AT(sets), .help = "set"},
};
enum { ROWS = sizeof table / sizeof table[0], WORDS_MAX = 128, BYTES_MAX = 4096 };

static void check_refusal(const struct kc_diag *diag)
{
  KC_ASSERT(diag->code == KC_ERR_USAGE);
  KC_ASSERT(diag->text[0] != '\0');
  KC_ASSERT(strchr(diag->text, '\n') == NULL);
}

static void check_accepted(const struct target *target)
{
  KC_ASSERT(target->pages >= 1 && target->pages <= 4096);
  KC_ASSERT(target->fraction >= 0.01 && target->fraction <= 1);
  KC_ASSERT(target->budget <= UINT64_C(1000000000000));
  KC_ASSERT(target->timeout >= 0);
  KC_ASSERT(target->rule >= 0 && target->rule <= 2);
  KC_ASSERT(memchr(target->name, '\0', sizeof target->name) != NULL);
  KC_ASSERT(target->sets.count <= KC_OPTION_LIST_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char text[BYTES_MAX + 1], program[] = "x";
  char *argv[WORDS_MAX + 1] = {program};
  int argc = 1;
  const size_t length = size < BYTES_MAX ? size : BYTES_MAX;
  if (length > 0) memcpy(text, data, length);
  text[length] = '\0';
  for (char *word = text; argc < WORDS_MAX;) {
    argv[argc++] = word;
    word += strcspn(word, "\n");
    if (*word == '\0') break;
    *word++ = '\0';
  }
  struct target target;
  struct kc_diag diag;
  const char *positional[4];
  size_t given = 0;
  memset(&target, 0, sizeof target);
  kc_options_default(table, ROWS, &target);
  if (kc_options_read_arguments(table, ROWS, &target, argc, argv, positional, 4, &given, &diag) !=
      KC_OK) {
    check_refusal(&diag);
    return 0;
  }
  KC_ASSERT(given <= 4);
  check_accepted(&target);
  return 0;
}
