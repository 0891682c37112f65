/* The heap against a naive twin: a flat array searched from end to end. */
#include "engine/base/heap.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/base/random.h"
#include "tests/unit/engine_base/expect_abort.h"

enum { CAPACITY_MAX = 200, SEEDS = 40, STEPS_PER_SEED = 25000 }; /* 10^6 operations in all */

struct naive_heap {
  bool present[CAPACITY_MAX];
  int64_t key[CAPACITY_MAX];
  uint32_t count;
};

/* The smallest key; ties to the smaller item, because a later equal key does not replace. */
static uint32_t naive_top(const struct naive_heap *naive)
{
  uint32_t best = KC_HEAP_ABSENT;
  for (uint32_t item = 0; item < CAPACITY_MAX; item++) {
    if (!naive->present[item]) continue;
    if (best == KC_HEAP_ABSENT || naive->key[item] < naive->key[best]) best = item;
  }
  return best;
}

static void init_heap(struct kc_heap *heap, struct kc_arena *arena, uint32_t capacity)
{
  assert_int_equal(kc_arena_init(arena, kc_heap_need(capacity) + 1, NULL), KC_OK);
  assert_int_equal(kc_heap_init(heap, capacity, arena), KC_OK);
  assert_int_equal(arena->used_bytes, kc_heap_need(capacity));
}

/* What one seed draws once: how large, how often equal keys, how the three operations are mixed. */
struct mix {
  uint32_t capacity;
  uint64_t key_range;
  uint64_t push_weight, pop_weight, remove_weight;
};

static struct mix draw_mix(uint64_t *draws)
{
  static const uint32_t capacities[] = {1, 2, 3, 7, 64, CAPACITY_MAX};
  static const uint64_t ranges[] = {1, 3, 1000, UINT64_MAX};
  return (struct mix){
      .capacity = capacities[kc_splitmix64(draws) % 6],
      .key_range = ranges[kc_splitmix64(draws) % 4],
      .push_weight = 1 + kc_splitmix64(draws) % 8,
      .pop_weight = kc_splitmix64(draws) % 8,
      .remove_weight = kc_splitmix64(draws) % 8,
  };
}

static void push_both(struct kc_heap *heap, struct naive_heap *naive, int64_t key, uint32_t item)
{
  kc_heap_push(heap, key, item);
  naive->present[item] = true;
  naive->key[item] = key;
  naive->count++;
}

static void remove_both(struct kc_heap *heap, struct naive_heap *naive, uint32_t item)
{
  kc_heap_remove(heap, item);
  naive->present[item] = false;
  naive->count--;
}

static void random_step(struct kc_heap *heap, struct naive_heap *naive, const struct mix *mix,
                        uint64_t *draws)
{
  const uint32_t item = (uint32_t)(kc_splitmix64(draws) % mix->capacity);
  const uint64_t weights = mix->push_weight + mix->pop_weight + mix->remove_weight;
  const uint64_t choice = kc_splitmix64(draws) % weights;
  const int64_t key = (int64_t)(kc_splitmix64(draws) % mix->key_range) - 1;
  if (choice < mix->push_weight) {
    if (!naive->present[item]) push_both(heap, naive, key, item);
  } else if (choice < mix->push_weight + mix->pop_weight) {
    if (heap->count > 0) remove_both(heap, naive, heap->entry[0].item);
  } else if (naive->present[item]) {
    remove_both(heap, naive, item);
  }
}

static bool agree(const struct kc_heap *heap, const struct naive_heap *naive, uint32_t item)
{
  const uint32_t top = naive_top(naive);
  const bool empty = top == KC_HEAP_ABSENT;
  if (heap->count != naive->count || kc_heap_has(heap, item) != naive->present[item]) return false;
  if (kc_heap_top_key(heap) != (empty ? INT64_MAX : naive->key[top])) return false;
  return empty || heap->entry[0].item == top;
}

static void run_seed(uint64_t seed)
{
  uint64_t draws = seed;
  const struct mix mix = draw_mix(&draws);
  struct kc_heap heap;
  struct kc_arena arena;
  struct naive_heap naive = {0};
  init_heap(&heap, &arena, mix.capacity);
  for (unsigned step = 0; step < STEPS_PER_SEED; step++) {
    random_step(&heap, &naive, &mix, &draws);
    const bool valid = step % 16 != 0 || kc_heap_valid(&heap);
    if (!valid || !agree(&heap, &naive, step % mix.capacity)) {
      fail_msg("seed=%" PRIu64 " step=%u: valid %d, count %u against %u", seed, step, valid,
               heap.count, naive.count);
    }
  }
  while (heap.count > 0) { /* the order of departure is the order of (key, item) */
    if (!agree(&heap, &naive, 0)) fail_msg("seed=%" PRIu64 " draining at %u", seed, heap.count);
    remove_both(&heap, &naive, naive_top(&naive));
  }
  assert_int_equal(kc_heap_top_key(&heap), INT64_MAX);
  kc_arena_deinit(&arena);
}

