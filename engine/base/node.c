/* YAML documents as trees of nodes with places.
 *
 *   bytes --libyaml events--> struct loader { open[depth], last[depth] } --> nodes and strings
 *
 *   document.memory -> block -> block -> NULL     bump blocks; every node and string lives in one
 *
 * The event interface is used rather than libyaml's own document, because events carry the marks
 * that error messages need, and because depth and node count can be refused before they cost
 * anything. Nothing recurses: the open containers are a fixed stack. Memory is malloc'd here, at
 * set-up time only; a document owns its blocks until kc_document_free.
 */
#include "engine/base/node.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "engine/base/check.h"
#include "engine/base/digest.h"
#include "engine/base/file.h"
#include "engine/base/number.h"

/* ---- memory ---- */

enum { BLOCK_BYTES = 16384 };

struct block {
  struct block *next;
  size_t used, capacity;
  alignas(max_align_t) unsigned char data[];
};

static void *document_take(struct kc_document *document, size_t bytes)
{
  KC_ASSERT(document != NULL);
  KC_ASSERT(bytes > 0);
  const size_t need = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) *
                      alignof(max_align_t);
  struct block *block = document->memory;
  if (block == NULL || block->capacity - block->used < need) {
    const size_t capacity = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    struct block *fresh = malloc(sizeof *fresh + capacity);
    if (fresh == NULL) return NULL;
    fresh->next = block;
    fresh->used = 0;
    fresh->capacity = capacity;
    document->memory = block = fresh;
  }
  void *taken = block->data + block->used;
  block->used += need;
  KC_ASSERT(block->used <= block->capacity);
  return taken;
}

