/* See naive_pool.h. Every rule of the pool's header in one place each, by linear scan. */
#include "tests/prop/engine_kv/naive_pool.h"

#include <string.h>

void naive_init(struct naive_pool *naive, uint32_t page_count, uint32_t tag_bits,
                const uint64_t *first_generation)
{
  memset(naive, 0, sizeof *naive);
  naive->page_count = page_count;
  naive->tag_count = (UINT64_C(1) << tag_bits) - 1;
  naive->clock = page_count;
  for (uint32_t id = 0; id < page_count; id++) {
    naive->page[id].generation = first_generation[id];
    naive->page[id].freed_at = page_count - id; /* page 0 was freed last */
  }
}

uint32_t naive_tag(const struct naive_pool *naive, uint64_t generation)
{
  return (uint32_t)(1 + (generation - 1) % naive->tag_count);
}

uint32_t naive_count(const struct naive_pool *naive, enum kc_page_state state)
{
  uint32_t count = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) count += naive->page[id].state == state;
  return count;
}

uint32_t naive_count_shared(const struct naive_pool *naive, bool idle_only)
{
  uint32_t count = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) {
    const struct naive_page *page = &naive->page[id];
    count += page->owner == KC_OWNER_SHARED && (!idle_only || page->refs == 0);
  }
  return count;
}

uint64_t naive_refs(const struct naive_pool *naive, uint64_t *weights)
{
  uint64_t refs = 0;
  *weights = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) {
    const struct naive_page *page = &naive->page[id];
    if (page->owner != KC_OWNER_SHARED) continue;
    const uint64_t tag = naive_tag(naive, page->generation);
    refs += page->refs;
    for (uint32_t i = 0; i < page->refs; i++) *weights += (tag << 32) + id;
  }
  return refs;
}

uint64_t naive_generation_sum(const struct naive_pool *naive)
{
  uint64_t sum = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) sum += naive->page[id].generation;
  return sum;
}

uint32_t naive_find(const struct naive_pool *naive, enum kc_page_state state, uint32_t start)
{
  for (uint32_t i = 0; i < naive->page_count; i++) {
    const uint32_t id = (start + i) % naive->page_count;
    if (naive->page[id].state == state) return id;
  }
  return KC_PAGE_NONE;
}

uint32_t naive_stack_position(const struct naive_pool *naive, uint32_t id)
{
  uint32_t before = 0;
  for (uint32_t other = 0; other < naive->page_count; other++) {
    const struct naive_page *page = &naive->page[other];
    before += page->state == KC_PAGE_FREE && page->freed_at < naive->page[id].freed_at;
  }
  return before;
}

static uint32_t latest_free(const struct naive_pool *naive)
{
  uint32_t latest = KC_PAGE_NONE;
  uint64_t freed_at = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) {
    if (naive->page[id].state != KC_PAGE_FREE || naive->page[id].freed_at < freed_at) continue;
    latest = id;
    freed_at = naive->page[id].freed_at;
  }
  return latest;
}

static void make_live(struct naive_pool *naive, uint32_t id, uint32_t owner, uint32_t index,
                      struct kc_page *out)
{
  struct naive_page *page = &naive->page[id];
  page->state = KC_PAGE_LIVE;
  page->owner = owner;
  page->index = index;
  page->generation++;
  naive->allocations++;
  *out = (struct kc_page){id, naive_tag(naive, page->generation)};
}

bool naive_alloc(struct naive_pool *naive, uint32_t count, uint32_t owner, uint32_t first,
                 struct kc_page *out)
{
  if (count > naive_count(naive, KC_PAGE_FREE)) return false;
  for (uint32_t i = 0; i < count; i++) {
    make_live(naive, latest_free(naive), owner, first + i, &out[i]);
  }
  return true;
}

/* The free page that was freed last gets the age of the one that goes, whose place it takes. */
bool naive_take(struct naive_pool *naive, uint32_t id, uint32_t owner, uint32_t index,
                struct kc_page *out)
{
  if (naive->page[id].state != KC_PAGE_FREE) return false;
  naive->page[latest_free(naive)].freed_at = naive->page[id].freed_at;
  make_live(naive, id, owner, index, out);
  return true;
}

static void make_free(struct naive_pool *naive, uint32_t id, uint64_t bump)
{
  struct naive_page *page = &naive->page[id];
  page->state = KC_PAGE_FREE;
  page->owner = 0;
  page->generation += bump;
  page->freed_at = ++naive->clock;
}

/* A live page of `owner` with this tag? `when_free` is the answer for a page that is free. A shared
 * page has the owner KC_OWNER_SHARED and no index. */
