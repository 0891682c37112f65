/* Numbers things in order of first appearance: 64-bit ids, and texts.
 *
 *   ids   9007199254740993 9007199254740992 9007199254740993    (one apart beyond 2^53)
 *   dense 0                1                0
 *
 * Nothing is merged: the whole key is stored and compared. A scope may end: the same id then gets
 * another number, because a local id of one file says nothing about another file. */
#ifndef KC_TRACES_READERS_INTERN_H
#define KC_TRACES_READERS_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KC_INTERN_FULL UINT32_MAX /* memory ran out, or 2^32 - 1 numbers are given */

struct kc_intern {
  uint32_t *direct;            /* heap; keys below `direct_keys`: number + 1, 0 = free */
  uint64_t direct_keys;        /* power of two, or 0 */
  struct kc_intern_slot *slot; /* heap; the others: open addressing, at most half full */
  uint64_t slots;              /* power of two, or 0 */
  uint64_t used;               /* of the slots, in this scope */
  uint64_t in_scope;           /* numbers given in this scope */
  uint32_t count;              /* numbers given in all scopes: the next one */
};

/* All-zero is a valid empty table. */
void kc_intern_deinit(struct kc_intern *table);

/* The number of `key`, a new one when it was never seen in this scope; KC_INTERN_FULL on failure.
 * Expected O(1). */
uint32_t kc_intern_put(struct kc_intern *table, uint64_t key);

/* The number of `key`, or KC_INTERN_FULL when it was never put in this scope. */
uint32_t kc_intern_get(const struct kc_intern *table, uint64_t key);

/* Forgets the keys, not the count. */
void kc_intern_end_scope(struct kc_intern *table);

/* The same for texts, which are copied. */
struct kc_intern_text {
  uint32_t *slot;      /* heap; number + 1, 0 = free; open addressing, at most half full */
  uint64_t slots;      /* power of two, or 0 */
  uint64_t *first;     /* number -> where its bytes start in `bytes`; count + 1 entries */
  uint32_t count;      /* numbers given in all scopes: the next one */
  uint32_t scope_from; /* the first number of this scope */
  uint32_t capacity;   /* of `first`, less one */
  char *bytes;         /* all texts, one behind the other */
  uint64_t bytes_capacity;
};

void kc_intern_text_deinit(struct kc_intern_text *table);
uint32_t kc_intern_text_put(struct kc_intern_text *table, const char *text, size_t bytes);
/* Forgets the texts, not the count of numbers given: later texts go on from there. */
void kc_intern_text_end_scope(struct kc_intern_text *table);
/* The text with that number; borrowed until the next put. Not terminated. */
const char *kc_intern_text_get(const struct kc_intern_text *table, uint32_t number, size_t *bytes);

#endif
