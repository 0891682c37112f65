/* Walks JSON text in place: no copy, no allocation, no double on the way.
 *
 *   {"timestamp": 27482, "hash_ids": [7, 18446744073709551615], "note": "a\"b"}
 *    key ^        value ^             ^ value: the span from '[' to ']'    ^ value: between quotes
 *
 * A value is a span of the text. Containers are walked with a cursor of their own, which may be
 * nested by the caller; what is not walked is only bracketed (brackets pair up, strings end), so
 * faults inside a value that nobody reads may go unseen. Numbers stay text: the caller turns them
 * into integers (kc_json_u64, exact to 2^64 - 1) or into exact times (trace_time.h).
 *
 *   struct kc_json_cursor c;
 *   struct kc_json_value key, value;
 *   kc_json_open(&c, &object);
 *   while (kc_json_next_member(&c, &key, &value)) ...
 *   if (c.fault != KC_JSON_OK) ... kc_json_fault_text(c.fault), at c.at
 */
#ifndef KC_TRACES_READERS_JSON_SCAN_H
#define KC_TRACES_READERS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KC_JSON_DEPTH_MAX = 64 }; /* brackets inside brackets */

enum kc_json_kind {
  KC_JSON_NULL,
  KC_JSON_FALSE,
  KC_JSON_TRUE,
  KC_JSON_NUMBER, /* text is the number, by its first letter; digits are checked when it is read */
  KC_JSON_STRING, /* text is what stands between the quotes, escapes as they are */
  KC_JSON_ARRAY,  /* text includes both brackets */
  KC_JSON_OBJECT
};

struct kc_json_value {
  const char *text; /* borrowed from the scanned text */
  size_t bytes;
  enum kc_json_kind kind;
  bool escaped;     /* a string that holds a backslash */
};

enum kc_json_fault {
  KC_JSON_OK,
  KC_JSON_CUT,      /* the text ends inside a value */
  KC_JSON_SYNTAX,   /* a byte that JSON does not have here */
  KC_JSON_LITERAL,  /* NaN, Infinity, None, True: Python's, not JSON's */
  KC_JSON_DEPTH,    /* deeper than KC_JSON_DEPTH_MAX */
  KC_JSON_NOT_WHOLE,/* kc_json_next_u64: an item that is no whole number of 0 or more */
  KC_JSON_TOO_LARGE /* kc_json_next_u64: beyond 2^64 - 1 */
};
/* What is wrong, as a sentence: "the text ends inside a value (cut short?)". Never NULL. */
const char *kc_json_fault_text(enum kc_json_fault fault);

struct kc_json_cursor {
  const char *at;  /* next byte; after a fault, the byte at fault */
  const char *end; /* of the readable text */
  enum kc_json_fault fault;
  bool started;    /* one member or item has been read */
};

/* Takes the value at *at (spaces and line ends before it are skipped); leaves *at behind it.
 * On a fault *at is the byte at fault. O(bytes of the value). */
enum kc_json_fault kc_json_scan(const char **at, const char *end, struct kc_json_value *value);

/* Looks through a value that was scanned, to its leaves: what is found absent in it afterwards is
 * absent, and not behind a fault. O(bytes of the value). */
enum kc_json_fault kc_json_check(const struct kc_json_value *value);

/* `container` must be an object or an array; next_member is for objects, next_item for arrays. */
void kc_json_open(struct kc_json_cursor *cursor, const struct kc_json_value *container);

/* False at the end and on a fault (cursor->fault says which). The key is a KC_JSON_STRING. */
bool kc_json_next_member(struct kc_json_cursor *cursor, struct kc_json_value *key,
                         struct kc_json_value *value);
bool kc_json_next_item(struct kc_json_cursor *cursor, struct kc_json_value *value);

/* The next item of an array of whole numbers, exact to 2^64 - 1. */
bool kc_json_next_u64(struct kc_json_cursor *cursor, uint64_t *number);

/* A number value as a whole number, digits only: OK, NOT_WHOLE or TOO_LARGE. */
enum kc_json_fault kc_json_u64(const struct kc_json_value *value, uint64_t *number);

/* True when a string value (or key) is exactly `text`; escapes are compared as they stand. */
bool kc_json_is(const struct kc_json_value *value, const char *text);

/* The member of `object` with that key (the first one), false when absent or faulty. O(object). */
bool kc_json_find(const struct kc_json_value *object, const char *key, struct kc_json_value *value);

#endif
