/* Tags in the real path: the check finds exactly the bad entries, writes are refused exactly where
 * they must be, verdicts stick, counters prove that it happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ref/ref.h"
#include "op_random.h"
#include "paged_bed.h"

enum { SLOTS = 5 };

static const struct paged_shape shape = {
    KC_PAGED_GQA, KC_KV_BF16, KC_KV_FP8_E4M3, 16, 2, 2, 16, 0, 0, SLOTS, 200};

struct check_bed {
  struct paged_bed bed;
  uint32_t slot[SLOTS], entries[SLOTS];
};

static void make(struct check_bed *c, uint64_t seed)
{
  paged_bed_make(&c->bed, &shape, seed);
  for (uint32_t s = 0; s < SLOTS; ++s) {
    c->bed.context[s] = 100 + 13 * s; /* rows of 7 and more entries: fill what was not yet */
    c->slot[s] = s;
    c->entries[s] = (c->bed.context[s] + 15) / 16;
  }
  uint32_t page = 0;
  for (uint32_t s = 0; s < SLOTS; ++s) {
    for (uint32_t e = 0; e < c->entries[s]; ++e, ++page) {
      c->bed.entry[s * c->bed.row_entries + e] = (struct kc_page_ref){page, c->bed.tag[page]};
    }
  }
  memset(c->bed.counter, 0, sizeof c->bed.counter);
}

static enum kc_op_status check(struct check_bed *c)
{
  const struct kc_op_tag_check op = {.rows = SLOTS, .slot = c->slot, .entries = c->entries,
                                     .table = c->bed.table, .integrity = c->bed.integrity};
  return kc_ref_ops()->tag_check(NULL, &op);
}

static struct kc_page_ref *entry_of(struct check_bed *c, uint32_t slot, uint32_t index)
{
  return &c->bed.entry[slot * c->bed.row_entries + index];
}

static void sound_tables_raise_nothing(void **state)
{
  (void)state;
  struct check_bed c;
  make(&c, 3);
  uint64_t entries = 0;
  for (uint32_t s = 0; s < SLOTS; ++s) entries += c.entries[s];
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    assert_int_equal(check(&c), KC_OP_OK);
    assert_int_equal(c.bed.counter[KC_COUNT_CHECKS], pass);
    assert_int_equal(c.bed.counter[KC_COUNT_ENTRIES], pass * entries);
  }
  assert_int_equal(c.bed.counter[KC_COUNT_EVENTS], 0);
  for (uint32_t s = 0; s < SLOTS; ++s) assert_int_equal(c.bed.verdict[s], KC_VERDICT_CLEAR);
  paged_bed_free(&c.bed);
}

/* One fault of each kind, in the first, a middle and the last entry. */
static void each_fault_names_its_victim(void **state)
{
  (void)state;
  for (int kind = 0; kind < 5; ++kind) {
    for (uint32_t slot = 0; slot < SLOTS; ++slot) {
      struct check_bed c;
      make(&c, 7);
      const uint32_t last = c.entries[slot] - 1;
      const uint32_t index = slot % 3 == 0 ? 0 : slot % 3 == 1 ? 3 : last;
      struct kc_page_ref *ref = entry_of(&c, slot, index);
      switch (kind) {
        case 0: ref->tag += 1; break;                /* a stale tag */
        case 1: c.bed.tag[ref->page] += 1; break;    /* the page was freed, or freed and reused */
        case 2: ref->page = c.bed.layer.pages; break; /* just out of range */
        case 3: ref->tag = 0; break;                 /* never valid ... */
        default: ref->page = 0xFFFFFFFFu; break;
      }
      if (kind == 3) c.bed.tag[ref->page] = 0;       /* ... not even when the pool says 0 */
      assert_int_equal(check(&c), KC_OP_OK);
      assert_int_equal(c.bed.counter[KC_COUNT_EVENTS], 1);
      for (uint32_t s = 0; s < SLOTS; ++s) {
        assert_int_equal(c.bed.verdict[s], s == slot ? index : KC_VERDICT_CLEAR);
      }
      const struct kc_tag_event *event = &c.bed.ring[0];
      assert_int_equal(event->step, 9);
      assert_int_equal(event->slot, slot);
      assert_int_equal(event->index, index);
      assert_int_equal(event->page, ref->page);
      assert_int_equal(event->want, ref->tag);
      assert_int_equal(event->source, KC_TAG_CHECK);
      const bool inside = ref->page < c.bed.layer.pages;
      assert_int_equal(event->got, inside ? c.bed.tag[ref->page] : 0);
      paged_bed_free(&c.bed);
    }
  }
}

