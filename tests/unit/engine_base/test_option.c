/* Option tables: defaults, scenario maps, command lines, help; every sentence a bad value gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/option.h"
#include "engine/base/vtime.h"

struct target {
  uint32_t pages;
  bool pages_given;
  uint64_t seed;
  double fraction;
  bool chunked;
  uint64_t budget;
  kc_ps timeout;
  char name[8];
  int rule;
  bool json;
  struct kc_option_list sets;
  char db[32];
  bool tree_given;
};

#define AT(field)                           \
  .offset = offsetof(struct target, field), \
  .size = sizeof(((struct target *)0)->field)

static const struct kc_option table[] = {
  {.key = "memory.pages", .type = KC_OPTION_U32, AT(pages), .min = 1, .max = 4096,
   .set_offset = offsetof(struct target, pages_given), .fallback = "16", .unit = "tokens",
   .help = "pages"},
  {.key = "memory.fraction", .type = KC_OPTION_DOUBLE, AT(fraction), .min = 0.01, .max = 1,
   .fallback = "0.9", .help = "fraction"},
  {.key = "memory.budget", .type = KC_OPTION_BYTES, AT(budget), .help = "budget"},
  {.key = "memory.rule", .type = KC_OPTION_CHOICE, AT(rule), .values = "sglang|vllm|fixed",
   .fallback = "vllm", .help = "rule"},
  {.key = "seed", .type = KC_OPTION_U64, AT(seed), .fallback = "1", .help = "seed"},
  {.key = "chunked", .type = KC_OPTION_BOOL, AT(chunked), .fallback = "true", .help = "chunked"},
  {.key = "timeout", .type = KC_OPTION_DURATION, AT(timeout), .fallback = "10ms", .help = "time"},
  {.key = "name", .type = KC_OPTION_TEXT, AT(name), .required = true, .help = "name"},
  {.key = "tree.sub", .type = KC_OPTION_SUBTREE, .help = "anything",
   .set_offset = offsetof(struct target, tree_given)},
};
enum { ROWS = sizeof table / sizeof table[0] };

static const struct kc_option flags[] = {
  {.key = "kv-budget", .type = KC_OPTION_BYTES, AT(budget), .help = "bytes for KV per GPU"},
  {.key = "page-size", .type = KC_OPTION_U32, AT(pages), .min = 1, .max = 4096, .unit = "tokens",
   .fallback = "16", .help = "tokens per page"},
  {.key = "fraction", .type = KC_OPTION_DOUBLE, AT(fraction), .min = 0.01, .max = 1,
   .help = "share of the memory that the framework may take for weights and KV together, as its "
           "own option says it"},
  {.key = "memory-rule", .type = KC_OPTION_CHOICE, AT(rule), .values = "sglang|vllm|fixed",
   .fallback = "vllm", .help = "how the KV budget follows from the GPU"},
  {.key = "json", .type = KC_OPTION_FLAG, AT(json), .help = "print one JSON document"},
  {.key = "set", .type = KC_OPTION_LIST, AT(sets), .values = "KEY=VALUE",
   .help = "override a key of the scenario"},
  {.key = "db", .type = KC_OPTION_TEXT, AT(db), .bare = "kvcap.db", .values = "FILE",
   .help = "store the run"},
};
enum { FLAGS = sizeof flags / sizeof flags[0] };

/* Bounded text that grows at its end; more than fits fails the test. */
struct text {
  char data[4096];
};

static void collect(void *context, const char *piece)
{
  struct text *text = context;
  const size_t used = strlen(text->data), length = strlen(piece);
  assert_true(used + length < sizeof text->data);
  memcpy(text->data + used, piece, length + 1);
}

/* ---- maps ---- */

static void read_yaml(const char *text, struct target *target, struct kc_diag_list *problems)
{
  struct kc_document document;
  struct kc_diag diag;
  if (kc_document_parse(&document, "t.yaml", text, strlen(text), &diag) != KC_OK) {
    fail_msg("not YAML: %s", diag.text);
  }
  memset(target, 0, sizeof *target);
  kc_diag_list_init(problems);
  kc_options_default(table, ROWS, target);
  kc_options_read_map(table, ROWS, target, document.root, "t.yaml", "p.", problems);
  kc_document_free(&document);
}

