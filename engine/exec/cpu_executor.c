/* The CPU executor: see the header for the way of a step.
 *
 *   slot     list in join order: what runs, how far, what it has produced
 *   work     pieces of this step, in batch order: decodes of one row, chunks of many
 *   fill     per page: how many tokens are in it, and who writes it in this step
 *   wave     work that needs nothing of what later waves write; most steps have one
 *   task     runs of work items of a wave of about equal cost; a member of the team takes one at a
 *            time and passes it through the model in blocks of block_rows rows
 *
 * A long chunk is one task and goes through in several blocks, one after another: the same as if
 * the scheduler had cut it there. Results do not depend on tasks, threads or blocks, because a
 * row's result depends on its own sequence alone.
 */
#include "engine/exec/cpu_executor.h"

#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/kv/content.h"
#include "kernels/formats/counter.h"
#include "kernels/ref/ref.h"

enum { NONE = UINT32_MAX, BLOCK_ROWS = 64, BLOCK_ROWS_MAX = 256 };

struct kc_cpu_work {
  struct kc_piece piece;
  uint32_t wave;
};

/* Tags tell a page from what it was before it was handed on. */
struct kc_cpu_fill {
  uint32_t tag;          /* of the page when it was written */
  uint32_t tokens;       /* [0, page_tokens]: with KV */
  uint64_t step;         /* in which it is written by a chunk, */
  uint32_t wave;         /* in that wave, */
  uint32_t writer_tag;   /* by a row with that tag, */
  uint32_t tokens_after; /* up to so many tokens */
};

static int32_t synthetic_token(void *context, uint32_t request, uint32_t position)
{
  const struct kc_synthetic_prompts *prompts = context;
  KC_ASSERT(prompts->vocabulary > 0);
  const uint64_t draw = kc_counter_u64(prompts->seed, request, position);
  return (int32_t)((draw >> 32) * prompts->vocabulary >> 32);
}

struct kc_prompts kc_prompts_synthetic(struct kc_synthetic_prompts *prompts)
{
  KC_ASSERT(prompts != NULL);
  return (struct kc_prompts){.context = prompts, .token = synthetic_token};
}

/* Key of page `page`, KC_KEY_NONE behind the last one. O(runs). */
static uint32_t key_at(const struct kc_request *request, uint32_t page)
{
  const struct kc_content content = {.run = request->run, .run_count = request->run_count};
  struct kc_key_walk walk = kc_key_walk_begin(&content);
  kc_key_walk_skip(&walk, page);
  return kc_key_walk_next(&walk);
}

static int32_t content_token(void *context, uint32_t request, uint32_t position)
{
  const struct kc_content_prompts *prompts = context;
  const uint32_t page = position / prompts->page_tokens, offset = position % prompts->page_tokens;
  const uint32_t key = key_at(&prompts->requests[request], page);
  const uint64_t stream = UINT64_C(1) << 32 | key; /* requests are below that */
  KC_ASSERT(prompts->vocabulary > 0);
  const uint64_t draw = key == KC_KEY_NONE ? kc_counter_u64(prompts->seed, request, position)
                                           : kc_counter_u64(prompts->seed, stream, offset);
  return (int32_t)((draw >> 32) * prompts->vocabulary >> 32);
}

struct kc_prompts kc_prompts_of_contents(struct kc_content_prompts *prompts)
{
  KC_ASSERT(prompts != NULL && prompts->page_tokens > 0);
  return (struct kc_prompts){.context = prompts, .token = content_token, .whole = true};
}

/* ---- set-up ---- */

static uint32_t block_rows_of(const struct kc_cpu_config *config)
{
  return config->block_rows == 0 ? BLOCK_ROWS : config->block_rows;
}