static void a_million_operations_agree_with_the_twin(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) run_seed(seed);
}

static void equal_keys_leave_by_item_number(void **state)
{
  (void)state;
  static const uint32_t order[] = {4, 0, 3, 1, 2};
  struct kc_heap heap;
  struct kc_arena arena;
  init_heap(&heap, &arena, 5);
  for (uint32_t i = 0; i < 5; i++) kc_heap_push(&heap, -7, order[i]);
  for (uint32_t item = 0; item < 5; item++) {
    assert_int_equal(heap.entry[0].item, item);
    kc_heap_remove(&heap, item);
  }
  kc_arena_deinit(&arena);
}

static void extreme_keys_are_keys(void **state)
{
  (void)state;
  struct kc_heap heap;
  struct kc_arena arena;
  init_heap(&heap, &arena, 3);
  kc_heap_push(&heap, INT64_MAX, 0);
  kc_heap_push(&heap, INT64_MIN, 1);
  kc_heap_push(&heap, 0, 2);
  assert_true(kc_heap_top_key(&heap) == INT64_MIN);
  kc_heap_remove(&heap, 1);
  assert_true(kc_heap_top_key(&heap) == 0);
  kc_heap_remove(&heap, 2);
  assert_int_equal(heap.count, 1);
  assert_true(kc_heap_top_key(&heap) == INT64_MAX);
  kc_arena_deinit(&arena);
}

static void valid_sees_each_kind_of_damage(void **state)
{
  (void)state;
  struct kc_heap heap;
  struct kc_arena arena;
  init_heap(&heap, &arena, 4);
  for (uint32_t item = 0; item < 3; item++) kc_heap_push(&heap, item, item);
  assert_true(kc_heap_valid(&heap));
  heap.entry[0].key = 5; /* parent above child */
  assert_false(kc_heap_valid(&heap));
  heap.entry[0].key = 0;
  heap.position[1] = 2; /* index disagrees */
  assert_false(kc_heap_valid(&heap));
  heap.position[1] = 1;
  heap.position[3] = 0; /* absent item claims a place */
  assert_false(kc_heap_valid(&heap));
  heap.position[3] = KC_HEAP_ABSENT;
  heap.entry[2].item = 9; /* item out of range */
  assert_false(kc_heap_valid(&heap));
  heap.entry[2].item = 2;
  heap.count = 5; /* more than there is room for */
  assert_false(kc_heap_valid(&heap));
  heap.count = 3;
  assert_true(kc_heap_valid(&heap));
  kc_arena_deinit(&arena);
}

static void a_small_arena_is_a_memory_error(void **state)
{
  (void)state;
  struct kc_heap heap;
  struct kc_arena arena;
  assert_int_equal(kc_arena_init(&arena, kc_heap_need(1000) - 64, NULL), KC_OK);
  assert_int_equal(kc_heap_init(&heap, 1000, &arena), KC_ERR_MEMORY);
  kc_arena_deinit(&arena);
}

static void push_twice(void *context)
{
  kc_heap_push(context, 1, 0);
  kc_heap_push(context, 2, 0);
}

static void remove_absent(void *context) { kc_heap_remove(context, 1); }

static void push_out_of_range(void *context) { kc_heap_push(context, 1, 2); }

static void misuse_is_stopped(void **state)
{
  (void)state;
  struct kc_heap heap;
  struct kc_arena arena;
  init_heap(&heap, &arena, 2);
  expect_abort(push_twice, &heap, "!kc_heap_has");
  expect_abort(remove_absent, &heap, "kc_heap_has");
  expect_abort(push_out_of_range, &heap, "item < heap->capacity");
  kc_arena_deinit(&arena);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_million_operations_agree_with_the_twin),
      cmocka_unit_test(equal_keys_leave_by_item_number),
      cmocka_unit_test(extreme_keys_are_keys),
      cmocka_unit_test(valid_sees_each_kind_of_damage),
      cmocka_unit_test(a_small_arena_is_a_memory_error),
      cmocka_unit_test(misuse_is_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
