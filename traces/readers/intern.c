/* Tables that number their keys.
 *
 *   direct [ number + 1 ] by key                keys not much larger than their number is: most
 *                                               traces count their ids 0, 1, 2, ... , and a table
 *                                               read in order stays in cache where a hash does not
 *   slot   [ key | number + 1 ]   0 = free      the others; probing: next slot, half are taken
 *   texts  [ number + 1 ]  ->  first[number] .. first[number + 1] of one block of bytes
 *
 * The order of numbers is the order of first put, so nothing depends on hashes or addresses. Ids
 * are mixed before they choose a slot: dense ids and ids that differ only in high bits spread
 * alike. A cast to 32 bits here once merged distinct prefixes in another tool
 * (ai-dynamo/dynamo, pull request 12046). Memory is the table's own, from malloc, while a trace is
 * read. */
#include "traces/readers/intern.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { FIRST_SLOTS = 1024, FIRST_DIRECT = 4096, FIRST_TEXTS = 64, FIRST_BYTES = 1024 };

struct kc_intern_slot {
  uint64_t key;
  uint64_t number; /* + 1; 0 = free */
};

/* The finaliser of splitmix64 (Vigna, public domain): every bit of the key moves every bit. */
static inline uint64_t mix(uint64_t key)
{
  key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
  return key ^ (key >> 31);
}

void kc_intern_deinit(struct kc_intern *table)
{
  free(table->direct);
  free(table->slot);
  memset(table, 0, sizeof *table);
}

static inline struct kc_intern_slot *find_slot(const struct kc_intern *table, uint64_t key)
{
  const uint64_t mask = table->slots - 1;
  uint64_t at = mix(key) & mask;
  while (table->slot[at].number != 0 && table->slot[at].key != key) at = (at + 1) & mask;
  return &table->slot[at];
}

static bool grow(struct kc_intern *table)
{
  struct kc_intern old = *table;
  struct kc_intern larger = old;
  larger.slots = old.slots == 0 ? FIRST_SLOTS : old.slots * 2;
  larger.slot = KC_FAULT("trace_intern_memory")
                    ? NULL
                    : calloc((size_t)larger.slots, sizeof *larger.slot);
  if (larger.slot == NULL) return false;
  for (uint64_t i = 0; i < old.slots; i++) {
    if (old.slot[i].number != 0) *find_slot(&larger, old.slot[i].key) = old.slot[i];
  }
  free(old.slot);
  *table = larger;
  return true;
}

/* True when a direct table for `key` would be well filled: at most eight entries a number. */
static inline bool is_dense(const struct kc_intern *table, uint64_t key)
{
  return key / 4 < table->in_scope + FIRST_DIRECT / 4;
}

/* Makes `key` direct. Keys that the slots hold and that become direct move over. */
static bool grow_direct(struct kc_intern *table, uint64_t key)
{
  const uint64_t old = table->direct_keys;
  uint64_t keys = old == 0 ? FIRST_DIRECT : old;
  while (keys <= key) keys *= 2;
  uint32_t *const direct = KC_FAULT("trace_intern_memory")
                               ? NULL
                               : realloc(table->direct, (size_t)keys * sizeof *direct);
  if (direct == NULL) return false;
  memset(direct + old, 0, (size_t)(keys - old) * sizeof *direct);
  table->direct = direct;
  table->direct_keys = keys;
  for (uint64_t i = 0; i < table->slots; i++) { /* their slots stay taken, for later probes */
    const struct kc_intern_slot *const slot = &table->slot[i];
    if (slot->number != 0 && slot->key < keys && slot->key >= old) {
      direct[slot->key] = (uint32_t)slot->number;
    }
  }
  return true;
}

/* The next number, or KC_INTERN_FULL. */
static inline uint32_t next_number(struct kc_intern *table)
{
  if (table->count == KC_INTERN_FULL - 1) return KC_INTERN_FULL;
  table->in_scope++;
  return table->count++;
}

static uint32_t put_slot(struct kc_intern *table, uint64_t key)
{
  if (table->used * 2 >= table->slots && !grow(table)) return KC_INTERN_FULL;
  struct kc_intern_slot *const slot = find_slot(table, key);
  if (slot->number == 0) {
    const uint32_t number = next_number(table);
    if (number == KC_INTERN_FULL) return KC_INTERN_FULL;
    *slot = (struct kc_intern_slot){key, (uint64_t)number + 1};
    table->used++;
  }
  KC_ASSERT(slot->number <= table->count);
  return (uint32_t)(slot->number - 1);
}

uint32_t kc_intern_put(struct kc_intern *table, uint64_t key)
{
  if (key >= table->direct_keys) {
    if (!is_dense(table, key)) return put_slot(table, key);
    if (!grow_direct(table, key)) return KC_INTERN_FULL;
  }
  uint32_t *const entry = &table->direct[key];
  if (*entry == 0) {
    const uint32_t number = next_number(table);
    if (number == KC_INTERN_FULL) return KC_INTERN_FULL;
    *entry = number + 1;
  }
  return *entry - 1;
}