static void defaults(void **state)
{
  (void)state;
  struct target target;
  struct kc_diag_list problems;
  read_yaml("name: x", &target, &problems);
  assert_int_equal(problems.count, 0);
  assert_int_equal(target.pages, 16);
  assert_false(target.pages_given);
  assert_true(target.fraction == 0.9);
  assert_int_equal(target.budget, 0);
  assert_int_equal(target.rule, 1);
  assert_true(target.chunked);
  assert_int_equal(target.timeout, 10 * KC_PS_PER_MS);
  assert_false(target.tree_given);
}

static void reads_every_type(void **state)
{
  (void)state;
  struct target target;
  struct kc_diag_list problems;
  read_yaml("memory: {pages: 2Ki, fraction: 0.25, budget: 56GiB, rule: fixed}\n"
            "seed: 18446744073709551615\nchunked: false\ntimeout: 2.5s\nname: '1234567'\n"
            "tree: {sub: [1, {2: 3}]}\n", &target, &problems);
  assert_int_equal(problems.count, 0);
  assert_int_equal(target.pages, 2048);
  assert_true(target.pages_given);
  assert_true(target.fraction == 0.25);
  assert_true(target.budget == UINT64_C(60129542144));
  assert_int_equal(target.rule, 2);
  assert_true(target.seed == UINT64_MAX);
  assert_false(target.chunked);
  assert_true(target.timeout == INT64_C(2500000000000));
  assert_string_equal(target.name, "1234567");
  assert_true(target.tree_given);
}

struct complaint {
  const char *yaml;
  uint32_t line, column;
  const char *sentence;
};

static const struct complaint complaints[] = {
  {"name: x\nmemory: {pages: 0}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got \"0\""},
  {"name: x\nmemory: {pages: 4097}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got \"4097\""},
  {"name: x\nmemory: {pages: -1}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got \"-1\""},
  {"name: x\nmemory: {pages: 1.5}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got \"1.5\""},
  {"name: x\nmemory: {pages: '16'}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got the quoted text \"16\"; "
   "take the quotes away"},
  {"name: x\nmemory: {pages: }", 2, 17,
   "p.memory.pages has no value; expected a whole number of tokens from 1 to 4096, or leave the "
   "key out"},
  {"name: x\nmemory: {pages: ~}", 2, 17,
   "p.memory.pages has no value; expected a whole number of tokens from 1 to 4096, or leave the "
   "key out"},
  {"name: x\nmemory: {pages: [1]}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got a list"},
  {"name: x\nmemory: {pages: {a: 1}}", 2, 17,
   "p.memory.pages: expected a whole number of tokens from 1 to 4096, got a map"},
  {"name: x\nmemory: {fraction: 1.01}", 2, 20,
   "p.memory.fraction: expected a number from 0.01 to 1, got \"1.01\""},
  {"name: x\nmemory: {fraction: nan}", 2, 20,
   "p.memory.fraction: expected a number from 0.01 to 1, got \"nan\""},
  {"name: x\nmemory: {fraction: 90%}", 2, 20,
   "p.memory.fraction: expected a number from 0.01 to 1, got \"90%\""},
  {"name: x\nmemory: {budget: lots}", 2, 18,
   "p.memory.budget: expected a size such as 56GiB or 60129542144, got \"lots\""},
  {"name: x\nmemory: {rule: tensorrt}", 2, 16,
   "p.memory.rule: expected one of sglang, vllm, fixed, got \"tensorrt\""},
  {"name: x\nmemory: {rule: vll}", 2, 16,
   "p.memory.rule: expected one of sglang, vllm, fixed, got \"vll\""},
  {"name: x\nseed: 18446744073709551616", 2, 7,
   "p.seed: expected a whole number, got \"18446744073709551616\""},
  {"name: x\nchunked: yes", 2, 10, "p.chunked: expected true or false, got \"yes\""},
  {"name: x\ntimeout: 10", 2, 10,
   "p.timeout: expected a duration such as 10ms or 2.5s, got \"10\""},
  {"name: 12345678", 1, 7, "p.name: \"12345678\" is too long; expected text of 1 to 7 bytes"},
  {"name: ''", 1, 7, "p.name: \"\" is empty; expected text of 1 to 7 bytes"},
  {"name: \"a\\tb\"", 1, 7,
   "p.name: \"a?b\" holds a control character; expected text of 1 to 7 bytes"},
  {"seed: 1", 1, 1, "p.name is missing; expected text"},
  {"name: x\nmemory: 5", 2, 9, "p.memory: expected a map of keys, got a single value"},
  {"name: x\nmemory: [5]", 2, 9, "p.memory: expected a map of keys, got a list"},
  {"name: x\nsede: 5", 2, 7, "p.sede is not a known key; did you mean p.seed?"},
  {"name: x\nmemroy: {pages: 5}", 2, 9, "p.memroy is not a known key; did you mean p.memory?"},
  {"name: x\nmemory: {fractoin: 0.5}", 2, 20,
   "p.memory.fractoin is not a known key; did you mean p.memory.fraction?"},
  {"name: x\nfraction: 0.5", 2, 11,
   "p.fraction is not a known key; did you mean p.memory.fraction?"},
  {"name: x\nmemory: {colour: red}", 2, 18,
   "p.memory.colour is not a known key; known here: pages, fraction, budget, rule"},
  {"name: x\nsomething-else: red", 2, 17,
   "p.something-else is not a known key; known here: memory, seed, chunked, timeout, name, tree"},
};