/* Two entries of a row swapped are both right pages: order is not what tags see. Entries of two
 * slots swapped together with their tags are each other's pages with valid tags. What tags do see
 * is one half of a swap: ids without their tags. */
static void swapped_ids_are_seen(void **state)
{
  (void)state;
  struct check_bed c;
  make(&c, 11);
  const uint32_t page = entry_of(&c, 1, 2)->page;
  entry_of(&c, 1, 2)->page = entry_of(&c, 3, 4)->page;
  entry_of(&c, 3, 4)->page = page;
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.verdict[1], 2);
  assert_int_equal(c.bed.verdict[3], 4);
  assert_int_equal(c.bed.counter[KC_COUNT_EVENTS], 2);
  paged_bed_free(&c.bed);
}

/* The verdict is the lowest bad entry, whatever comes later; entries behind the context do not
 * count; a full ring goes on counting. */
static void verdicts_are_the_lowest_and_stick(void **state)
{
  (void)state;
  struct check_bed c;
  make(&c, 13);
  entry_of(&c, 2, c.entries[2])->tag = 0; /* behind the context */
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.verdict[2], KC_VERDICT_CLEAR);
  entry_of(&c, 2, 5)->tag ^= 0x80000000u;
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.verdict[2], 5);
  entry_of(&c, 2, 5)->tag ^= 0x80000000u;
  entry_of(&c, 2, 1)->tag ^= 1u;
  c.bed.integrity.ring_capacity = 1;
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.verdict[2], 1);
  assert_int_equal(c.bed.counter[KC_COUNT_EVENTS], 2);
  assert_int_equal(c.bed.ring[0].index, 5); /* the first event was kept */
  entry_of(&c, 2, 1)->tag ^= 1u;
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.verdict[2], 1); /* only the host clears it */
  c.slot[2] = KC_NO_SLOT;
  const uint64_t before = c.bed.counter[KC_COUNT_ENTRIES];
  assert_int_equal(check(&c), KC_OP_OK);
  assert_int_equal(c.bed.counter[KC_COUNT_ENTRIES] - before,
                   c.entries[0] + c.entries[1] + c.entries[3] + c.entries[4]);
  paged_bed_free(&c.bed);
}

/* ---- writes ---- */

/* A stale pair, an id out of range, a verdict: the page keeps its bytes, the counter says so. */
static void late_writes_are_refused(void **state)
{
  (void)state;
  for (int kind = 0; kind < 3; ++kind) {
    struct check_bed c;
    make(&c, 17);
    assert_int_equal(paged_bed_write(&c.bed, 1, 32, 16), KC_OP_OK);
    assert_int_equal(c.bed.counter[KC_COUNT_WRITES], 16);
    const size_t bytes = c.bed.layer.pages * c.bed.layer.k_page_bytes;
    uint8_t *before = take(bytes);
    memcpy(before, c.bed.layer.k, bytes);
    struct kc_page_ref *ref = entry_of(&c, 1, 2);
    if (kind == 0) c.bed.tag[ref->page] += 1;
    if (kind == 1) ref->page = c.bed.layer.pages;
    if (kind == 2) c.bed.verdict[1] = 6;
    memset(c.bed.k_input, 0x22, 400); /* what would be seen if it were written */
    assert_int_equal(paged_bed_write(&c.bed, 1, 32, 16), KC_OP_OK);
    assert_memory_equal(before, c.bed.layer.k, bytes);
    assert_int_equal(c.bed.counter[KC_COUNT_WRITES], 16);
    assert_int_equal(c.bed.counter[KC_COUNT_WRITES_REFUSED], 16);
    assert_int_equal(c.bed.counter[KC_COUNT_EVENTS], kind == 2 ? 0 : 1); /* once: then a verdict */
    assert_int_equal(c.bed.verdict[1], kind == 2 ? 6 : 2);
    if (kind != 2) assert_int_equal(c.bed.ring[0].source, KC_TAG_WRITE);
    free(before);
    paged_bed_free(&c.bed);
  }
}