/* Every array: once to count (arena NULL), once to take. */
static size_t lay_out(struct kc_cpu *cpu, struct kc_arena *arena, bool *failed)
{
  const struct kc_cpu_config *c = &cpu->config;
  const size_t slots = cpu->slots, threads = c->threads;
  const struct {
    void *to;
    size_t count, size;
  } arrays[] = {
      {&cpu->slot, slots, sizeof *cpu->slot},
      {&cpu->entry, slots * cpu->row_entries, sizeof *cpu->entry},
      {&cpu->extent, slots, sizeof *cpu->extent},
      {&cpu->tag, c->pages, sizeof *cpu->tag},
      {&cpu->verdict, slots, sizeof *cpu->verdict},
      {&cpu->ring, KC_FORWARD_RING, sizeof *cpu->ring},
      {&cpu->forward, threads, sizeof *cpu->forward},
      {&cpu->work, slots, sizeof *cpu->work},
      {&cpu->fill, c->pages, sizeof *cpu->fill},
      {&cpu->order, slots, sizeof *cpu->order},
      {&cpu->task_first, slots + 1, sizeof *cpu->task_first},
      {&cpu->row_token, threads * block_rows_of(c), sizeof *cpu->row_token},
      {&cpu->status, threads, sizeof *cpu->status},
      {&cpu->check_slot, slots, sizeof *cpu->check_slot},
      {&cpu->check_entries, slots, sizeof *cpu->check_entries},
      {&cpu->output, c->output_tokens + 1, sizeof *cpu->output},
      {&cpu->output_first, (size_t)c->request_count + 1, sizeof *cpu->output_first},
      {&cpu->output_count, (size_t)c->request_count + 1, sizeof *cpu->output_count},
      {&cpu->finished, slots, sizeof *cpu->finished},
      {&cpu->violation, slots, sizeof *cpu->violation},
  };
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    const size_t need = kc_arena_need(arrays[i].count, arrays[i].size);
    if (__builtin_add_overflow(bytes, need, &bytes)) return SIZE_MAX;
    if (arena == NULL) continue;
    void *memory = kc_arena_take(arena, arrays[i].count, arrays[i].size);
    memcpy(arrays[i].to, &memory, sizeof memory); /* `to` points to pointers of many types */
    *failed = *failed || memory == NULL;
  }
  return bytes;
}

uint32_t kc_cpu_row_entries(uint64_t max_model_len, uint32_t page_tokens, uint32_t pages)
{
  const uint64_t longest = (max_model_len + page_tokens - 1) / page_tokens;
  KC_ASSERT(page_tokens > 0 && pages > 0);
  return longest < pages ? (uint32_t)longest : pages;
}

size_t kc_cpu_need(const struct kc_cpu_config *config)
{
  struct kc_cpu cpu = {.config = *config, .slots = config->slots,
                       .row_entries = config->row_entries};
  bool failed = false;
  const size_t passes = kc_forward_need(&config->weights->recipe, block_rows_of(config));
  size_t bytes = lay_out(&cpu, NULL, &failed), all;
  KC_ASSERT(config->threads > 0);
  if (__builtin_mul_overflow(passes, config->threads, &all)) return SIZE_MAX;
  return __builtin_add_overflow(bytes, all, &bytes) ? SIZE_MAX : bytes;
}

static enum kc_err init_passes(struct kc_cpu *cpu, struct kc_arena *arena)
{
  const struct kc_page_table table = {cpu->entry, cpu->slots, cpu->row_entries};
  const struct kc_cpu_config *c = &cpu->config;
  KC_ASSERT(c->threads > 0);
  for (uint32_t i = 0; i < c->threads; i++) {
    struct kc_forward *f = &cpu->forward[i];
    KC_TRY(kc_forward_init(f, kc_ref_ops(), NULL, c->weights, c->cache, &table, block_rows_of(c),
                           arena));
    if (c->integrity == KC_INTEGRITY_OFF) continue;
    f->tags = (struct kc_tag_state){.tag = cpu->tag, .verdict = cpu->verdict,
                                    .counter = f->counter, .ring = f->ring,
                                    .ring_capacity = KC_FORWARD_RING,
                                    .pages = c->pages};
  }
  return KC_OK;
}