static enum kc_err live_fault(const struct naive_pool *naive, struct kc_page page, uint32_t owner,
                              uint32_t index, enum kc_err when_free)
{
  if (page.id >= naive->page_count) return KC_ERR_TAG_RANGE;
  const struct naive_page *truth = &naive->page[page.id];
  if (truth->state == KC_PAGE_FREE) return when_free;
  if (page.tag != naive_tag(naive, truth->generation)) return KC_ERR_TAG_STALE;
  if (truth->state == KC_PAGE_QUARANTINE) return KC_ERR_TAG_STALE;
  if (truth->owner != owner) return KC_ERR_TAG_OWNER;
  return owner == KC_OWNER_SHARED || truth->index == index ? KC_OK : KC_ERR_TAG_OWNER;
}

enum kc_err naive_check(const struct naive_pool *naive, struct kc_page page, uint32_t owner,
                        uint32_t index)
{
  const enum kc_err err = live_fault(naive, page, owner, index, KC_ERR_TAG_STALE);
  if (err != KC_OK || owner != KC_OWNER_SHARED) return err;
  return naive->page[page.id].refs > 0 ? KC_OK : KC_ERR_TAG_OWNER;
}

enum kc_err naive_free(struct naive_pool *naive, const struct kc_page *pages, uint32_t count,
                       uint32_t owner, uint32_t first, uint32_t *freed)
{
  for (*freed = 0; *freed < count; ++*freed) {
    const uint32_t i = count - 1 - *freed;
    const enum kc_err err = live_fault(naive, pages[i], owner, first + i, KC_ERR_DOUBLE_FREE);
    if (err != KC_OK) return err;
    make_free(naive, pages[i].id, 1);
    naive->frees++;
  }
  return KC_OK;
}

enum kc_err naive_share(struct naive_pool *naive, struct kc_page page, uint32_t owner,
                        uint32_t index)
{
  const enum kc_err err = live_fault(naive, page, owner, index, KC_ERR_TAG_STALE);
  if (err != KC_OK) return err;
  naive->page[page.id].owner = KC_OWNER_SHARED;
  naive->page[page.id].refs = 1;
  return KC_OK;
}

enum kc_err naive_ref(struct naive_pool *naive, struct kc_page page)
{
  const enum kc_err err = live_fault(naive, page, KC_OWNER_SHARED, 0, KC_ERR_TAG_STALE);
  if (err == KC_OK) naive->page[page.id].refs++;
  return err;
}

enum kc_err naive_unref(struct naive_pool *naive, struct kc_page page)
{
  const enum kc_err err = live_fault(naive, page, KC_OWNER_SHARED, 0, KC_ERR_DOUBLE_FREE);
  if (err != KC_OK) return err;
  if (naive->page[page.id].refs == 0) return KC_ERR_DOUBLE_FREE;
  naive->page[page.id].refs--;
  return KC_OK;
}

enum kc_err naive_drop(struct naive_pool *naive, struct kc_page page)
{
  const enum kc_err err = live_fault(naive, page, KC_OWNER_SHARED, 0, KC_ERR_DOUBLE_FREE);
  if (err != KC_OK) return err;
  if (naive->page[page.id].refs > 0) return KC_ERR_TAG_OWNER;
  make_free(naive, page.id, 1);
  naive->frees++;
  return KC_OK;
}

enum kc_err naive_quarantine(struct naive_pool *naive, struct kc_page page, uint32_t owner,
                             uint32_t index, struct kc_page *quarantined)
{
  const enum kc_err err = live_fault(naive, page, owner, index, KC_ERR_TAG_STALE);
  if (err != KC_OK) return err;
  naive->page[page.id].state = KC_PAGE_QUARANTINE;
  naive->page[page.id].generation++;
  naive->frees++;
  *quarantined = (struct kc_page){page.id, naive_tag(naive, naive->page[page.id].generation)};
  return KC_OK;
}

enum kc_err naive_release(struct naive_pool *naive, struct kc_page page)
{
  if (page.id >= naive->page_count) return KC_ERR_TAG_RANGE;
  const struct naive_page *truth = &naive->page[page.id];
  if (truth->state == KC_PAGE_FREE) return KC_ERR_DOUBLE_FREE;
  if (page.tag != naive_tag(naive, truth->generation)) return KC_ERR_TAG_STALE;
  if (truth->state == KC_PAGE_LIVE) return KC_ERR_TAG_OWNER;
  make_free(naive, page.id, 2);
  return KC_OK;
}
