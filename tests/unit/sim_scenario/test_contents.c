/* Page keys of prompts: against hand-worked rows, and against the definition itself, which compares
 * what two rows hold token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/scenario/contents.h"

enum { ROWS = 24, BLOCKS_MAX = 12 };

static uint32_t key_at(const struct kc_contents *contents, uint64_t row, uint32_t page)
{
  struct kc_key_walk walk = kc_key_walk_begin(&contents->row[row]);
  kc_key_walk_skip(&walk, page);
  return kc_key_walk_next(&walk);
}

static uint32_t pages_in(const struct kc_contents *contents, uint64_t row)
{
  struct kc_key_walk walk = kc_key_walk_begin(&contents->row[row]);
  uint32_t pages = 0;
  while (kc_key_walk_next(&walk) != KC_KEY_NONE) pages++;
  return pages;
}

/* A trace of `count` rows in the caller's arrays. */
struct made {
  struct kc_trace trace;
  struct kc_trace_row row[ROWS];
  uint64_t first[ROWS];
  uint32_t blocks[ROWS];
  uint32_t block[ROWS * BLOCKS_MAX];
  uint32_t session[ROWS];
  uint8_t flags[ROWS];
};

static void with_ids(struct made *m, uint32_t rows, uint32_t block_tokens)
{
  m->trace.row = m->row;
  m->trace.count = rows;
  m->trace.prefix_ids = true;
  m->trace.column.block_first = m->first;
  m->trace.column.block_count = m->blocks;
  m->trace.block = m->block;
  m->trace.block_tokens = block_tokens;
}

/* Blocks of 8 tokens, pages of 4. Row 0: 20 tokens = a, b, c (c half full). Row 1: 24 tokens a, b,
 * d. Row 2: 8 tokens a. By hand: pages of a are 0, 1; of b 2, 3; of c 4 (5 is kept for its other
 * half, which no row has); then row 0's output of 5 tokens ends page 5 (25 / 4 = 6 pages). */
static void ids_by_hand(void **state)
{
  (void)state;
  struct made m = {0};
  with_ids(&m, 3, 8);
  const uint32_t block[] = {0, 1, 2, 0, 1, 3, 0};
  memcpy(m.block, block, sizeof block);
  m.row[0] = (struct kc_trace_row){0, 20, 5};
  m.row[1] = (struct kc_trace_row){1, 24, 1};
  m.row[2] = (struct kc_trace_row){2, 8, 9};
  m.first[1] = 3, m.first[2] = 6;
  m.blocks[0] = 3, m.blocks[1] = 3, m.blocks[2] = 1;
  struct kc_contents c;
  struct kc_diag diag;
  assert_int_equal(kc_contents_from_trace(&c, &m.trace, 4, NULL, &diag), KC_OK);
  assert_int_equal(c.source, KC_CONTENT_IDS);
  assert_int_equal(pages_in(&c, 0), 6);
  assert_int_equal(pages_in(&c, 1), 6);
  assert_int_equal(pages_in(&c, 2), 4);
  for (uint32_t page = 0; page < 4; page++) {
    assert_int_equal(key_at(&c, 0, page), page);
    assert_int_equal(key_at(&c, 1, page), page);
  }
  assert_int_equal(key_at(&c, 0, 4), 4);
  assert_int_not_equal(key_at(&c, 0, 5), key_at(&c, 1, 5));
  assert_int_not_equal(key_at(&c, 1, 4), 4);
  assert_int_equal(key_at(&c, 2, 1), 1);
  assert_int_not_equal(key_at(&c, 2, 2), 2);
  /* Two tenants: row 1 shares with nobody, row 2 still with row 0. */
  const uint32_t salt[] = {7, 9, 7};
  kc_contents_free(&c);
  assert_int_equal(kc_contents_from_trace(&c, &m.trace, 4, salt, &diag), KC_OK);
  assert_int_not_equal(key_at(&c, 0, 0), key_at(&c, 1, 0));
  assert_int_equal(key_at(&c, 0, 1), key_at(&c, 2, 1));
  kc_contents_free(&c);
}

/* Do rows a and b hold the same tokens up to the end of this page, as far as ids tell? */
static bool same_up_to(const struct made *m, uint32_t a, uint32_t b, uint64_t tokens,
                       const uint32_t *salt)
{
  if (a == b) return true;
  if (salt[a] != salt[b]) return false;
  for (uint64_t t = 0; t < tokens; t++) {
    const uint64_t j = t / m->trace.block_tokens;
    if (t >= m->row[a].input_tokens || t >= m->row[b].input_tokens) return false;
    if (j >= m->blocks[a] || j >= m->blocks[b]) return false;
    if (m->block[m->first[a] + j] != m->block[m->first[b] + j]) return false;
  }
  return true;
}