enum kc_err kc_cpu_init(struct kc_cpu *cpu, const struct kc_cpu_config *config,
                        struct kc_arena *arena, struct kc_diag *diag)
{
  bool failed = false;
  KC_ASSERT(config->threads > 0 && config->team != NULL);
  KC_ASSERT(block_rows_of(config) <= BLOCK_ROWS_MAX);
  KC_ASSERT(config->cache->layer[0].pages == config->pages);
  KC_ASSERT(config->cache->layer[0].page_tokens == config->page_tokens);
  *cpu = (struct kc_cpu){.config = *config, .slots = config->slots,
                         .row_entries = config->row_entries, .first = NONE, .last = NONE};
  (void)lay_out(cpu, arena, &failed);
  if (failed || init_passes(cpu, arena) != KC_OK) {
    return kc_fail(diag, KC_ERR_MEMORY, "the engine's tables need more memory than was reserved");
  }
  memset(cpu->verdict, 0xFF, cpu->slots * sizeof *cpu->verdict);
  memset(cpu->output_first, 0xFF, (size_t)config->request_count * sizeof *cpu->output_first);
  return KC_OK;
}

/* ---- the delta ---- */

static void unlink_slot(struct kc_cpu *cpu, uint32_t index)
{
  const struct kc_cpu_slot *slot = &cpu->slot[index];
  KC_ASSERT(slot->active);
  if (slot->previous == NONE) cpu->first = slot->next;
  else cpu->slot[slot->previous].next = slot->next;
  if (slot->next == NONE) cpu->last = slot->previous;
  else cpu->slot[slot->next].previous = slot->previous;
}

static void leave(struct kc_cpu *cpu, uint32_t index)
{
  KC_ASSERT(index < cpu->slots);
  unlink_slot(cpu, index);
  cpu->slot[index] = (struct kc_cpu_slot){0};
  cpu->extent[index] = 0;
}

/* Room for the tokens of a request, once. */
static enum kc_err reserve_output(struct kc_cpu *cpu, uint32_t request, uint32_t limit,
                                  struct kc_diag *diag)
{
  KC_ASSERT(limit > 0);
  if (request >= cpu->config.request_count) {
    return kc_fail(diag, KC_ERR_LIMIT, "request %u joined; the engine was set up for %u", request,
                   cpu->config.request_count);
  }
  if (cpu->output_first[request] != UINT64_MAX) return KC_OK;
  if (limit > cpu->config.output_tokens - cpu->output_used) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %llu output tokens; the engine was set up for "
                   "no more", (unsigned long long)cpu->config.output_tokens);
  }
  cpu->output_first[request] = cpu->output_used;
  cpu->output_used += limit;
  return KC_OK;
}

static enum kc_err join(struct kc_cpu *cpu, const struct kc_join *join, struct kc_diag *diag)
{
  const struct kc_request *request = &cpu->config.requests[join->request];
  const uint32_t limit = kc_request_output(request, cpu->config.max_model_len);
  KC_ASSERT(join->slot < cpu->slots && !cpu->slot[join->slot].active);
  KC_ASSERT(join->known == request->input_tokens + join->outputs);
  KC_TRY(reserve_output(cpu, join->request, limit, diag));
  KC_ASSERT(join->outputs == cpu->output_count[join->request]);
  cpu->slot[join->slot] = (struct kc_cpu_slot){.active = true,
                                               .decoding = join->kv_in_place,
                                               .request = join->request,
                                               .length = join->cached,
                                               .cached = join->cached,
                                               .outputs = join->outputs,
                                               .limit = limit,
                                               .previous = cpu->last,
                                               .next = NONE};
  if (cpu->last == NONE) cpu->first = join->slot;
  else cpu->slot[cpu->last].next = join->slot;
  cpu->last = join->slot;
  cpu->verdict[join->slot] = KC_VERDICT_CLEAR;
  return KC_OK;
}

static void copy_row(struct kc_cpu *cpu, const struct kc_table *table, uint32_t slot,
                     uint32_t from, uint32_t to)
{
  const struct kc_page *row = kc_table_row(table, slot);
  struct kc_page_ref *entry = cpu->entry + (size_t)slot * cpu->row_entries;
  KC_ASSERT(slot < cpu->slots && from <= to);
  KC_ASSERT(to <= cpu->row_entries);
  for (uint32_t i = from; i < to; i++) entry[i] = (struct kc_page_ref){row[i].id, row[i].tag};
}