static void complains_with_place_and_sentence(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof complaints / sizeof complaints[0]; i++) {
    const struct complaint *want = &complaints[i];
    struct target target;
    struct kc_diag_list problems;
    read_yaml(want->yaml, &target, &problems);
    const struct kc_diag *got = &problems.items[0];
    if (problems.count != 1 || got->line != want->line || got->column != want->column ||
        strcmp(got->text, want->sentence) != 0) {
      fail_msg("case %zu: %u problems, first at %lu:%u: %s", i, problems.count,
               (unsigned long)got->line, got->column, problems.count > 0 ? got->text : "-");
    }
    assert_int_equal(got->code, KC_ERR_INPUT);
    assert_string_equal(got->path, "t.yaml");
  }
}

static void reports_all_at_once(void **state)
{
  (void)state;
  struct target target;
  struct kc_diag_list problems;
  read_yaml("memory: {pages: 0, rule: x, fraction: 2}\nseed: no\nextra: 1\n", &target, &problems);
  assert_int_equal(problems.count, 6); /* the five above, and the missing name */
  assert_string_equal(problems.items[5].text, "p.name is missing; expected text");
  assert_int_equal(kc_diag_list_result(&problems), KC_ERR_INPUT);
}

static void a_bad_value_leaves_the_default(void **state)
{
  (void)state;
  struct target target;
  struct kc_diag_list problems;
  read_yaml("name: x\nmemory: {pages: 0}\n", &target, &problems);
  assert_int_equal(target.pages, 16);
  assert_false(target.pages_given);
}

static void values_of_set_say_so(void **state)
{
  (void)state;
  struct kc_document document;
  struct kc_diag diag;
  struct target target = {0};
  struct kc_diag_list problems;
  kc_diag_list_init(&problems);
  assert_int_equal(kc_document_parse(&document, "t.yaml", "name: x", 7, &diag), KC_OK);
  assert_int_equal(kc_document_set(&document, "memory.pages=0", &diag), KC_OK);
  assert_int_equal(kc_document_set(&document, "memory.colour=1", &diag), KC_OK);
  kc_options_read_map(table, ROWS, &target, document.root, "t.yaml", "", &problems);
  assert_int_equal(problems.count, 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_string_equal(problems.items[i].path, "--set");
    assert_int_equal(problems.items[i].code, KC_ERR_USAGE);
    assert_int_equal(problems.items[i].line, 0);
  }
  kc_document_free(&document);
}

static void long_values_are_cut(void **state)
{
  (void)state;
  char yaml[300] = "name: x\nseed: ";
  memset(yaml + strlen(yaml), 'y', 200);
  struct target target;
  struct kc_diag_list problems;
  read_yaml(yaml, &target, &problems);
  char want[200] = "p.seed: expected a whole number, got \"";
  memset(want + strlen(want), 'y', 68);
  memcpy(want + strlen(want), "...\"", 5);
  assert_string_equal(problems.items[0].text, want);
}

/* ---- command lines ---- */

enum { WORDS_MAX = 100, POSITIONAL_MAX = 2, STORAGE_BYTES = 4096 };

