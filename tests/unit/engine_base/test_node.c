/* YAML trees: places, what is refused with which sentence, overrides by dotted path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/node.h"

static enum kc_err parse(struct kc_document *document, const char *text, struct kc_diag *diag)
{
  return kc_document_parse(document, "t.yaml", text, strlen(text), diag);
}

static void parse_ok(struct kc_document *document, const char *text)
{
  struct kc_diag diag;
  if (parse(document, text, &diag) != KC_OK) fail_msg("refused: %s", diag.text);
}

static void keeps_places_and_text(void **state)
{
  (void)state;
  struct kc_document document;
  parse_ok(&document, "name: x\nlist:\n  - a: 1\n  - 'two'\nflow: {deep: [~, \"3\"]}\n");
  const struct kc_node *name = kc_node_get(document.root, "name");
  assert_string_equal(name->text, "x");
  assert_int_equal(name->line, 1);
  assert_int_equal(name->column, 7);
  assert_false(name->quoted);
  const struct kc_node *list = kc_node_get(document.root, "list");
  assert_int_equal(list->kind, KC_NODE_LIST);
  assert_string_equal(kc_node_get(list->child, "a")->text, "1");
  assert_int_equal(kc_node_get(list->child, "a")->line, 3);
  assert_true(list->child->next->quoted);
  assert_int_equal(list->child->next->line, 4);
  assert_int_equal(list->child->next->column, 5);
  const struct kc_node *deep = kc_node_get(kc_node_get(document.root, "flow"), "deep");
  assert_true(kc_node_is_null(deep->child));
  assert_true(deep->child->next->quoted);
  assert_false(kc_node_is_null(deep->child->next));
  assert_null(kc_node_get(document.root, "absent"));
  assert_null(kc_node_get(name, "absent"));
  kc_document_free(&document);
}

static void hashes_the_bytes(void **state)
{
  (void)state;
  struct kc_document document;
  parse_ok(&document, "a: b\n");
  /* printf 'a: b\n' | sha256sum */
  assert_string_equal(document.sha256,
                      "52c9693cf3f219d51ba6af4362ee092c55fb5e6f96d6f9da13c8ede7eff8e71b");
  kc_document_free(&document);
}

struct refusal {
  const char *text;
  enum kc_err code;
  uint64_t line;
  uint32_t column;
  const char *sentence;
};

static const struct refusal refusals[] = {
  {"", KC_ERR_INPUT, 0, 0, "is empty; expected a map of keys and values"},
  {"# only a comment\n", KC_ERR_INPUT, 0, 0, "is empty; expected a map of keys and values"},
  {"just text\n", KC_ERR_INPUT, 1, 1, "holds a single value; expected a map of keys and values"},
  {"- a\n- b\n", KC_ERR_INPUT, 1, 1, "holds a list; expected a map of keys and values"},
  {"a: 1\nb: 2\na: 3\n", KC_ERR_INPUT, 3, 1,
   "key \"a\" stands here for the second time (first in line 1); keep one"},
  {"a: &x 1\n", KC_ERR_INPUT, 1, 4, "anchors (&name) are not allowed here; write the value out"},
  {"a: &x {b: 1}\n", KC_ERR_INPUT, 1, 4,
   "anchors (&name) are not allowed here; write the value out"},
  {"a: *x\n", KC_ERR_INPUT, 1, 4, "aliases (*name) are not allowed here; write the value out"},
  {"a: !!int 1\n", KC_ERR_INPUT, 1, 4, "tags (!name) are not allowed here; write the plain value"},
  {"a: !t [1]\n", KC_ERR_INPUT, 1, 4, "tags (!name) are not allowed here; write the plain value"},
  {"? {a: 1}\n: 2\n", KC_ERR_INPUT, 1, 3, "a map or list cannot be a key; expected a name"},
  {"\"\": 1\n", KC_ERR_INPUT, 1, 1, "this key is empty; expected a name"},
  {"a: \"x\\0y\"\n", KC_ERR_INPUT, 1, 4, "a zero byte is not allowed in a value"},
  {"a: 1\n---\nb: 2\n", KC_ERR_INPUT, 2, 1,
   "a second document starts here; one file holds one document"},
  {"a: [1, 2\n", KC_ERR_INPUT, 2, 1,
   "is not valid YAML: did not find expected ',' or ']' (while parsing a flow sequence)"},
  {"a: b: c\n", KC_ERR_INPUT, 1, 5,
   "is not valid YAML: mapping values are not allowed in this context"},
  {"a: \"x\n", KC_ERR_INPUT, 2, 1,
   "is not valid YAML: found unexpected end of stream (while scanning a quoted scalar)"},
  {"a: 1\n\tb: 2\n", KC_ERR_INPUT, 2, 1,
   "is not valid YAML: found a tab character that violates indentation (while scanning a plain "
   "scalar)"},
  {"a: 1\nb: \xff\n", KC_ERR_INPUT, 2, 0,
   "is not valid YAML: invalid leading UTF-8 octet; expected UTF-8 text"},
};