/* Copies the granted pairs. A slot may be granted a page and lose it again before anything runs;
 * such a grant does not continue the row. */
static void grant(struct kc_cpu *cpu, const struct kc_table *table, const struct kc_grant *grant)
{
  KC_ASSERT(grant->slot < cpu->slots);
  if (!cpu->slot[grant->slot].active || grant->first != cpu->extent[grant->slot]) return;
  copy_row(cpu, table, grant->slot, grant->first, grant->first + grant->count);
  cpu->extent[grant->slot] += grant->count;
}

/* Copies what became shared since the last step: the cache may have put its own page there. */
static void copy_shared(struct kc_cpu *cpu, const struct kc_table *table)
{
  for (uint32_t s = cpu->first; s != NONE; s = cpu->slot[s].next) {
    struct kc_cpu_slot *slot = &cpu->slot[s];
    const uint32_t shared = table->shared[s];
    if (shared <= slot->shared) continue;
    KC_ASSERT(shared <= cpu->extent[s]);
    copy_row(cpu, table, s, slot->shared, shared);
    slot->shared = shared;
  }
}

static enum kc_err apply_delta(struct kc_cpu *cpu, const struct kc_step *step,
                               struct kc_diag *diag)
{
  KC_ASSERT(step->join_count <= cpu->slots);
  for (uint32_t i = 0; i < step->leave_count; i++) leave(cpu, step->leave[i]);
  for (uint32_t i = 0; i < step->join_count; i++) KC_TRY(join(cpu, &step->join[i], diag));
  for (uint32_t i = 0; i < step->grant_count; i++) grant(cpu, step->table, &step->grant[i]);
  copy_shared(cpu, step->table);
  for (uint32_t i = 0; i < step->pause_count; i++) {
    cpu->slot[step->pause[i]].still_at = cpu->steps + 1;
  }
  for (uint32_t i = 0; i < step->ghost_count; i++) {
    struct kc_cpu_slot *slot = &cpu->slot[step->ghost[i].slot];
    KC_ASSERT(slot->active);
    slot->ghost = true;
    if (!step->ghost[i].decodes) slot->still_at = cpu->steps + 1;
  }
  return KC_OK;
}

/* ---- what this step computes ---- */

static uint32_t known_tokens(const struct kc_cpu *cpu, const struct kc_cpu_slot *slot)
{
  return cpu->config.requests[slot->request].input_tokens + slot->outputs;
}

static void add_work(struct kc_cpu *cpu, uint32_t slot, uint32_t start, uint32_t count,
                     bool yields)
{
  KC_ASSERT(cpu->work_count < cpu->slots);
  KC_ASSERT((uint64_t)cpu->extent[slot] * cpu->config.page_tokens >= (uint64_t)start + count);
  cpu->work[cpu->work_count++] = (struct kc_cpu_work){
      .piece = {.slot = slot, .start = start, .count = count, .yields = yields, .token = -1}};
}

/* Decodes in join order. One whose KV "came with it" has none here yet: it is computed on the side,
 * from its first token. */
static void list_decodes(struct kc_cpu *cpu, const struct kc_step *step)
{
  uint32_t decodes = 0;
  for (uint32_t s = cpu->first; s != NONE; s = cpu->slot[s].next) {
    const struct kc_cpu_slot *slot = &cpu->slot[s];
    if (!slot->decoding || slot->still_at == cpu->steps + 1) continue;
    decodes++;
    if (slot->dead) continue;
    const uint32_t known = known_tokens(cpu, slot);
    add_work(cpu, s, slot->length, known - slot->length, true);
  }
  KC_ASSERT(decodes == step->sum.decodes);
}