static const char *document_text(struct kc_document *document, const char *text, size_t length)
{
  KC_ASSERT(text != NULL);
  char *copy = document_take(document, length + 1);
  if (copy == NULL) return NULL;
  if (length > 0) memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

static struct kc_node *document_node(struct kc_document *document, enum kc_node_kind kind)
{
  struct kc_node *node = document_take(document, sizeof *node);
  if (node == NULL) return NULL;
  memset(node, 0, sizeof *node);
  node->kind = kind;
  return node;
}

void kc_document_free(struct kc_document *document)
{
  KC_ASSERT(document != NULL);
  struct block *block = document->memory;
  while (block != NULL) {
    struct block *next = block->next;
    free(block);
    block = next;
  }
  document->memory = NULL;
  document->root = NULL;
}

/* ---- events to nodes ---- */

struct loader {
  struct kc_document *document;
  const char *path;     /* for messages */
  struct kc_diag *diag;
  uint32_t depth;       /* open containers */
  struct kc_node *open[KC_NODE_DEPTH_MAX];
  struct kc_node *last[KC_NODE_DEPTH_MAX];  /* last child so far */
  uint32_t entries[KC_NODE_DEPTH_MAX];
  const char *key;      /* of the value that comes next, when a map is open; NULL = key expected */
  yaml_mark_t key_mark;
  struct kc_node *root;
  uint32_t nodes;
};

static enum kc_err loader_fail(const struct loader *loader, yaml_mark_t mark, enum kc_err code,
                               const char *sentence)
{
  KC_ASSERT(sentence != NULL);
  KC_ASSERT(code != KC_OK);
  return kc_fail_at(loader->diag, code, loader->path, mark.line + 1, (uint32_t)mark.column + 1,
                    "%s", sentence);
}

static enum kc_err loader_no_memory(const struct loader *loader)
{
  return kc_fail_at(loader->diag, KC_ERR_MEMORY, loader->path, 0, 0,
                    "the host ran out of memory while the file was read");
}

/* Anchors and tags are refused: they hide what a value is from the person who reads the file. */
static enum kc_err refuse_decoration(const struct loader *loader, yaml_mark_t mark,
                                     const yaml_char_t *anchor, const yaml_char_t *tag)
{
  if (anchor != NULL) {
    return loader_fail(loader, mark, KC_ERR_INPUT,
                       "anchors (&name) are not allowed here; write the value out");
  }
  if (tag != NULL) {
    return loader_fail(loader, mark, KC_ERR_INPUT,
                       "tags (!name) are not allowed here; write the plain value");
  }
  return KC_OK;
}

static enum kc_err take_key(struct loader *loader, const yaml_event_t *event)
{
  KC_ASSERT(loader->depth > 0);
  KC_ASSERT(loader->key == NULL);
  const char *text = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  if (length == 0) {
    return loader_fail(loader, event->start_mark, KC_ERR_INPUT,
                       "this key is empty; expected a name");
  }
  for (const struct kc_node *node = loader->open[loader->depth - 1]->child; node != NULL;
       node = node->next) {
    if (strcmp(node->key, text) != 0) continue;
    return kc_fail_at(loader->diag, KC_ERR_INPUT, loader->path, event->start_mark.line + 1,
                      (uint32_t)event->start_mark.column + 1,
                      "key \"%.64s\" stands here for the second time (first in line %u); keep one",
                      text, node->line);
  }
  loader->key = document_text(loader->document, text, length);
  loader->key_mark = event->start_mark;
  return loader->key == NULL ? loader_no_memory(loader) : KC_OK;
}

/* Hangs a new node into the innermost open container, or makes it the root. */
static enum kc_err attach(struct loader *loader, struct kc_node *node, yaml_mark_t mark)
{
  KC_ASSERT(node->next == NULL);
  KC_ASSERT(loader->depth <= KC_NODE_DEPTH_MAX);
  node->line = (uint32_t)mark.line + 1;
  node->column = (uint32_t)mark.column + 1;
  if (++loader->nodes > KC_NODE_COUNT_MAX) {
    return loader_fail(loader, mark, KC_ERR_LIMIT,
                       "the file has more than 65,536 values, the most that are read");
  }
  if (loader->depth == 0) {
    loader->root = node;
    return KC_OK;
  }
  const uint32_t top = loader->depth - 1;
  if (++loader->entries[top] > KC_NODE_ENTRIES_MAX) {
    return loader_fail(loader, mark, KC_ERR_LIMIT,
                       "this map or list has more than 1,024 entries, the most that are read");
  }
  node->key = loader->key;
  loader->key = NULL;
  if (loader->last[top] == NULL) {
    loader->open[top]->child = node;
  } else {
    loader->last[top]->next = node;
  }
  loader->last[top] = node;
  return KC_OK;
}

static bool expects_key(const struct loader *loader)
{
  return loader->depth > 0 && loader->open[loader->depth - 1]->kind == KC_NODE_MAP &&
         loader->key == NULL;
}

static enum kc_err on_scalar(struct loader *loader, const yaml_event_t *event)
{
  KC_ASSERT(event->type == YAML_SCALAR_EVENT);
  KC_TRY(refuse_decoration(loader, event->start_mark, event->data.scalar.anchor,
                           event->data.scalar.tag));
  const char *text = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  if (memchr(text, '\0', length) != NULL) {
    return loader_fail(loader, event->start_mark, KC_ERR_INPUT,
                       "a zero byte is not allowed in a value");
  }
  if (expects_key(loader)) return take_key(loader, event);
  struct kc_node *node = document_node(loader->document, KC_NODE_SCALAR);
  if (node == NULL) return loader_no_memory(loader);
  node->text = document_text(loader->document, text, length);
  if (node->text == NULL) return loader_no_memory(loader);
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  return attach(loader, node, event->start_mark);
}

static enum kc_err on_open(struct loader *loader, const yaml_event_t *event, enum kc_node_kind kind)
{
  KC_ASSERT(kind != KC_NODE_SCALAR);
  KC_ASSERT(loader->depth <= KC_NODE_DEPTH_MAX);
  if (expects_key(loader)) {
    return loader_fail(loader, event->start_mark, KC_ERR_INPUT,
                       "a map or list cannot be a key; expected a name");
  }
  if (loader->depth == KC_NODE_DEPTH_MAX) {
    return loader_fail(loader, event->start_mark, KC_ERR_LIMIT,
                       "maps and lists are nested more than 32 deep, the most that is read");
  }
  struct kc_node *node = document_node(loader->document, kind);
  if (node == NULL) return loader_no_memory(loader);
  KC_TRY(attach(loader, node, event->start_mark));
  loader->open[loader->depth] = node;
  loader->last[loader->depth] = NULL;
  loader->entries[loader->depth] = 0;
  loader->depth++;
  return KC_OK;
}

static enum kc_err on_close(struct loader *loader)
{
  KC_ASSERT(loader->depth > 0);
  KC_ASSERT(loader->key == NULL);
  loader->depth--;
  return KC_OK;
}

static enum kc_err on_event(struct loader *loader, const yaml_event_t *event)
{
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      if (loader->root == NULL) return KC_OK;
      return loader_fail(loader, event->start_mark, KC_ERR_INPUT,
                         "a second document starts here; one file holds one document");
    case YAML_ALIAS_EVENT:
      return loader_fail(loader, event->start_mark, KC_ERR_INPUT,
                         "aliases (*name) are not allowed here; write the value out");
    case YAML_SCALAR_EVENT:
      return on_scalar(loader, event);
    case YAML_MAPPING_START_EVENT:
      KC_TRY(refuse_decoration(loader, event->start_mark, event->data.mapping_start.anchor,
                               event->data.mapping_start.tag));
      return on_open(loader, event, KC_NODE_MAP);
    case YAML_SEQUENCE_START_EVENT:
      KC_TRY(refuse_decoration(loader, event->start_mark, event->data.sequence_start.anchor,
                               event->data.sequence_start.tag));
      return on_open(loader, event, KC_NODE_LIST);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
      return on_close(loader);
    default:
      return KC_OK;
  }
}