static void draw_rows(struct made *m, struct kc_random *random, uint32_t *salt)
{
  static const uint32_t sizes[] = {1, 3, 4, 8, 16};
  with_ids(m, ROWS, sizes[kc_random_below(random, 5)]);
  uint32_t next = 0, used = 0;
  const uint32_t T = m->trace.block_tokens;
  for (uint32_t i = 0; i < ROWS; i++) {
    const uint32_t blocks = 1 + (uint32_t)kc_random_below(random, BLOCKS_MAX);
    const uint32_t like = i == 0 ? 0 : (uint32_t)kc_random_below(random, i);
    uint32_t shared = i == 0 ? 0 : (uint32_t)kc_random_below(random, m->blocks[like] + 1);
    if (shared > blocks) shared = blocks;
    m->first[i] = used;
    m->blocks[i] = blocks;
    for (uint32_t j = 0; j < blocks; j++) {
      m->block[used + j] = j < shared ? m->block[m->first[like] + j] : next++;
    }
    used += blocks;
    /* ids that end within the last block (ceil) or leave a tail without (floor) */
    const uint64_t spread = kc_random_below(random, 2 * (uint64_t)T);
    m->row[i] = (struct kc_trace_row){i, (uint32_t)((blocks - 1) * T + 1 + spread),
                                      1 + (uint32_t)kc_random_below(random, 40)};
    salt[i] = (uint32_t)kc_random_below(random, 2);
  }
}

static void ids_by_definition(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < 400; seed++) {
    struct kc_random random;
    kc_random_init(&random, seed, "contents", 0);
    struct made m = {0};
    uint32_t salt[ROWS];
    draw_rows(&m, &random, salt);
    const uint32_t page = 1 + (uint32_t)kc_random_below(&random, 20);
    struct kc_contents c;
    struct kc_diag diag;
    assert_int_equal(kc_contents_from_trace(&c, &m.trace, page, salt, &diag), KC_OK);
    for (uint32_t a = 0; a < ROWS; a++) {
      assert_int_equal(pages_in(&c, a), (m.row[a].input_tokens + m.row[a].output_tokens) / page);
      for (uint32_t b = 0; b < a; b++) {
        for (uint32_t i = 0; i < pages_in(&c, a) && i < pages_in(&c, b); i++) {
          const bool same = key_at(&c, a, i) == key_at(&c, b, i);
          /* A block id also says what follows within the block, so a page that ends inside a block
           * can be the same although the ids differ; we never claim that it is. */
          const uint64_t end = (uint64_t)(i + 1) * page;
          if (same != same_up_to(&m, a, b, end, salt)) {
            fail_msg("seed %llu rows %u %u page %u: keys say %d", (unsigned long long)seed, a, b,
                     i, same);
          }
        }
      }
    }
    kc_contents_free(&c);
  }
}

/* Pages of 4. Turn 0: 10 + 6 = 16 tokens, 4 pages. Turn 1: 20 tokens: all 16 shared. Turn 2
 * compacted: nothing. Turn 3: as long as turn 2's prompt but shorter than with its output: the
 * prompt alone (8 tokens, 2 pages). Row 4: another session. */
static void sessions_by_hand(void **state)
{
  (void)state;
  struct made m = {0};
  m.trace.row = m.row;
  m.trace.count = 5;
  m.trace.column.session = m.session;
  m.trace.column.flags = m.flags;
  m.trace.session_count = 2;
  m.row[0] = (struct kc_trace_row){0, 10, 6};
  m.row[1] = (struct kc_trace_row){1, 20, 4};
  m.row[2] = (struct kc_trace_row){2, 8, 8};
  m.row[3] = (struct kc_trace_row){3, 12, 4};
  m.row[4] = (struct kc_trace_row){4, 20, 4};
  m.flags[2] = KC_ROW_COMPACTED;
  m.session[4] = 1;
  struct kc_contents c;
  struct kc_diag diag;
  assert_int_equal(kc_contents_from_trace(&c, &m.trace, 4, NULL, &diag), KC_OK);
  assert_int_equal(c.source, KC_CONTENT_SESSIONS);
  for (uint32_t page = 0; page < 4; page++) {
    assert_int_equal(key_at(&c, 0, page), key_at(&c, 1, page));
  }
  assert_int_not_equal(key_at(&c, 2, 0), key_at(&c, 1, 0));
  assert_int_equal(key_at(&c, 3, 1), key_at(&c, 2, 1));
  assert_int_not_equal(key_at(&c, 3, 2), key_at(&c, 2, 2));
  assert_int_not_equal(key_at(&c, 4, 0), key_at(&c, 0, 0));
  kc_contents_free(&c);
}

static void closed_prefix(void **state)
{
  (void)state;
  struct kc_contents c;
  struct kc_diag diag;
  const uint32_t salt[] = {0, 1, 0};
  assert_int_equal(kc_contents_closed(&c, 3, 100, 35, 16, salt, &diag), KC_OK);
  assert_int_equal(pages_in(&c, 0), 6);
  assert_int_equal(key_at(&c, 0, 1), key_at(&c, 2, 1)); /* 32 of the 35 tokens are whole pages */
  assert_int_not_equal(key_at(&c, 0, 2), key_at(&c, 2, 2));
  assert_int_not_equal(key_at(&c, 0, 0), key_at(&c, 1, 0));
  kc_contents_free(&c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_by_hand), cmocka_unit_test(ids_by_definition),
      cmocka_unit_test(sessions_by_hand), cmocka_unit_test(closed_prefix)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