/* Decodes, then chunks. */
static void list_work(struct kc_cpu *cpu, const struct kc_step *step)
{
  cpu->work_count = 0;
  if (step->decoding) list_decodes(cpu, step);
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    const struct kc_chunk *chunk = &step->chunk[i];
    KC_ASSERT(cpu->slot[chunk->slot].length == chunk->start);
    if (cpu->slot[chunk->slot].dead) continue;
    add_work(cpu, chunk->slot, chunk->start, chunk->count, chunk->last);
  }
}

/* Compares every entry that the step's slots hold with the pool's tags. */
static enum kc_op_status check_tags(struct kc_cpu *cpu, const struct kc_pool *pool, uint64_t step)
{
  KC_ASSERT(cpu->config.integrity != KC_INTEGRITY_OFF);
  KC_ASSERT(pool->page_count == cpu->config.pages);
  for (uint32_t page = 0; page < pool->page_count; page++) {
    cpu->tag[page] = kc_tag_of(pool->record[page].generation);
  }
  for (uint32_t i = 0; i < cpu->work_count; i++) {
    cpu->check_slot[i] = cpu->work[i].piece.slot;
    cpu->check_entries[i] = cpu->extent[cpu->work[i].piece.slot];
  }
  for (uint32_t i = 0; i < cpu->config.threads; i++) cpu->forward[i].tags.step = step;
  const struct kc_op_tag_check check = {
      .rows = cpu->work_count,
      .slot = cpu->check_slot,
      .entries = cpu->check_entries,
      .table = {cpu->entry, cpu->slots, cpu->row_entries},
      .integrity = {.tag = cpu->tag, .verdict = cpu->verdict, .counter = cpu->counter,
                    .ring = cpu->ring, .ring_capacity = KC_FORWARD_RING,
                    .pages = pool->page_count, .step = step}};
  return kc_ref_ops()->tag_check(NULL, &check);
}

/* Takes the slots with a verdict out of the work. */
static void drop_refused(struct kc_cpu *cpu)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < cpu->work_count; i++) {
    if (cpu->verdict[cpu->work[i].piece.slot] != KC_VERDICT_CLEAR) continue;
    cpu->work[kept++] = cpu->work[i];
  }
  KC_ASSERT(kept <= cpu->work_count);
  cpu->work_count = kept;
}

/* ---- who must wait for whom ---- */

/* The wave after those that write the pages which the slot found in the prefix cache. A page that
 * nobody has computed nor will in this step before it: the work begins there (*repairs). */
static uint32_t wave_after_writers(struct kc_cpu *cpu, struct kc_cpu_work *work, bool *repairs)
{
  const uint32_t size = cpu->config.page_tokens;
  const struct kc_page_ref *row = kc_cpu_row(cpu, work->piece.slot);
  struct kc_cpu_slot *slot = &cpu->slot[work->piece.slot];
  const uint32_t pages = slot->cached / size;
  uint32_t wave = 0;
  KC_ASSERT(slot->cached % size == 0 && slot->cached <= work->piece.start);
  cpu->rows_cached += slot->cached;
  slot->cached = 0;
  for (uint32_t i = 0; i < pages; i++) {
    if (row[i].page >= cpu->config.pages) continue; /* with integrity off */
    const struct kc_cpu_fill *fill = &cpu->fill[row[i].page];
    if (fill->tag == row[i].tag && fill->tokens == size) continue;
    if (fill->step == cpu->steps + 1 && fill->writer_tag == row[i].tag &&
        fill->tokens_after == size) {
      if (fill->wave >= wave) wave = fill->wave + 1;
      continue;
    }
    *repairs = true;
    cpu->rows_repaired += work->piece.start - i * size;
    work->piece.count += work->piece.start - i * size;
    work->piece.start = i * size;
    break;
  }
  return wave;
}