static void refuses_with_place_and_sentence(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const struct refusal *want = &refusals[i];
    struct kc_document document;
    struct kc_diag diag;
    const enum kc_err err = parse(&document, want->text, &diag);
    if (err != want->code || diag.line != want->line || diag.column != want->column ||
        strcmp(diag.text, want->sentence) != 0) {
      fail_msg("case %zu: got %d at %lu:%u: %s", i, (int)err, (unsigned long)diag.line, diag.column,
               diag.text);
    }
    assert_string_equal(diag.path, "t.yaml");
    assert_null(document.memory);
  }
}

/* `count` copies of `piece` between `head` and `tail`, on the heap. */
static char *repeated(const char *head, const char *piece, size_t count, const char *tail)
{
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  fputs(head, out);
  for (size_t i = 0; i < count; i++) fputs(piece, out);
  fputs(tail, out);
  assert_int_equal(fclose(out), 0);
  return text;
}

static void ceilings(void **state)
{
  (void)state;
  const struct {
    const char *head, *piece;
    size_t count;
    const char *tail;
    const char *sentence; /* NULL: accepted */
  } cases[] = {
    {"a: ", "[", 31, "", "is not valid YAML: did not find expected node content (while parsing a "
                         "flow node)"}, /* depth 32 itself is fine; the text is not closed */
    {"a: ", "[", 32, "", "maps and lists are nested more than 32 deep, the most that is read"},
    {"a: ", "[", 100000, "", "maps and lists are nested more than 32 deep, the most that is read"},
    {"a: [", "1,", 1024, "]", NULL},
    {"a: [", "1,", 1025, "]",
     "this map or list has more than 1,024 entries, the most that are read"},
    {"a: \"", "x", (1 << 20) - 5, "\"", NULL},
    {"a: \"", "x", (1 << 20) - 4, "\"",
     "has 1048577 bytes; documents of at most 1 MiB are read"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *text = repeated(cases[i].head, cases[i].piece, cases[i].count, cases[i].tail);
    struct kc_document document;
    struct kc_diag diag = {0};
    const enum kc_err err = parse(&document, text, &diag);
    if (cases[i].sentence == NULL && err != KC_OK) fail_msg("case %zu: %s", i, diag.text);
    if (cases[i].sentence != NULL) assert_string_equal(diag.text, cases[i].sentence);
    kc_document_free(&document);
    free(text);
  }
}

static void too_many_nodes(void **state)
{
  (void)state;
  /* 65 lists of 1,024 entries: 66,626 nodes. */
  char *row = repeated("- [", "1,", 1024, "]\n");
  char *text = repeated("a:\n", row, 65, "");
  struct kc_document document;
  struct kc_diag diag;
  assert_int_equal(parse(&document, text, &diag), KC_ERR_LIMIT);
  assert_string_equal(diag.text, "the file has more than 65,536 values, the most that are read");
  free(row);
  free(text);
}

static const char *const tree =
  "name: x\n"
  "pools:\n"
  "  - {name: decode, kv: {format: bf16}}\n"
  "  - {name: other}\n"
  "workload: {closed: {input: 1}}\n";

static const struct kc_node *pool(const struct kc_document *document, int index)
{
  const struct kc_node *node = kc_node_get(document->root, "pools")->child;
  while (index-- > 0) node = node->next;
  return node;
}

static void sets_by_path(void **state)
{
  (void)state;
  struct kc_document document;
  struct kc_diag diag;
  parse_ok(&document, tree);
  assert_int_equal(kc_document_set(&document, "pools.decode.kv.format=fp8-e4m3", &diag), KC_OK);
  const struct kc_node *format = kc_node_get(kc_node_get(pool(&document, 0), "kv"), "format");
  assert_string_equal(format->text, "fp8-e4m3");
  assert_int_equal(format->line, 0);
  /* by index, making maps on the way; the value may hold an equals sign */
  assert_int_equal(kc_document_set(&document, "pools.1.a.b.c=x=y", &diag), KC_OK);
  const struct kc_node *a = kc_node_get(pool(&document, 1), "a");
  assert_string_equal(kc_node_get(kc_node_get(a, "b"), "c")->text, "x=y");
  /* YAML values, without places */
  assert_int_equal(kc_document_set(&document, "workload.closed={input: 7, list: [1, {a: 2}]}",
                                   &diag), KC_OK);
  const struct kc_node *closed = kc_node_get(kc_node_get(document.root, "workload"), "closed");
  assert_string_equal(kc_node_get(closed, "input")->text, "7");
  assert_int_equal(kc_node_get(closed, "input")->line, 0);
  assert_int_equal(kc_node_get(kc_node_get(closed, "list")->child->next, "a")->line, 0);
  /* null removes; removing what is not there is fine; neighbours stay */
  assert_int_equal(kc_document_set(&document, "pools.decode.name=null", &diag), KC_OK);
  assert_null(kc_node_get(pool(&document, 0), "name"));
  assert_non_null(kc_node_get(pool(&document, 0), "kv"));
  assert_int_equal(kc_document_set(&document, "nothing.here=null", &diag), KC_OK);
  assert_null(kc_node_get(document.root, "nothing"));
  assert_int_equal(kc_document_set(&document, "pools.1=null", &diag), KC_OK);
  assert_null(pool(&document, 0)->next);
  kc_document_free(&document);
}

static void refuses_bad_sets(void **state)
{
  (void)state;
  static const struct {
    const char *set, *sentence;
  } cases[] = {
    {"", "\"\" is not an assignment; expected key=value, such as pools.decode.kv.format=bf16"},
    {"name", "\"name\" is not an assignment; expected key=value, such as "
             "pools.decode.kv.format=bf16"},
    {"=1", "\"=1\" is not an assignment; expected key=value, such as pools.decode.kv.format=bf16"},
    {"a..b=1", "\"a..b\" has an empty part; expected keys joined by single dots"},
    {".a=1", "\".a\" has an empty part; expected keys joined by single dots"},
    {"name.x=1", "name is a single value and has no key \"x\""},
    {"pools.prefill.kv=1", "pools has no item \"prefill\"; it has: decode, other"},
    {"pools.2.kv=1", "pools has no item \"2\"; it has: decode, other"},
    {"name={a: 1", "is not valid YAML: did not find expected ',' or '}' (while parsing a flow "
                   "mapping)"},
    {"name={a: &x 1}", "anchors (&name) are not allowed here; write the value out"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_document document;
    struct kc_diag diag;
    parse_ok(&document, tree);
    assert_int_equal(kc_document_set(&document, cases[i].set, &diag), KC_ERR_USAGE);
    assert_string_equal(diag.text, cases[i].sentence);
    assert_string_equal(diag.path, "--set");
    kc_document_free(&document);
  }
}

static void sets_at_most_32_parts(void **state)
{
  (void)state;
  struct kc_document document;
  struct kc_diag diag;
  parse_ok(&document, tree);
  char *fits = repeated("", "k.", 31, "k=1");
  char *deep = repeated("", "k.", 32, "k=1");
  assert_int_equal(kc_document_set(&document, fits, &diag), KC_OK);
  assert_int_equal(kc_document_set(&document, deep, &diag), KC_ERR_USAGE);
  assert_non_null(strstr(diag.text, "has more than 32 parts"));
  free(fits);
  free(deep);
  kc_document_free(&document);
}

static void loads_files(void **state)
{
  (void)state;
  char path[] = "/tmp/kvcap_test_node_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  fputs("a: 1\n", out);
  fclose(out);
  struct kc_document document;
  struct kc_diag diag;
  assert_int_equal(kc_document_load(&document, path, &diag), KC_OK);
  assert_string_equal(document.path, path);
  assert_string_equal(kc_node_get(document.root, "a")->text, "1");
  kc_document_free(&document);
  remove(path);
  assert_int_equal(kc_document_load(&document, path, &diag), KC_ERR_FILE);
  assert_string_equal(diag.path, path);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(keeps_places_and_text),
    cmocka_unit_test(hashes_the_bytes),
    cmocka_unit_test(refuses_with_place_and_sentence),
    cmocka_unit_test(ceilings),
    cmocka_unit_test(too_many_nodes),
    cmocka_unit_test(sets_by_path),
    cmocka_unit_test(refuses_bad_sets),
    cmocka_unit_test(sets_at_most_32_parts),
    cmocka_unit_test(loads_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