/* Reads "a b c" as a command line of a command "x". */
static enum kc_err read_line(const char *line, struct target *target, const char **positional,
                             size_t *given, struct kc_diag *diag, char storage[STORAGE_BYTES])
{
  char *argv[WORDS_MAX] = {(char[]){"x"}};
  int argc = 1;
  char *word = storage;
  assert_true(snprintf(storage, STORAGE_BYTES, "%s", line) < STORAGE_BYTES);
  while (*word != '\0') {
    argv[argc++] = word;
    word += strcspn(word, " ");
    if (*word == ' ') *word++ = '\0';
  }
  memset(target, 0, sizeof *target);
  kc_options_default(flags, FLAGS, target);
  return kc_options_read_arguments(flags, FLAGS, target, argc, argv, positional, POSITIONAL_MAX,
                                   given, diag);
}

static void reads_command_lines(void **state)
{
  (void)state;
  struct target target;
  struct kc_diag diag;
  const char *positional[POSITIONAL_MAX];
  size_t given;
  char storage[STORAGE_BYTES];
  assert_int_equal(read_line("a.yaml --kv-budget=1GiB --page-size 64 --json --set a=b --set c=d "
                             "--memory-rule sglang --db -- -odd", &target, positional, &given,
                             &diag, storage), KC_OK);
  assert_int_equal(target.budget, 1 << 30);
  assert_int_equal(target.pages, 64);
  assert_int_equal(target.rule, 0);
  assert_true(target.json);
  assert_int_equal(target.sets.count, 2);
  assert_string_equal(target.sets.item[0], "a=b");
  assert_string_equal(target.sets.item[1], "c=d");
  assert_string_equal(target.db, "kvcap.db"); /* "--" follows, so the bare value */
  assert_int_equal(given, 2);
  assert_string_equal(positional[0], "a.yaml");
  assert_string_equal(positional[1], "-odd");
}

static void bare_values(void **state)
{
  (void)state;
  static const struct {
    const char *line, *db;
    size_t given;
  } cases[] = {
    {"s.yaml", "", 1},
    {"s.yaml --db", "kvcap.db", 1},
    {"s.yaml --db --json", "kvcap.db", 1},
    {"s.yaml --db out.db --json", "out.db", 1},
    {"s.yaml --db=out.db", "out.db", 1},
    {"- --db", "kvcap.db", 1}, /* a lone dash is an argument: standard input */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct target target;
    struct kc_diag diag;
    const char *positional[POSITIONAL_MAX];
    size_t given;
    char storage[STORAGE_BYTES];
    assert_int_equal(read_line(cases[i].line, &target, positional, &given, &diag, storage), KC_OK);
    assert_string_equal(target.db, cases[i].db);
    assert_int_equal(given, cases[i].given);
  }
}