static void note_writer(struct kc_cpu *cpu, const struct kc_cpu_work *work)
{
  const uint32_t size = cpu->config.page_tokens;
  const uint32_t end = work->piece.start + work->piece.count;
  const struct kc_page_ref *row = kc_cpu_row(cpu, work->piece.slot);
  KC_ASSERT(work->piece.count > 0);
  for (uint32_t i = work->piece.start / size; i * size < end; i++) {
    if (row[i].page >= cpu->config.pages) continue;
    struct kc_cpu_fill *fill = &cpu->fill[row[i].page];
    fill->step = cpu->steps + 1;
    fill->wave = work->wave;
    fill->writer_tag = row[i].tag;
    fill->tokens_after = end - i * size < size ? end - i * size : size;
  }
}

/* A work item that repairs pages has a wave for itself: others may be reading them. */
static void assign_waves(struct kc_cpu *cpu)
{
  uint32_t least = 0;
  cpu->waves = 1;
  for (uint32_t i = 0; i < cpu->work_count; i++) {
    struct kc_cpu_work *work = &cpu->work[i];
    bool repairs = false;
    work->wave = least;
    if (cpu->slot[work->piece.slot].cached > 0) {
      const uint32_t wave = wave_after_writers(cpu, work, &repairs);
      if (wave > least) work->wave = wave;
    }
    if (repairs) {
      work->wave = cpu->waves;
      least = work->wave + 1;
    }
    if (work->wave >= cpu->waves) cpu->waves = work->wave + 1;
    if (work->piece.count > 1 || repairs || !cpu->slot[work->piece.slot].decoding) {
      note_writer(cpu, work);
    }
    cpu->rows += work->piece.count;
  }
  KC_ASSERT(cpu->waves <= 2 * cpu->work_count + 1);
}

/* Cuts the work of a wave into tasks, a block of rows each at most, and small enough for all
 * threads. `placed`: items of the waves before. Returns how many of this one. */
static uint32_t cut_tasks(struct kc_cpu *cpu, uint32_t wave, uint32_t placed)
{
  const uint32_t block = block_rows_of(&cpu->config);
  uint64_t rows = 0, in_task = 0;
  uint32_t end = placed;
  for (uint32_t i = 0; i < cpu->work_count; i++) {
    if (cpu->work[i].wave != wave) continue;
    cpu->order[end++] = i;
    rows += cpu->work[i].piece.count;
  }
  uint64_t target = rows / cpu->config.threads + 1;
  if (target > block) target = block;
  cpu->task_count = 0;
  for (uint32_t i = placed; i < end; i++) {
    const uint32_t count = cpu->work[cpu->order[i]].piece.count;
    if (in_task == 0 || in_task + count > target) {
      cpu->task_first[cpu->task_count++] = i;
      in_task = 0;
    }
    in_task += count;
  }
  cpu->task_first[cpu->task_count] = end;
  KC_ASSERT(end <= cpu->work_count);
  KC_ASSERT(cpu->task_count <= end - placed);
  return end - placed;
}

/* ---- computing ---- */

static int32_t token_at(const struct kc_cpu *cpu, uint32_t request, uint32_t position)
{
  const uint32_t prompt = cpu->config.requests[request].input_tokens;
  if (position < prompt || cpu->config.prompts.whole) {
    return cpu->config.prompts.token(cpu->config.prompts.context, request, position);
  }
  KC_ASSERT(cpu->output_first[request] != UINT64_MAX);
  return cpu->output[cpu->output_first[request] + position - prompt];
}

/* The pieces [first, first + count) in one pass. */
static enum kc_op_status run_block(struct kc_cpu *cpu, uint32_t member, struct kc_piece *piece,
                                   uint32_t count)
{
  int32_t *token = cpu->row_token + (size_t)member * block_rows_of(&cpu->config);
  uint32_t rows = 0;
  for (uint32_t p = 0; p < count; p++) {
    const uint32_t request = cpu->slot[piece[p].slot].request;
    for (uint32_t i = 0; i < piece[p].count; i++) {
      token[rows++] = token_at(cpu, request, piece[p].start + i);
    }
  }
  KC_ASSERT(rows <= block_rows_of(&cpu->config));
  return kc_forward_run(&cpu->forward[member], piece, count, token);
}

