/* The emulator itself: every misuse it promises to see is seen, and correct uses pass, in twenty
 * thread orders; fragments are laid out as the PTX ISA says. Kernels here are C functions on the
 * emulator's own interface.
 * timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "emu_support.h"
#include "kernels/formats/bf16.h"

enum { THREADS = 64 };

/* Runs `body` on blocks of 64 threads under each seed; `misuse`, or where the order decides
 * `other`, must be in the message (NULL: there must be none). */
static void expect_either(void (*body)(void *), const char *misuse, const char *other)
{
  for (uint64_t seed = 0; seed < LAB_SEEDS; ++seed) {
    struct kc_emu *emu = kc_emu_create(seed);
    unsigned char memory[256] __attribute__((aligned(16))) = {0};
    const struct kc_emu_dim grid = {2, 1, 1}, block = {THREADS, 1, 1};
    const bool fine = kc_emu_launch(emu, "body", grid, block, 4096, body, memory);
    const char *said = kc_emu_misuse(emu);
    if (misuse == NULL && !fine) fail_msg("seed %llu: %s", (unsigned long long)seed, said);
    const bool told = !fine && misuse != NULL &&
                      (strstr(said, misuse) != NULL || strstr(said, other) != NULL);
    if (misuse != NULL && !told) {
      fail_msg("seed %llu: expected \"%s\", got \"%s\"", (unsigned long long)seed, misuse,
               fine ? "nothing" : said);
    }
    if (misuse != NULL) assert_false(kc_emu_launch(emu, "again", grid, block, 0, body, memory));
    kc_emu_destroy(emu);
  }
}

static void expect(void (*body)(void *), const char *misuse)
{
  expect_either(body, misuse, misuse);
}

static unsigned me(void)
{
  return kc_emu_thread_index().x;
}

static void put(uint32_t *word, uint32_t value)
{
  kc_emu_shared_write(word, sizeof *word, sizeof *word, __LINE__);
  *word = value;
}

static uint32_t get(const uint32_t *word)
{
  kc_emu_shared_read(word, sizeof *word, sizeof *word, __LINE__);
  return *word;
}

static uint32_t *take(void)
{
  return kc_emu_shared_take(THREADS * sizeof(uint32_t), __LINE__);
}

/* ---- misuses ---- */

static void body_fine(void *argument)
{
  uint32_t *word = take();
  put(word + me(), me());
  kc_emu_barrier(__LINE__);
  if (get(word + (me() + 40) % THREADS) != (me() + 40) % THREADS) *(volatile int *)argument = 1;
  kc_emu_barrier(__LINE__);
  put(word + (me() + 1) % THREADS, 0);
}

static void body_no_barrier(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  put(word + me(), me());
  kc_emu_warp(KC_EMU_SYNC_WARP, NULL, 0, NULL, 0, __LINE__);
  (void)get(word + (me() + 32) % THREADS); /* of the other warp */
}

static void body_warp_barrier(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  put(word + me(), me());
  kc_emu_warp(KC_EMU_SYNC_WARP, NULL, 0, NULL, 0, __LINE__);
  (void)get(word + (me() ^ 1)); /* of the same warp */
}

static void body_overwrite(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  put(word + me(), me());
  kc_emu_barrier(__LINE__);
  (void)get(word + me());
  put(word + (me() + 1) % THREADS, 0); /* may be read still */
}

static void body_divergence(void *argument)
{
  (void)argument;
  if (me() < 32) kc_emu_barrier(1);
  else kc_emu_barrier(2);
}

static void body_early_end(void *argument)
{
  (void)argument;
  if (me() == 5) return;
  kc_emu_barrier(__LINE__);
}

static void body_stuck(void *argument)
{
  (void)argument;
  if (me() == 5) kc_emu_barrier(__LINE__);
  else if (me() < 32) kc_emu_warp(KC_EMU_SYNC_WARP, NULL, 0, NULL, 0, __LINE__);
  else kc_emu_barrier(__LINE__ - 2);
}

static void body_lanes_disagree(void *argument)
{
  uint32_t vote = 1, result;
  (void)argument;
  kc_emu_warp(KC_EMU_BALLOT, &vote, sizeof vote, &result, sizeof result, me() % 2 == 0 ? 1 : 2);
}

static void body_out_of_bounds(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  put(word + me() + 1, 0);
}

static void body_unwritten(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  if (me() > 0) put(word + me(), 0);
  kc_emu_barrier(__LINE__);
  (void)get(word + me());
}

static void body_unlike_regions(void *argument)
{
  (void)argument;
  (void)kc_emu_shared_take(me() == 0 ? 64 : 128, __LINE__);
}

static void body_too_much_shared(void *argument)
{
  (void)argument;
  (void)kc_emu_shared_take(4097, __LINE__);
}

static void body_misaligned(void *argument)
{
  uint32_t *word = take();
  (void)argument;
  kc_emu_shared_write(word + 2, 16, 16, __LINE__);
}

static void body_misaligned_global(void *argument)
{
  kc_emu_check_aligned((char *)argument + 8, 16, __LINE__);
}