static void refuses_command_lines(void **state)
{
  (void)state;
  static const struct {
    const char *line, *sentence;
  } cases[] = {
    {"--page-size 0", "--page-size: expected a whole number of tokens from 1 to 4096, got \"0\""},
    {"--page-size=", "--page-size: expected a whole number of tokens from 1 to 4096, got \"\""},
    {"--page-size --json",
     "--page-size: expected a whole number of tokens from 1 to 4096, got \"--json\""},
    {"--page-size", "--page-size needs a value: tokens per page"},
    {"--kv-budget 5XB", "--kv-budget: expected a size such as 56GiB or 60129542144, got \"5XB\""},
    {"--memory-rule vlm", "--memory-rule: expected one of sglang, vllm, fixed, got \"vlm\""},
    {"--fraction 0", "--fraction: expected a number from 0.01 to 1, got \"0\""},
    {"--json=yes", "--json takes no value; write it alone"},
    {"--json --json", "--json is given twice; keep one"},
    {"--page-size 1 --page-size 1", "--page-size is given twice; keep one"},
    {"--pagesize 16", "--pagesize is not an option of this command; did you mean --page-size?"},
    {"--kvbudget=1", "--kvbudget is not an option of this command; did you mean --kv-budget?"},
    {"--frobnicate", "--frobnicate is not an option of this command; --help lists them"},
    {"--=5", "-- is not an option of this command; --help lists them"},
    {"-j", "-j is not an option; options are long (--name), and an argument that starts with a "
           "dash goes after --"},
    {"a b c", "unexpected argument \"c\"; this command takes at most 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct target target;
    struct kc_diag diag = {0};
    const char *positional[POSITIONAL_MAX];
    size_t given;
    char storage[STORAGE_BYTES];
    const enum kc_err err = read_line(cases[i].line, &target, positional, &given, &diag, storage);
    if (err != KC_ERR_USAGE || strcmp(diag.text, cases[i].sentence) != 0) {
      fail_msg("\"%s\": code %d, %s", cases[i].line, (int)err, diag.text);
    }
    assert_string_equal(diag.path, "");
  }
}

static void lists_have_a_ceiling(void **state)
{
  (void)state;
  struct text line = {{0}};
  for (int i = 0; i < KC_OPTION_LIST_MAX; i++) collect(&line, "--set=a=b ");
  struct target target;
  struct kc_diag diag;
  size_t given;
  const char *positional[POSITIONAL_MAX];
  char storage[STORAGE_BYTES];
  assert_int_equal(read_line(line.data, &target, positional, &given, &diag, storage), KC_OK);
  assert_int_equal(target.sets.count, KC_OPTION_LIST_MAX);
  collect(&line, "--set=a=b ");
  assert_int_equal(read_line(line.data, &target, positional, &given, &diag, storage), KC_ERR_USAGE);
  assert_string_equal(diag.text, "--set is given more than 64 times, the most that are taken");
}

static void required_options(void **state)
{
  (void)state;
  static const struct kc_option must[] = {
    {.key = "model", .type = KC_OPTION_TEXT, AT(name), .required = true, .help = "the model"}};
  struct target target = {0};
  struct kc_diag diag;
  char *none[] = {(char[]){"x"}, NULL};
  char *given[] = {(char[]){"x"}, (char[]){"--model"}, (char[]){"m"}, NULL};
  assert_int_equal(kc_options_read_arguments(must, 1, &target, 1, none, NULL, 0, NULL, &diag),
                   KC_ERR_USAGE);
  assert_string_equal(diag.text, "--model is missing: the model");
  assert_int_equal(kc_options_read_arguments(must, 1, &target, 3, given, NULL, 0, NULL, &diag),
                   KC_OK);
  assert_string_equal(target.name, "m");
  char *extra[] = {(char[]){"x"}, (char[]){"y"}, NULL};
  assert_int_equal(kc_options_read_arguments(must, 1, &target, 2, extra, NULL, 0, NULL, &diag),
                   KC_ERR_USAGE);
  assert_string_equal(diag.text, "unexpected argument \"y\"; this command takes options alone");
}

static void sets_one_option(void **state)
{
  (void)state;
  struct target target = {0};
  struct kc_diag_list problems;
  kc_diag_list_init(&problems);
  const struct kc_place place = {.path = "g.yaml", .line = 3, .column = 4};
  assert_int_equal(kc_option_set(&table[0], &target, "7", place, &problems), KC_OK);
  assert_int_equal(target.pages, 7);
  assert_true(target.pages_given);
  assert_int_equal(kc_option_set(&table[0], &target, "x", place, &problems), KC_ERR_INPUT);
  assert_string_equal(problems.items[0].text,
                      "memory.pages: expected a whole number of tokens from 1 to 4096, got \"x\"");
  assert_int_equal(problems.items[0].line, 3);
}

/* ---- help ---- */

static void help_text(void **state)
{
  (void)state;
  struct text text = {{0}};
  kc_options_help(flags, FLAGS, collect, &text);
  assert_string_equal(
    text.data,
    "  --kv-budget BYTES       bytes for KV per GPU\n"
    "  --page-size N           tokens per page [16 tokens]\n"
    "  --fraction X            share of the memory that the framework may take for weights and KV\n"
    "                          together, as its own option says it\n"
    "  --memory-rule sglang|vllm|fixed\n"
    "                          how the KV budget follows from the GPU [vllm]\n"
    "  --json                  print one JSON document\n"
    "  --set KEY=VALUE         override a key of the scenario\n"
    "  --db [FILE]             store the run\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(defaults),
    cmocka_unit_test(reads_every_type),
    cmocka_unit_test(complains_with_place_and_sentence),
    cmocka_unit_test(reports_all_at_once),
    cmocka_unit_test(a_bad_value_leaves_the_default),
    cmocka_unit_test(values_of_set_say_so),
    cmocka_unit_test(long_values_are_cut),
    cmocka_unit_test(reads_command_lines),
    cmocka_unit_test(bare_values),
    cmocka_unit_test(refuses_command_lines),
    cmocka_unit_test(lists_have_a_ceiling),
    cmocka_unit_test(required_options),
    cmocka_unit_test(sets_one_option),
    cmocka_unit_test(help_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