/* One work item of more rows than a block: block after block. */
static enum kc_op_status run_long(struct kc_cpu *cpu, uint32_t member, struct kc_piece *whole)
{
  const uint32_t block = block_rows_of(&cpu->config), end = whole->start + whole->count;
  for (uint32_t start = whole->start; start < end; start += block) {
    struct kc_piece piece = *whole;
    piece.start = start;
    piece.count = end - start < block ? end - start : block;
    piece.yields = whole->yields && start + piece.count == end;
    const enum kc_op_status status = run_block(cpu, member, &piece, 1);
    if (status != KC_OP_OK) return status;
    whole->token = piece.token;
  }
  return KC_OP_OK;
}

static void run_task(void *context, uint32_t member, uint32_t task)
{
  struct kc_cpu *cpu = context;
  const uint32_t first = cpu->task_first[task], end = cpu->task_first[task + 1];
  struct kc_piece piece[BLOCK_ROWS_MAX];
  KC_ASSERT(end > first);
  enum kc_op_status status = KC_OP_OK;
  if (end - first == 1) {
    status = run_long(cpu, member, &cpu->work[cpu->order[first]].piece);
  } else {
    KC_ASSERT(end - first <= sizeof piece / sizeof piece[0]);
    for (uint32_t i = first; i < end; i++) piece[i - first] = cpu->work[cpu->order[i]].piece;
    status = run_block(cpu, member, piece, end - first);
    for (uint32_t i = first; i < end; i++) cpu->work[cpu->order[i]].piece = piece[i - first];
  }
  if (status != KC_OP_OK) cpu->status[member] = status;
}

static enum kc_err compute(struct kc_cpu *cpu, struct kc_diag *diag)
{
  uint32_t placed = 0;
  memset(cpu->status, 0, cpu->config.threads * sizeof *cpu->status);
  for (uint32_t wave = 0; wave < cpu->waves; wave++) {
    placed += cut_tasks(cpu, wave, placed);
    if (cpu->task_count > 0) kc_team_run(cpu->config.team, cpu->task_count, run_task, cpu);
  }
  KC_ASSERT(placed == cpu->work_count);
  for (uint32_t i = 0; i < cpu->config.threads; i++) {
    struct kc_forward *f = &cpu->forward[i];
    for (int c = 0; c < KC_TAG_COUNTERS; c++) cpu->counter[c] += f->counter[c];
    memset(f->counter, 0, sizeof f->counter);
    if (cpu->status[i] == KC_OP_OK) continue;
    return kc_fail(diag, KC_ERR_DEVICE, "an operation of the engine refused its arguments (%d)",
                   (int)cpu->status[i]);
  }
  return KC_OK;
}

/* ---- results ---- */

static void take_token(struct kc_cpu *cpu, struct kc_cpu_slot *slot, int32_t token)
{
  const struct kc_cpu_config *c = &cpu->config;
  KC_ASSERT(slot->outputs < slot->limit);
  cpu->output[cpu->output_first[slot->request] + slot->outputs] = token;
  if (c->on_token != NULL) c->on_token(c->on_token_context, slot->request, slot->outputs, token);
  slot->outputs++;
  cpu->output_count[slot->request] = slot->outputs;
  cpu->tokens++;
}

/* Tokens [start, start + count) of the slot are in its pages now. */
static void note_filled(struct kc_cpu *cpu, const struct kc_piece *piece)
{
  const uint32_t size = cpu->config.page_tokens, end = piece->start + piece->count;
  const struct kc_page_ref *row = kc_cpu_row(cpu, piece->slot);
  KC_ASSERT(piece->count > 0);
  for (uint32_t i = piece->start / size; i * size < end; i++) {
    const uint32_t tokens = end - i * size < size ? end - i * size : size;
    if (row[i].page >= cpu->config.pages) continue;
    struct kc_cpu_fill *fill = &cpu->fill[row[i].page];
    if (fill->tag == row[i].tag && fill->tokens >= tokens) continue;
    fill->tag = row[i].tag;
    fill->tokens = tokens;
  }
}