static void copy_own(const void *from, uint32_t *word)
{
  if (me() < 16) kc_emu_copy(word + 4 * me(), from, 16, 16, __LINE__);
  kc_emu_copy_commit();
}

static void body_copy(void *argument)
{
  uint32_t *word = take();
  copy_own(argument, word);
  kc_emu_copy_wait(0);
  kc_emu_barrier(__LINE__);
  (void)get(word + me());
}

static void body_copy_early(void *argument)
{
  uint32_t *word = take();
  copy_own(argument, word);
  kc_emu_barrier(__LINE__);
  (void)get(word + me());
  kc_emu_copy_wait(0);
}

static void body_copy_group_early(void *argument)
{
  uint32_t *word = take();
  copy_own(argument, word);
  kc_emu_copy_wait(1); /* leaves the only group under way */
  if (me() < 16) (void)get(word + 4 * me());
  kc_emu_copy_wait(0);
}

static void body_copy_no_barrier(void *argument)
{
  uint32_t *word = take();
  copy_own(argument, word);
  kc_emu_copy_wait(0);
  kc_emu_warp(KC_EMU_SYNC_WARP, NULL, 0, NULL, 0, __LINE__);
  (void)get(word + me()); /* waited for by lanes 0 to 15 of warp 0 */
}

static void body_copy_unwaited(void *argument)
{
  copy_own(argument, take());
}

static void body_copy_misaligned(void *argument)
{
  uint32_t *word = take();
  kc_emu_copy(word + 4 * (me() % 16), (char *)argument + 4, 16, 16, __LINE__);
}

static void test_misuse(void **state)
{
  (void)state;
  expect(body_fine, NULL);
  expect_either(body_no_barrier, "race", "nobody wrote");
  expect(body_warp_barrier, NULL);
  expect(body_overwrite, "race");
  expect(body_divergence, "barrier divergence");
  expect(body_early_end, "barrier divergence");
  expect(body_stuck, "stuck");
  expect(body_lanes_disagree, "disagree");
  expect(body_out_of_bounds, "out of bounds");
  expect(body_unwritten, "nobody wrote");
  expect(body_unlike_regions, "shared region");
  expect(body_too_much_shared, "shared region");
  expect(body_misaligned, "misaligned");
  expect(body_misaligned_global, "misaligned");
  expect(body_copy, NULL);
  expect(body_copy_early, "before it was waited for");
  expect(body_copy_group_early, "before it was waited for");
  expect_either(body_copy_no_barrier, "race", "nobody wrote");
  expect(body_copy_unwaited, "under way at the end");
  expect(body_copy_misaligned, "misaligned");
}

/* ---- fragments ---- */

struct mma_test {
  float a[16][16], b[16][8], c[16][8], d[16][8];
  uint32_t ballot, shuffled[KC_EMU_LANES];
};

static uint32_t pair_of(float low, float high)
{
  return kc_bf16_encode(low) | (uint32_t)kc_bf16_encode(high) << 16;
}

/* Written out from the figures of the PTX ISA for m16n8k16, register by register. */
static void body_mma(void *argument)
{
  struct mma_test *test = argument;
  const unsigned g = me() / 4, t = me() % 4;
  struct {
    uint32_t a[4], b[2];
    float c[4];
  } in = {{pair_of(test->a[g][2 * t], test->a[g][2 * t + 1]),
           pair_of(test->a[g + 8][2 * t], test->a[g + 8][2 * t + 1]),
           pair_of(test->a[g][2 * t + 8], test->a[g][2 * t + 9]),
           pair_of(test->a[g + 8][2 * t + 8], test->a[g + 8][2 * t + 9])},
          {pair_of(test->b[2 * t][g], test->b[2 * t + 1][g]),
           pair_of(test->b[2 * t + 8][g], test->b[2 * t + 9][g])},
          {test->c[g][2 * t], test->c[g][2 * t + 1], test->c[g + 8][2 * t],
           test->c[g + 8][2 * t + 1]}};
  float d[4];
  kc_emu_warp(KC_EMU_MMA_BF16, &in, sizeof in, d, sizeof d, __LINE__);
  test->d[g][2 * t] = d[0];
  test->d[g][2 * t + 1] = d[1];
  test->d[g + 8][2 * t] = d[2];
  test->d[g + 8][2 * t + 1] = d[3];
  const uint32_t vote = me() % 3 == 0, from[2] = {1000 + me(), (me() + 7) % 32};
  kc_emu_warp(KC_EMU_BALLOT, &vote, sizeof vote, &test->ballot, sizeof vote, __LINE__);
  kc_emu_warp(KC_EMU_SHUFFLE, from, sizeof from, &test->shuffled[me()], sizeof vote, __LINE__);
}

