/* A read-only view of a Hugging Face config.json: typed, ranged look-ups that remember the first
 * fault, so that the code of a model family reads like a list of its keys. Internal to the folder.
 *
 *   { "architectures": [...],           <- root
 *     "text_config": { ... },           <- text: where the language model's keys are (or the root)
 *     "vision_config": { ... } }
 *
 * After a fault every look-up returns its fallback (or the low end of its range) and `err` stays
 * set; a family therefore checks `err` once, at the end. Values returned are always within range,
 * whatever the file says.
 */
#ifndef KC_ENGINE_MODEL_HF_H
#define KC_ENGINE_MODEL_HF_H

#include <jansson.h>

#include "engine/base/diag.h"

struct kc_hf {
  const json_t *root;   /* borrowed from the caller of kc_hf_init */
  const json_t *object; /* where keys are looked up: root or one of its objects */
  const char *scope;    /* "" or "text_config": the key of `object` in the root */
  const char *data;     /* the text the document was read from, to find places of keys */
  size_t bytes;
  const char *path;     /* of the file */
  struct kc_diag *diag; /* caller's; may be NULL */
  enum kc_err err;      /* KC_OK until the first fault */
};

void kc_hf_init(struct kc_hf *hf, const json_t *root, const char *data, size_t bytes,
                const char *path, struct kc_diag *diag);

/* Looks keys up in root[`key`] from now on when that is an object; returns whether it is. `key`
 * must outlive the view. */
bool kc_hf_enter(struct kc_hf *hf, const char *key);

/* Records a fault (the first one counts) and returns its code. The text opens with the key, nested
 * as it is in the file ("text_config.hidden_size"), and the place is the key's when it is there.
 * `key` NULL: the fault is of the file as a whole. */
enum kc_err kc_hf_fail(struct kc_hf *hf, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True when the key is there and not null. */
bool kc_hf_has(const struct kc_hf *hf, const char *key);

/* Whole number in [low, high]; the key must be there. */
uint32_t kc_hf_u32(struct kc_hf *hf, const char *key, uint32_t low, uint32_t high);
/* The same, or `fallback` when the key is absent or null. */
uint32_t kc_hf_u32_or(struct kc_hf *hf, const char *key, uint32_t low, uint32_t high,
                      uint32_t fallback);
bool kc_hf_bool_or(struct kc_hf *hf, const char *key, bool fallback);
/* NULL when absent or null. Borrowed from the document. */
const char *kc_hf_text_or_null(struct kc_hf *hf, const char *key);
/* Array, or NULL when absent or null. With `count` > 0 it must have exactly that many items. */
const json_t *kc_hf_array_or_null(struct kc_hf *hf, const char *key, size_t count);

#endif