uint32_t kc_intern_get(const struct kc_intern *table, uint64_t key)
{
  if (key < table->direct_keys) return table->direct[key] == 0 ? KC_INTERN_FULL
                                                               : table->direct[key] - 1;
  if (table->slots == 0) return KC_INTERN_FULL;
  const struct kc_intern_slot *const slot = find_slot(table, key);
  return slot->number == 0 ? KC_INTERN_FULL : (uint32_t)(slot->number - 1);
}

void kc_intern_end_scope(struct kc_intern *table)
{
  if (table->direct_keys > 0) {
    memset(table->direct, 0, (size_t)table->direct_keys * sizeof *table->direct);
  }
  if (table->used > 0) memset(table->slot, 0, (size_t)table->slots * sizeof *table->slot);
  table->used = 0;
  table->in_scope = 0;
}

void kc_intern_text_deinit(struct kc_intern_text *table)
{
  free(table->slot);
  free(table->first);
  free(table->bytes);
  memset(table, 0, sizeof *table);
}

/* FNV-1a, then mixed. */
static uint64_t hash_text(const char *text, size_t bytes)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i++) {
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return mix(hash);
}

const char *kc_intern_text_get(const struct kc_intern_text *table, uint32_t number, size_t *bytes)
{
  KC_ASSERT(number < table->count);
  *bytes = (size_t)(table->first[number + 1] - table->first[number]);
  return table->bytes + table->first[number];
}

static uint32_t *find_text_slot(const struct kc_intern_text *table, const char *text, size_t bytes)
{
  const uint64_t mask = table->slots - 1;
  uint64_t at = hash_text(text, bytes) & mask;
  while (table->slot[at] != 0) {
    size_t stored_bytes;
    const char *const stored = kc_intern_text_get(table, table->slot[at] - 1, &stored_bytes);
    if (stored_bytes == bytes && memcmp(stored, text, bytes) == 0) break;
    at = (at + 1) & mask;
  }
  return &table->slot[at];
}

static bool grow_text_slots(struct kc_intern_text *table)
{
  const uint64_t slots = table->slots == 0 ? FIRST_SLOTS : table->slots * 2;
  uint32_t *const slot = KC_FAULT("trace_intern_memory") ? NULL
                                                         : calloc((size_t)slots, sizeof *slot);
  if (slot == NULL) return false;
  free(table->slot);
  table->slot = slot;
  table->slots = slots;
  for (uint32_t i = table->scope_from; i < table->count; i++) {
    size_t bytes;
    const char *const text = kc_intern_text_get(table, i, &bytes);
    *find_text_slot(table, text, bytes) = i + 1;
  }
  return true;
}

/* Room for one more text of `bytes`. */
static bool reserve_text(struct kc_intern_text *table, size_t bytes)
{
  if (table->first == NULL || table->count == table->capacity) {
    const uint32_t capacity = table->capacity == 0 ? FIRST_TEXTS : table->capacity * 2;
    uint64_t *const first =
        realloc(table->first, ((size_t)capacity + 1) * sizeof *table->first);
    if (first == NULL || capacity < table->capacity) return false;
    if (table->first == NULL) first[0] = 0;
    table->first = first;
    table->capacity = capacity;
  }
  const uint64_t needed = table->first[table->count] + bytes + 1; /* an empty text has a place */
  if (needed <= table->bytes_capacity) return true;
  uint64_t larger = table->bytes_capacity == 0 ? FIRST_BYTES : table->bytes_capacity;
  while (larger < needed) larger *= 2;
  char *const block = realloc(table->bytes, (size_t)larger);
  if (block == NULL) return false;
  table->bytes = block;
  table->bytes_capacity = larger;
  return true;
}

uint32_t kc_intern_text_put(struct kc_intern_text *table, const char *text, size_t bytes)
{
  KC_ASSERT(text != NULL || bytes == 0);
  const uint64_t used = table->count - table->scope_from;
  if (used * 2 >= table->slots && !grow_text_slots(table)) return KC_INTERN_FULL;
  uint32_t *const slot = find_text_slot(table, text, bytes);
  if (*slot != 0) return *slot - 1;
  if (table->count == KC_INTERN_FULL - 1 || !reserve_text(table, bytes)) return KC_INTERN_FULL;
  if (bytes > 0) memcpy(table->bytes + table->first[table->count], text, bytes);
  table->first[table->count + 1] = table->first[table->count] + bytes;
  *slot = ++table->count;
  return table->count - 1;
}

void kc_intern_text_end_scope(struct kc_intern_text *table)
{
  if (table->slots > 0) memset(table->slot, 0, (size_t)table->slots * sizeof *table->slot);
  table->scope_from = table->count;
}