static void test_fragments(void **state)
{
  (void)state;
  static const struct kc_emu_dim grid = {1, 1, 1}, block = {32, 1, 1};
  for (uint64_t seed = 0; seed < LAB_SEEDS; ++seed) {
    struct lab lab;
    struct mma_test test;
    lab_begin(&lab, seed);
    for (int i = 0; i < 256; ++i) test.a[i / 16][i % 16] = (float)lab_below(&lab, 17) - 8;
    for (int i = 0; i < 128; ++i) test.b[i / 8][i % 8] = (float)lab_below(&lab, 17) - 8;
    for (int i = 0; i < 128; ++i) test.c[i / 8][i % 8] = (float)lab_below(&lab, 99);
    assert_true(kc_emu_launch(lab.context, "mma", grid, block, 0, body_mma, &test));
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        float sum = test.c[i][j]; /* small integers: exact */
        for (int k = 0; k < 16; ++k) sum += test.a[i][k] * test.b[k][j];
        assert_true(test.d[i][j] == sum);
      }
    }
    assert_int_equal(test.ballot, 0x49249249);
    for (unsigned i = 0; i < 32; ++i) assert_int_equal(test.shuffled[i], 1000 + (i + 7) % 32);
    lab_end(&lab);
  }
}

/* Four matrices of 8 x 8 halves, numbered through; lane l must get halves 2 (l % 4) and the next of
 * row l / 4 of each, or of column l / 4 when transposed. */
static void load_matrices(enum kc_emu_operation operation, unsigned *wrong)
{
  uint16_t *half = kc_emu_shared_take(4 * 64 * sizeof *half, __LINE__);
  for (unsigned i = me(); i < 256; i += KC_EMU_LANES) {
    kc_emu_shared_write(half + i, 2, 2, __LINE__);
    half[i] = (uint16_t)i;
  }
  kc_emu_barrier(__LINE__);
  const struct {
    const void *row;
    uint64_t count;
  } in = {half + 8 * me(), 4};
  uint32_t got[4];
  kc_emu_warp(operation, &in, sizeof in, got, sizeof got, __LINE__);
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const unsigned row = me() / 4, column = 2 * (me() % 4), first = 64 * matrix;
    const bool turned = operation == KC_EMU_LDMATRIX_TRANSPOSED;
    const unsigned low = turned ? 8 * column + row : 8 * row + column;
    const unsigned high = turned ? 8 * (column + 1) + row : 8 * row + column + 1;
    *wrong += got[matrix] != ((first + low) | (first + high) << 16);
  }
}

static void body_ldmatrix(void *argument)
{
  load_matrices(KC_EMU_LDMATRIX, argument);
}

static void body_ldmatrix_transposed(void *argument)
{
  load_matrices(KC_EMU_LDMATRIX_TRANSPOSED, argument);
}

static void test_ldmatrix(void **state)
{
  (void)state;
  static const struct kc_emu_dim grid = {1, 1, 1}, block = {32, 1, 1};
  for (uint64_t seed = 0; seed < LAB_SEEDS; ++seed) {
    struct kc_emu *emu = kc_emu_create(seed);
    unsigned wrong = 0;
    assert_true(kc_emu_launch(emu, "ldmatrix", grid, block, 512, body_ldmatrix, &wrong));
    assert_true(
        kc_emu_launch(emu, "ldmatrix.trans", grid, block, 512, body_ldmatrix_transposed, &wrong));
    assert_int_equal(wrong, 0);
    kc_emu_destroy(emu);
  }
}

/* ---- order ---- */

struct order {
  unsigned count, thread[THREADS];
};

static void body_order(void *argument)
{
  struct order *order = argument;
  if (kc_emu_block_index().x == 0) order->thread[order->count++] = me();
}

/* Seeds give orders of their own, and the same one again. */
static void test_order(void **state)
{
  (void)state;
  static const struct kc_emu_dim grid = {2, 1, 1}, block = {THREADS, 1, 1};
  struct order order[3];
  static const uint64_t seeds[3] = {4, 4, 5};
  for (int i = 0; i < 3; ++i) {
    struct kc_emu *emu = kc_emu_create(seeds[i]);
    memset(&order[i], 0, sizeof order[i]);
    assert_true(kc_emu_launch(emu, "order", grid, block, 0, body_order, &order[i]));
    assert_int_equal(order[i].count, THREADS);
    kc_emu_destroy(emu);
  }
  assert_memory_equal(&order[0], &order[1], sizeof order[0]);
  assert_memory_not_equal(&order[0], &order[2], sizeof order[0]);
}

/* What a driver refuses is refused. */
static void test_launch(void **state)
{
  (void)state;
  static const struct {
    struct kc_emu_dim grid, block;
    size_t shared;
  } bad[] = {{{0, 1, 1}, {32, 1, 1}, 0},
             {{1, 70000, 1}, {32, 1, 1}, 0},
             {{1, 1, 1}, {33, 1, 1}, 0},
             {{1, 1, 1}, {2048, 1, 1}, 0},
             {{1, 1, 1}, {32, 1, 1}, 228 * 1024}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    struct kc_emu *emu = kc_emu_create(1);
    assert_false(
        kc_emu_launch(emu, "x", bad[i].grid, bad[i].block, bad[i].shared, body_order, NULL));
    assert_non_null(kc_emu_misuse(emu));
    kc_emu_destroy(emu);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_fragments),
      cmocka_unit_test(test_ldmatrix),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_launch),
  };
  return cmocka_run_group_tests_name("the emulator", tests, NULL, NULL);
}