static void advance(struct kc_cpu *cpu)
{
  for (uint32_t i = 0; i < cpu->work_count; i++) {
    const struct kc_piece *piece = &cpu->work[i].piece;
    struct kc_cpu_slot *slot = &cpu->slot[piece->slot];
    if (cpu->verdict[piece->slot] != KC_VERDICT_CLEAR) continue; /* no token leaves */
    slot->length = piece->start + piece->count;
    note_filled(cpu, piece);
    if (slot->ghost) {
      cpu->rows_discarded += piece->count;
      continue;
    }
    KC_ASSERT(piece->token >= 0 || !piece->yields);
    if (!piece->yields) continue;
    slot->decoding = true;
    take_token(cpu, slot, piece->token);
  }
}

/* Violations and finishes, both in join order. */
static void report(struct kc_cpu *cpu, struct kc_step_result *result)
{
  for (uint32_t s = cpu->first; s != NONE; s = cpu->slot[s].next) {
    struct kc_cpu_slot *slot = &cpu->slot[s];
    const uint32_t bad = cpu->verdict[s];
    if (slot->dead) continue;
    if (bad != KC_VERDICT_CLEAR) {
      const uint32_t page = kc_cpu_row(cpu, s)[bad].page;
      const bool inside = page < cpu->config.pages;
      slot->dead = true;
      cpu->violation[result->violation_count++] = (struct kc_violation){
          .slot = s, .page = page, .code = inside ? KC_ERR_TAG_STALE : KC_ERR_TAG_RANGE};
      continue;
    }
    if (!slot->decoding || slot->outputs == 0 || slot->ghost) continue;
    const uint64_t last = cpu->output_first[slot->request] + slot->outputs - 1;
    const bool ended = cpu->config.end_token >= 0 && cpu->output[last] == cpu->config.end_token;
    if (ended || slot->outputs == slot->limit) cpu->finished[result->finish_count++] = s;
  }
  KC_ASSERT(result->finish_count + result->violation_count <= cpu->slots);
  result->finish = cpu->finished;
  result->violation = cpu->violation;
}

static kc_ps wall_ps(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  KC_ASSERT(now.tv_nsec >= 0);
  return ((kc_ps)(now.tv_sec % 1000000) * 1000000000 + now.tv_nsec) * 1000;
}

static enum kc_err run(void *context, const struct kc_step *step, struct kc_step_result *result,
                       struct kc_diag *diag)
{
  struct kc_cpu *cpu = context;
  const kc_ps begin = wall_ps();
  KC_ASSERT(step->sum.decodes + step->sum.chunks > 0);
  KC_TRY(apply_delta(cpu, step, diag));
  list_work(cpu, step);
  if (cpu->config.integrity != KC_INTEGRITY_OFF) {
    if (check_tags(cpu, step->pool, step->index) != KC_OP_OK) {
      return kc_fail(diag, KC_ERR_DEVICE, "the tag check refused its arguments");
    }
    drop_refused(cpu);
  }
  assign_waves(cpu);
  KC_TRY(compute(cpu, diag));
  advance(cpu);
  *result = (struct kc_step_result){0};
  report(cpu, result);
  cpu->steps++;
  const kc_ps spent = wall_ps() - begin;
  result->duration_ps = spent > 0 ? spent : 1;
  if (cpu->config.clock == NULL) return KC_OK;
  struct kc_step_result predicted;
  KC_TRY(cpu->config.clock->run(cpu->config.clock->context, step, &predicted, diag));
  result->duration_ps = predicted.duration_ps;
  return KC_OK;
}

struct kc_executor kc_cpu_executor(struct kc_cpu *cpu)
{
  KC_ASSERT(cpu->slot != NULL);
  KC_ASSERT(cpu->config.requests != NULL);
  return (struct kc_executor){.context = cpu, .name = "cpu", .run = run};
}

const int32_t *kc_cpu_output(const struct kc_cpu *cpu, uint32_t request, uint32_t *count)
{
  KC_ASSERT(request < cpu->config.request_count);
  *count = cpu->output_count[request];
  if (cpu->output_first[request] == UINT64_MAX) return NULL;
  return cpu->output + cpu->output_first[request];
}