/* ---- whole documents ---- */

/* Bad bytes come with an offset instead of a mark. */
static uint64_t line_of_offset(const char *data, size_t bytes, size_t offset)
{
  uint64_t line = 1;
  for (size_t i = 0; i < bytes && i < offset; i++) line += data[i] == '\n';
  return line;
}

static enum kc_err parser_fail(const struct loader *loader, const yaml_parser_t *parser,
                               const char *data, size_t bytes)
{
  KC_ASSERT(parser->error != YAML_NO_ERROR);
  const char *problem = parser->problem == NULL ? "unknown problem" : parser->problem;
  switch (parser->error) {
    case YAML_MEMORY_ERROR:
      return loader_no_memory(loader);
    case YAML_READER_ERROR:
      return kc_fail_at(loader->diag, KC_ERR_INPUT, loader->path,
                        line_of_offset(data, bytes, parser->problem_offset), 0,
                        "is not valid YAML: %s; expected UTF-8 text", problem);
    default:
      return kc_fail_at(loader->diag, KC_ERR_INPUT, loader->path, parser->problem_mark.line + 1,
                        (uint32_t)parser->problem_mark.column + 1, "is not valid YAML: %s%s%s%s",
                        problem, parser->context == NULL ? "" : " (",
                        parser->context == NULL ? "" : parser->context,
                        parser->context == NULL ? "" : ")");
  }
}

static enum kc_err run_events(struct loader *loader, yaml_parser_t *parser, const char *data,
                              size_t bytes)
{
  for (;;) {
    yaml_event_t event;
    if (yaml_parser_parse(parser, &event) == 0) return parser_fail(loader, parser, data, bytes);
    const bool end = event.type == YAML_STREAM_END_EVENT;
    const enum kc_err err = on_event(loader, &event);
    yaml_event_delete(&event);
    if (err != KC_OK) return err;
    if (end) return KC_OK;
  }
}

/* Reads `data` into nodes of `document`, the tree into *root. */
static enum kc_err parse_tree(struct kc_document *document, const char *path, const char *data,
                              size_t bytes, struct kc_node **root, struct kc_diag *diag)
{
  KC_ASSERT(root != NULL);
  KC_ASSERT(data != NULL || bytes == 0);
  struct loader loader = {.document = document, .path = path, .diag = diag};
  yaml_parser_t parser;
  if (yaml_parser_initialize(&parser) == 0) return loader_no_memory(&loader);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)(bytes == 0 ? "" : data), bytes);
  const enum kc_err err = run_events(&loader, &parser, data, bytes);
  yaml_parser_delete(&parser);
  *root = loader.root;
  return err;
}

enum kc_err kc_document_parse(struct kc_document *document, const char *path, const char *data,
                              size_t bytes, struct kc_diag *diag)
{
  KC_ASSERT(document != NULL);
  KC_ASSERT(data != NULL || bytes == 0);
  memset(document, 0, sizeof *document);
  if (bytes > KC_DOCUMENT_BYTES_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0,
                      "has %zu bytes; documents of at most 1 MiB are read", bytes);
  }
  memccpy(document->path, path, '\0', sizeof document->path - 1);
  struct kc_sha256 sha;
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, data, bytes);
  kc_sha256_final_hex(&sha, document->sha256);
  enum kc_err err = parse_tree(document, path, data, bytes, &document->root, diag);
  if (err == KC_OK && document->root == NULL) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "is empty; expected a map of keys and values");
  } else if (err == KC_OK && document->root->kind != KC_NODE_MAP) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, document->root->line, document->root->column,
                     "holds a %s; expected a map of keys and values",
                     document->root->kind == KC_NODE_LIST ? "list" : "single value");
  }
  if (err != KC_OK) kc_document_free(document);
  return err;
}