/* With integrity off nothing is counted, and an id out of range is still never written. */
static void integrity_off_still_bounds_ids(void **state)
{
  (void)state;
  struct check_bed c;
  make(&c, 19);
  c.bed.integrity = (struct kc_tag_state){0};
  entry_of(&c, 0, 0)->page = c.bed.layer.pages;
  entry_of(&c, 0, 1)->tag ^= 1u;
  const size_t bytes = c.bed.layer.pages * c.bed.layer.k_page_bytes;
  uint8_t *before = take(bytes);
  memcpy(before, c.bed.layer.k, bytes);
  assert_int_equal(paged_bed_write(&c.bed, 0, 0, 16), KC_OP_OK);
  assert_memory_equal(before, c.bed.layer.k, bytes);
  assert_int_equal(paged_bed_write(&c.bed, 0, 16, 1), KC_OP_OK);
  assert_memory_not_equal(before, c.bed.layer.k, bytes);
  free(before);
  paged_bed_free(&c.bed);
}

static void padding_rows_write_nothing(void **state)
{
  (void)state;
  struct check_bed c;
  make(&c, 23);
  const uint32_t slot[2] = {KC_NO_SLOT, 0};
  const int32_t position[2] = {3, -1};
  const struct kc_op_kv_write op = {
      .rows = 2, .k = c.bed.k_input, .k_stride = 32, .v = c.bed.v_input, .v_stride = 32,
      .slot = slot, .position = position, .table = c.bed.table, .layer = c.bed.layer,
      .integrity = c.bed.integrity};
  assert_int_equal(kc_ref_ops()->kv_write(NULL, &op), KC_OP_OK);
  assert_int_equal(c.bed.counter[KC_COUNT_WRITES] + c.bed.counter[KC_COUNT_WRITES_REFUSED], 0);
  paged_bed_free(&c.bed);
}

/* Random tables, random damage: the operation's verdicts are those of a loop that knows what was
 * damaged, with no false alarm. */
static void random_damage_is_found_exactly(void **state)
{
  (void)state;
  uint64_t seed = 29, damaged = 0;
  struct check_bed c;
  make(&c, 29);
  for (int round = 0; round < 3000; ++round) {
    uint32_t want[SLOTS];
    struct kc_page_ref *hit[2] = {NULL, NULL}, kept[2];
    for (uint32_t s = 0; s < SLOTS; ++s) c.bed.verdict[s] = want[s] = KC_VERDICT_CLEAR;
    const uint32_t faults = draw_below(&seed, 3);
    for (uint32_t f = 0; f < faults; ++f) {
      const uint32_t s = draw_below(&seed, SLOTS), e = draw_below(&seed, c.entries[s]);
      hit[f] = entry_of(&c, s, e);
      kept[f] = *hit[f];
      hit[f]->tag = hit[f]->tag + 1 + draw_below(&seed, 1000);
      if (e < want[s]) want[s] = e;
      damaged += 1;
    }
    assert_int_equal(check(&c), KC_OP_OK);
    if (memcmp(want, c.bed.verdict, sizeof want) != 0) fail_msg("round %d", round);
    for (uint32_t f = faults; f-- > 0;) *hit[f] = kept[f];
  }
  assert_true(damaged > 2000);
  paged_bed_free(&c.bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sound_tables_raise_nothing),
      cmocka_unit_test(each_fault_names_its_victim),
      cmocka_unit_test(swapped_ids_are_seen),
      cmocka_unit_test(verdicts_are_the_lowest_and_stick),
      cmocka_unit_test(late_writes_are_refused),
      cmocka_unit_test(integrity_off_still_bounds_ids),
      cmocka_unit_test(padding_rows_write_nothing),
      cmocka_unit_test(random_damage_is_found_exactly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
