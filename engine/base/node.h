/* A YAML document as a tree that remembers where each value stood (file, line, column).
 *
 * Parsed by libyaml; anchors, aliases, tags and duplicate keys are refused; depth at most 32, size
 * at most 1 MiB, at most 65,536 nodes, at most 1,024 entries in one map or list. Scalars stay text:
 * the option that binds them decides the type.
 */
#ifndef KC_ENGINE_BASE_NODE_H
#define KC_ENGINE_BASE_NODE_H

#include "engine/base/diag.h"

enum {
  KC_NODE_DEPTH_MAX = 32,
  KC_NODE_COUNT_MAX = 65536,
  KC_NODE_ENTRIES_MAX = 1024,
  KC_DOCUMENT_BYTES_MAX = 1 << 20
};

enum kc_node_kind { KC_NODE_SCALAR, KC_NODE_MAP, KC_NODE_LIST };

struct kc_node {
  enum kc_node_kind kind;
  const char *key;    /* in a map; NULL otherwise */
  const char *text;   /* SCALAR; "" when empty */
  bool quoted;        /* SCALAR was quoted: never a number or null */
  uint32_t line, column;
  struct kc_node *child, *next; /* first child; next sibling */
};

struct kc_document {
  struct kc_node *root; /* a MAP */
  char path[KC_DIAG_PATH_BYTES];
  char sha256[65];      /* of the file's bytes */
  void *memory;         /* owns every node and string */
};

enum kc_err kc_document_load(struct kc_document *document, const char *path, struct kc_diag *diag);
enum kc_err kc_document_parse(struct kc_document *document, const char *path, const char *data,
                              size_t bytes, struct kc_diag *diag);
void kc_document_free(struct kc_document *document);

/* Child of a map by key, or NULL (also when `map` is NULL or not a map). */
const struct kc_node *kc_node_get(const struct kc_node *map, const char *key);

/* True for what YAML calls null: an unquoted scalar that is empty, "~" or "null". */
bool kc_node_is_null(const struct kc_node *node);

/* Sets a value by dotted path ("pools.decode.kv.format=bf16"); a list item is named by its `name`
 * key or its index. Creates maps on the way, never list items. A value that starts with '{' or '['
 * is read as YAML ("workload.closed={concurrency: 4, ...}"); any other is taken as it stands;
 * "null" removes the key. The place of a value set this way is line 0 and the path "--set".
 * Errors KC_ERR_USAGE. */
enum kc_err kc_document_set(struct kc_document *document, const char *assignment,
                            struct kc_diag *diag);

#endif