enum kc_err kc_document_load(struct kc_document *document, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(document != NULL);
  KC_ASSERT(path != NULL);
  memset(document, 0, sizeof *document);
  struct kc_file file;
  KC_TRY(kc_file_open(&file, path, KC_DOCUMENT_BYTES_MAX, diag));
  const enum kc_err err = kc_document_parse(document, path, file.data, file.bytes, diag);
  kc_file_close(&file);
  return err;
}

/* ---- look-up and override ---- */

const struct kc_node *kc_node_get(const struct kc_node *map, const char *key)
{
  KC_ASSERT(key != NULL);
  if (map == NULL || map->kind != KC_NODE_MAP) return NULL;
  for (const struct kc_node *node = map->child; node != NULL; node = node->next) {
    if (strcmp(node->key, key) == 0) return node;
  }
  return NULL;
}

bool kc_node_is_null(const struct kc_node *node)
{
  KC_ASSERT(node != NULL);
  if (node->kind != KC_NODE_SCALAR || node->quoted) return false;
  return node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0;
}

static bool equals_part(const char *text, const char *part, size_t length)
{
  return strlen(text) == length && memcmp(text, part, length) == 0;
}

/* Slot that points at the child of a map with this key, or at the NULL after the last child. */
static struct kc_node **find_key(struct kc_node *map, const char *part, size_t length)
{
  KC_ASSERT(map->kind == KC_NODE_MAP);
  struct kc_node **slot = &map->child;
  while (*slot != NULL && !equals_part((*slot)->key, part, length)) slot = &(*slot)->next;
  return slot;
}

/* Slot of a list item by its `name`, else by its index; points at NULL when there is none. */
static struct kc_node **find_item(struct kc_node *list, const char *part, size_t length)
{
  KC_ASSERT(list->kind == KC_NODE_LIST);
  struct kc_node **slot = &list->child;
  for (; *slot != NULL; slot = &(*slot)->next) {
    const struct kc_node *name = kc_node_get(*slot, "name");
    if (name != NULL && name->kind == KC_NODE_SCALAR && equals_part(name->text, part, length)) {
      return slot;
    }
  }
  uint64_t index;
  if (!kc_parse_u64(part, length, &index)) return slot;
  slot = &list->child;
  for (uint64_t i = 0; i < index && *slot != NULL; i++) slot = &(*slot)->next;
  return slot;
}

/* "decode, prefill": names of a list's items, for messages. */
static void item_names(const struct kc_node *list, char *out, size_t size)
{
  KC_ASSERT(list->kind == KC_NODE_LIST);
  KC_ASSERT(size > 0);
  size_t used = 0;
  uint32_t index = 0;
  out[0] = '\0';
  for (const struct kc_node *node = list->child; node != NULL; node = node->next, index++) {
    const struct kc_node *name = kc_node_get(node, "name");
    const bool named = name != NULL && name->kind == KC_NODE_SCALAR;
    char number[16];
    snprintf(number, sizeof number, "%u", index);
    const int wrote = snprintf(out + used, size - used, "%s%s", used == 0 ? "" : ", ",
                               named ? name->text : number);
    if (wrote < 0 || (size_t)wrote >= size - used) return;
    used += (size_t)wrote;
  }
}

/* One step of a dotted path. On success *slot points at the child (NULL in it: to be created). */
static enum kc_err descend(struct kc_node *from, const char *path, const char *part, size_t length,
                           struct kc_node ***slot, struct kc_diag *diag)
{
  KC_ASSERT(from != NULL);
  KC_ASSERT(part >= path);
  const int before = part == path ? 0 : (int)(part - path - 1);
  if (length == 0) {
    return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0,
                      "\"%.64s\" has an empty part; expected keys joined by single dots", path);
  }
  if (from->kind == KC_NODE_SCALAR) {
    return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0,
                      "%.*s is a single value and has no key \"%.*s\"", before, path, (int)length,
                      part);
  }
  if (from->kind == KC_NODE_MAP) {
    *slot = find_key(from, part, length);
    return KC_OK;
  }
  *slot = find_item(from, part, length);
  if (**slot != NULL) return KC_OK;
  char names[128];
  item_names(from, names, sizeof names);
  return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0, "%.*s has no item \"%.*s\"; it has: %s",
                    before, path, (int)length, part, names);
}

/* Places of nodes that came from the command line are all zero, also in subtrees given as YAML. */
static void clear_places(struct kc_node *root)
{
  struct kc_node *stack[KC_NODE_DEPTH_MAX + 1];
  uint32_t depth = 0;
  stack[depth++] = root;
  while (depth > 0) {
    struct kc_node *node = stack[--depth];
    node->line = node->column = 0;
    if (node != root && node->next != NULL) stack[depth++] = node->next;
    if (node->child != NULL) stack[depth++] = node->child;
    KC_ASSERT(depth <= KC_NODE_DEPTH_MAX);
  }
}

static enum kc_err set_no_memory(struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_MEMORY, "--set", 0, 0, "the host ran out of memory");
}

static enum kc_err make_value(struct kc_document *document, const char *text,
                              struct kc_node **value, struct kc_diag *diag)
{
  KC_ASSERT(text != NULL);
  const size_t length = strlen(text);
  if (text[0] == '{' || text[0] == '[') {
    struct kc_diag why;
    const enum kc_err err = parse_tree(document, "--set", text, length, value, &why);
    if (err != KC_OK) return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0, "%s", why.text);
    KC_ASSERT(*value != NULL);
    clear_places(*value);
    return KC_OK;
  }
  *value = document_node(document, KC_NODE_SCALAR);
  if (*value != NULL) (*value)->text = document_text(document, text, length);
  if (*value == NULL || (*value)->text == NULL) return set_no_memory(diag);
  return KC_OK;
}

/* Puts `value` (NULL: removes) where *slot points, keeping key and neighbours. */
static void replace(struct kc_node **slot, struct kc_node *value, const char *key)
{
  struct kc_node *old = *slot;
  if (value == NULL) {
    if (old != NULL) *slot = old->next;
    return;
  }
  value->key = key;
  value->next = old == NULL ? NULL : old->next;
  *slot = value;
}

/* Walks `path` from the root, making maps on the way, and puts `value` at its end; NULL removes. */
static enum kc_err set_path(struct kc_document *document, const char *path, struct kc_node *value,
                            struct kc_diag *diag)
{
  KC_ASSERT(document->root != NULL);
  struct kc_node *node = document->root;
  const char *part = path;
  for (uint32_t depth = 0; depth < KC_NODE_DEPTH_MAX; depth++) {
    const size_t length = strcspn(part, ".");
    struct kc_node **slot = NULL;
    KC_TRY(descend(node, path, part, length, &slot, diag));
    if (*slot == NULL && value == NULL) return KC_OK; /* nothing there to remove */
    const char *key = node->kind == KC_NODE_MAP ? document_text(document, part, length) : NULL;
    if (key == NULL && node->kind == KC_NODE_MAP) return set_no_memory(diag);
    if (part[length] == '\0') {
      replace(slot, value, key);
      return KC_OK;
    }
    if (*slot == NULL) {
      struct kc_node *made = document_node(document, KC_NODE_MAP);
      if (made == NULL) return set_no_memory(diag);
      replace(slot, made, key);
    }
    node = *slot;
    part += length + 1;
  }
  return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0, "\"%.64s\" has more than %d parts", path,
                    (int)KC_NODE_DEPTH_MAX);
}

enum kc_err kc_document_set(struct kc_document *document, const char *assignment,
                            struct kc_diag *diag)
{
  KC_ASSERT(document != NULL && document->root != NULL);
  KC_ASSERT(assignment != NULL);
  const char *equals = strchr(assignment, '=');
  if (equals == NULL || equals == assignment) {
    return kc_fail_at(diag, KC_ERR_USAGE, "--set", 0, 0,
                      "\"%.64s\" is not an assignment; expected key=value, such as "
                      "pools.decode.kv.format=bf16", assignment);
  }
  const char *path = document_text(document, assignment, (size_t)(equals - assignment));
  if (path == NULL) return set_no_memory(diag);
  struct kc_node *value = NULL;
  if (strcmp(equals + 1, "null") != 0) KC_TRY(make_value(document, equals + 1, &value, diag));
  return set_path(document, path, value, diag);
}
