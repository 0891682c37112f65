/* The computing executor: see the header for the way of a step.
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
#include "engine/exec/executor.h"

#include "engine/exec/executor_tables.h"

#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "kernels/formats/counter.h"

enum { NONE = UINT32_MAX, BLOCK_ROWS = 64, DEVICE_BLOCK_ROWS = 2048 };

/* Tags tell a page from what it was before it was handed on. */
struct kc_exec_fill {
  uint32_t tag;          /* of the page when it was written */
  uint32_t tokens;       /* [0, page_tokens]: with KV */
  uint64_t step;         /* in which it is written by a chunk, */
  uint32_t wave;         /* in that wave, */
  uint32_t writer_tag;   /* by a row with that tag, */
  uint32_t tokens_after; /* up to so many tokens */
};

/* ---- set-up ---- */

static uint32_t block_rows_of(const struct kc_exec_config *config)
{
  if (config->block_rows > 0) return config->block_rows;
  return kc_site_is_host(&config->site) ? BLOCK_ROWS : DEVICE_BLOCK_ROWS;
}

static size_t lay_out(struct kc_exec *exec, struct kc_arena *arena, bool *failed)
{
  const struct kc_exec_config *c = &exec->config;
  const size_t slots = exec->slots, threads = c->threads;
  const struct kc_exec_array arrays[] = {
      {&exec->slot, slots, sizeof *exec->slot},
      {&exec->extent, slots, sizeof *exec->extent},
      {&exec->forward, threads, sizeof *exec->forward},
      {&exec->work, slots, sizeof *exec->work},
      {&exec->fill, c->pages, sizeof *exec->fill},
      {&exec->order, slots, sizeof *exec->order},
      {&exec->task_first, slots + 1, sizeof *exec->task_first},
      {&exec->row_token, threads * block_rows_of(c), sizeof *exec->row_token},
      {&exec->piece, threads * slots, sizeof *exec->piece},
      {&exec->status, threads, sizeof *exec->status},
      {&exec->output, c->output_tokens + 1, sizeof *exec->output},
      {&exec->output_first, (size_t)c->request_count + 1, sizeof *exec->output_first},
      {&exec->output_count, (size_t)c->request_count + 1, sizeof *exec->output_count},
      {&exec->finished, slots, sizeof *exec->finished},
      {&exec->violation, slots, sizeof *exec->violation},
  };
  KC_ASSERT(threads > 0);
  return kc_exec_lay_out(arrays, sizeof arrays / sizeof arrays[0], arena, failed);
}

uint32_t kc_exec_row_entries(uint64_t max_model_len, uint32_t page_tokens, uint32_t pages)
{
  const uint64_t longest = (max_model_len + page_tokens - 1) / page_tokens;
  KC_ASSERT(page_tokens > 0 && pages > 0);
  return longest < pages ? (uint32_t)longest : pages;
}

size_t kc_exec_need(const struct kc_exec_config *config)
{
  struct kc_exec exec = {.config = *config, .slots = config->slots,
                         .row_entries = config->row_entries};
  bool failed = false;
  size_t bytes = lay_out(&exec, NULL, &failed), all = 0;
  KC_ASSERT(config->threads > 0);
  if (!kc_site_is_host(&config->site)) return bytes;
  const size_t passes = kc_forward_need(&config->weights->recipe, block_rows_of(config));
  const size_t tables = kc_exec_lay_out_tables(&exec, &exec.host, NULL, &failed);
  if (__builtin_add_overflow(bytes, tables, &bytes) ||
      __builtin_mul_overflow(passes, config->threads, &all)) {
    return SIZE_MAX;
  }
  return __builtin_add_overflow(bytes, all, &bytes) ? SIZE_MAX : bytes;
}

static enum kc_err init_passes(struct kc_exec *exec, struct kc_arena *arena, struct kc_diag *diag)
{
  const struct kc_exec_config *c = &exec->config;
  const uint32_t block = block_rows_of(c);
  const struct kc_forward_config config = {
      .site = exec->site, .weights = c->weights, .cache = c->cache,
      .table = {exec->on.entry, exec->slots, exec->row_entries}, .rows_max = block,
      .yields_max = exec->slots < block ? exec->slots : block, .eager = c->eager,
      .collective = c->collective, .stop = c->stop};
  KC_ASSERT(c->threads > 0);
  for (uint32_t i = 0; i < c->threads; i++) {
    struct kc_forward *f = &exec->forward[i];
    KC_TRY(kc_forward_init(f, &config, arena, diag));
    if (c->integrity == KC_INTEGRITY_OFF) continue;
    const bool host = kc_site_is_host(&exec->site); /* each member counts for itself there */
    f->tags = (struct kc_tag_state){.tag = exec->on.tag, .verdict = exec->on.verdict,
                                    .counter = host ? f->counter : exec->on.counter,
                                    .ring = host ? f->ring : exec->on.ring,
                                    .ring_capacity = KC_FORWARD_RING,
                                    .pages = c->pages};
  }
  return KC_OK;
}

enum kc_err kc_exec_init(struct kc_exec *exec, const struct kc_exec_config *config,
                         struct kc_arena *arena, struct kc_diag *diag)
{
  bool failed = false;
  KC_ASSERT(config->threads > 0 && (config->team != NULL || config->threads == 1));
  KC_ASSERT(kc_site_is_host(&config->site) || config->threads == 1);
  KC_ASSERT(config->cache->layer[0].pages == config->pages);
  KC_ASSERT(config->cache->layer[0].page_tokens == config->page_tokens);
  *exec = (struct kc_exec){.config = *config, .slots = config->slots,
                           .site = kc_site_or_host(&config->site),
                           .row_entries = config->row_entries, .first = NONE, .last = NONE};
  (void)lay_out(exec, arena, &failed);
  enum kc_err err = KC_OK;
  if (failed) err = kc_fail(diag, KC_ERR_MEMORY, "the engine needs more memory than was reserved");
  if (err == KC_OK) err = kc_exec_take_tables(exec, arena, diag);
  if (err == KC_OK) err = init_passes(exec, arena, diag);
  if (err != KC_OK) {
    kc_exec_deinit(exec);
    return err;
  }
  memset(exec->output_first, 0xFF, (size_t)config->request_count * sizeof *exec->output_first);
  return KC_OK;
}

void kc_exec_deinit(struct kc_exec *exec)
{
  KC_ASSERT(exec != NULL);
  if (exec->site.ops == NULL || kc_site_is_host(&exec->site)) return;
  for (uint32_t i = 0; exec->forward != NULL && i < exec->config.threads; i++) {
    kc_forward_deinit(&exec->forward[i]);
  }
  kc_exec_free_tables(exec);
}

/* ---- the delta ---- */

static void unlink_slot(struct kc_exec *exec, uint32_t index)
{
  const struct kc_exec_slot *slot = &exec->slot[index];
  KC_ASSERT(slot->active);
  if (slot->previous == NONE) exec->first = slot->next;
  else exec->slot[slot->previous].next = slot->next;
  if (slot->next == NONE) exec->last = slot->previous;
  else exec->slot[slot->next].previous = slot->previous;
}

static void leave(struct kc_exec *exec, uint32_t index)
{
  KC_ASSERT(index < exec->slots);
  unlink_slot(exec, index);
  exec->slot[index] = (struct kc_exec_slot){0};
  exec->extent[index] = 0;
}

/* Room for the tokens of a request, once. */
static enum kc_err reserve_output(struct kc_exec *exec, uint32_t request, uint32_t limit,
                                  struct kc_diag *diag)
{
  KC_ASSERT(limit > 0);
  if (request >= exec->config.request_count) {
    return kc_fail(diag, KC_ERR_LIMIT, "request %u joined; the engine was set up for %u", request,
                   exec->config.request_count);
  }
  if (exec->output_first[request] != UINT64_MAX) return KC_OK;
  if (limit > exec->config.output_tokens - exec->output_used) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %llu output tokens; the engine was set up for "
                   "no more", (unsigned long long)exec->config.output_tokens);
  }
  exec->output_first[request] = exec->output_used;
  exec->output_used += limit;
  return KC_OK;
}

static enum kc_err join(struct kc_exec *exec, const struct kc_join *join, struct kc_diag *diag)
{
  const struct kc_request *request = &exec->config.requests[join->request];
  const uint32_t limit = kc_request_output(request, exec->config.max_model_len);
  KC_ASSERT(join->slot < exec->slots && !exec->slot[join->slot].active);
  KC_ASSERT(join->known == request->input_tokens + join->outputs);
  KC_TRY(reserve_output(exec, join->request, limit, diag));
  KC_ASSERT(join->outputs == exec->output_count[join->request]);
  exec->slot[join->slot] = (struct kc_exec_slot){.active = true,
                                               .decoding = join->kv_in_place,
                                               .request = join->request,
                                               .length = join->cached,
                                               .cached = join->cached,
                                               .outputs = join->outputs,
                                               .limit = limit,
                                               .previous = exec->last,
                                               .next = NONE};
  if (exec->last == NONE) exec->first = join->slot;
  else exec->slot[exec->last].next = join->slot;
  exec->last = join->slot;
  exec->host.verdict[join->slot] = KC_VERDICT_CLEAR;
  kc_exec_send(exec, exec->on.verdict + join->slot, exec->host.verdict + join->slot,
               sizeof *exec->host.verdict);
  return KC_OK;
}

static void copy_row(struct kc_exec *exec, const struct kc_table *table, uint32_t slot,
                     uint32_t from, uint32_t to)
{
  const struct kc_page *row = kc_table_row(table, slot);
  const size_t first = (size_t)slot * exec->row_entries;
  struct kc_page_ref *entry = exec->host.entry + first;
  KC_ASSERT(slot < exec->slots && from <= to);
  KC_ASSERT(to <= exec->row_entries);
  for (uint32_t i = from; i < to; i++) entry[i] = (struct kc_page_ref){row[i].id, row[i].tag};
  kc_exec_send(exec, exec->on.entry + first + from, entry + from, (to - from) * sizeof *entry);
}

/* Copies the granted pairs. A slot may be granted a page and lose it again before anything runs;
 * such a grant does not continue the row. */
static void grant(struct kc_exec *exec, const struct kc_table *table, const struct kc_grant *grant)
{
  KC_ASSERT(grant->slot < exec->slots);
  if (!exec->slot[grant->slot].active || grant->first != exec->extent[grant->slot]) return;
  copy_row(exec, table, grant->slot, grant->first, grant->first + grant->count);
  exec->extent[grant->slot] += grant->count;
}

/* Copies what became shared since the last step: the cache may have put its own page there. */
static void copy_shared(struct kc_exec *exec, const struct kc_table *table)
{
  for (uint32_t s = exec->first; s != NONE; s = exec->slot[s].next) {
    struct kc_exec_slot *slot = &exec->slot[s];
    const uint32_t shared = table->shared[s];
    if (shared <= slot->shared) continue;
    KC_ASSERT(shared <= exec->extent[s]);
    copy_row(exec, table, s, slot->shared, shared);
    slot->shared = shared;
  }
}

static enum kc_err apply_delta(struct kc_exec *exec, const struct kc_step *step,
                               struct kc_diag *diag)
{
  KC_ASSERT(step->join_count <= exec->slots);
  for (uint32_t i = 0; i < step->leave_count; i++) leave(exec, step->leave[i]);
  for (uint32_t i = 0; i < step->join_count; i++) KC_TRY(join(exec, &step->join[i], diag));
  for (uint32_t i = 0; i < step->grant_count; i++) grant(exec, step->table, &step->grant[i]);
  copy_shared(exec, step->table);
  for (uint32_t i = 0; i < step->pause_count; i++) {
    exec->slot[step->pause[i]].still_at = exec->steps + 1;
  }
  for (uint32_t i = 0; i < step->ghost_count; i++) {
    struct kc_exec_slot *slot = &exec->slot[step->ghost[i].slot];
    KC_ASSERT(slot->active);
    slot->ghost = true;
    if (!step->ghost[i].decodes) slot->still_at = exec->steps + 1;
  }
  return KC_OK;
}

/* ---- what this step computes ---- */

static uint32_t known_tokens(const struct kc_exec *exec, const struct kc_exec_slot *slot)
{
  return exec->config.requests[slot->request].input_tokens + slot->outputs;
}

static void add_work(struct kc_exec *exec, uint32_t slot, uint32_t start, uint32_t count,
                     bool yields)
{
  KC_ASSERT(exec->work_count < exec->slots);
  KC_ASSERT((uint64_t)exec->extent[slot] * exec->config.page_tokens >= (uint64_t)start + count);
  exec->work[exec->work_count++] = (struct kc_exec_work){
      .piece = {.slot = slot, .start = start, .count = count, .yields = yields, .token = -1,
                .temperature = exec->config.temperature,
                .seed = kc_counter_u64(exec->config.sample_seed, exec->slot[slot].request, 0)}};
}

/* Decodes in join order. One whose KV "came with it" has none here yet: it is computed on the side,
 * from its first token. */
static void list_decodes(struct kc_exec *exec, const struct kc_step *step)
{
  uint32_t decodes = 0;
  for (uint32_t s = exec->first; s != NONE; s = exec->slot[s].next) {
    const struct kc_exec_slot *slot = &exec->slot[s];
    if (!slot->decoding || slot->still_at == exec->steps + 1) continue;
    decodes++;
    if (slot->dead) continue;
    const uint32_t known = known_tokens(exec, slot);
    add_work(exec, s, slot->length, known - slot->length, true);
  }
  KC_ASSERT(decodes == step->sum.decodes);
}

/* Decodes, then chunks. */
static void list_work(struct kc_exec *exec, const struct kc_step *step)
{
  exec->work_count = 0;
  if (step->decoding) list_decodes(exec, step);
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    const struct kc_chunk *chunk = &step->chunk[i];
    KC_ASSERT(exec->slot[chunk->slot].length == chunk->start);
    if (exec->slot[chunk->slot].dead) continue;
    add_work(exec, chunk->slot, chunk->start, chunk->count, chunk->last);
  }
}

/* True when a work item reads pages that others of this step may be writing: who is refused must be
 * known before they are told apart. */
static bool finds_pages(const struct kc_exec *exec)
{
  KC_ASSERT(exec->work_count <= exec->slots);
  for (uint32_t i = 0; i < exec->work_count; i++) {
    if (exec->slot[exec->work[i].piece.slot].cached > 0) return true;
  }
  return false;
}

/* Takes the slots with a verdict out of the work. */
static void drop_refused(struct kc_exec *exec)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < exec->work_count; i++) {
    if (exec->host.verdict[exec->work[i].piece.slot] != KC_VERDICT_CLEAR) continue;
    exec->work[kept++] = exec->work[i];
  }
  KC_ASSERT(kept <= exec->work_count);
  exec->work_count = kept;
}

/* ---- who must wait for whom ---- */

/* The wave after those that write the pages which the slot found in the prefix cache. A page that
 * nobody has computed nor will in this step before it: the work begins there (*repairs). */
static uint32_t wave_after_writers(struct kc_exec *exec, struct kc_exec_work *work, bool *repairs)
{
  const uint32_t size = exec->config.page_tokens;
  const struct kc_page_ref *row = kc_exec_row(exec, work->piece.slot);
  struct kc_exec_slot *slot = &exec->slot[work->piece.slot];
  const uint32_t pages = slot->cached / size;
  uint32_t wave = 0;
  KC_ASSERT(slot->cached % size == 0 && slot->cached <= work->piece.start);
  exec->rows_cached += slot->cached;
  slot->cached = 0;
  for (uint32_t i = 0; i < pages; i++) {
    if (row[i].page >= exec->config.pages) continue; /* with integrity off */
    const struct kc_exec_fill *fill = &exec->fill[row[i].page];
    if (fill->tag == row[i].tag && fill->tokens == size) continue;
    if (fill->step == exec->steps + 1 && fill->writer_tag == row[i].tag &&
        fill->tokens_after == size) {
      if (fill->wave >= wave) wave = fill->wave + 1;
      continue;
    }
    *repairs = true;
    exec->rows_repaired += work->piece.start - i * size;
    work->piece.count += work->piece.start - i * size;
    work->piece.start = i * size;
    break;
  }
  return wave;
}

static void note_writer(struct kc_exec *exec, const struct kc_exec_work *work)
{
  const uint32_t size = exec->config.page_tokens;
  const uint32_t end = work->piece.start + work->piece.count;
  const struct kc_page_ref *row = kc_exec_row(exec, work->piece.slot);
  KC_ASSERT(work->piece.count > 0);
  for (uint32_t i = work->piece.start / size; i * size < end; i++) {
    if (row[i].page >= exec->config.pages) continue;
    struct kc_exec_fill *fill = &exec->fill[row[i].page];
    fill->step = exec->steps + 1;
    fill->wave = work->wave;
    fill->writer_tag = row[i].tag;
    fill->tokens_after = end - i * size < size ? end - i * size : size;
  }
}

/* A work item that repairs pages has a wave for itself: others may be reading them. */
static void assign_waves(struct kc_exec *exec)
{
  uint32_t least = 0;
  exec->waves = 1;
  for (uint32_t i = 0; i < exec->work_count; i++) {
    struct kc_exec_work *work = &exec->work[i];
    bool repairs = false;
    work->wave = least;
    if (exec->slot[work->piece.slot].cached > 0) {
      const uint32_t wave = wave_after_writers(exec, work, &repairs);
      if (wave > least) work->wave = wave;
    }
    if (repairs) {
      work->wave = exec->waves;
      least = work->wave + 1;
    }
    if (work->wave >= exec->waves) exec->waves = work->wave + 1;
    if (work->piece.count > 1 || repairs || !exec->slot[work->piece.slot].decoding) {
      note_writer(exec, work);
    }
    exec->rows += work->piece.count;
  }
  KC_ASSERT(exec->waves <= 2 * exec->work_count + 1);
}

/* Cuts the work of a wave into tasks, a block of rows each at most, and small enough for all
 * threads. `placed`: items of the waves before. Returns how many of this one. */
static uint32_t cut_tasks(struct kc_exec *exec, uint32_t wave, uint32_t placed)
{
  const uint32_t block = block_rows_of(&exec->config);
  uint64_t rows = 0, in_task = 0;
  uint32_t end = placed;
  for (uint32_t i = 0; i < exec->work_count; i++) {
    if (exec->work[i].wave != wave) continue;
    exec->order[end++] = i;
    rows += exec->work[i].piece.count;
  }
  uint64_t target = rows / exec->config.threads + 1;
  if (target > block) target = block;
  exec->task_count = 0;
  for (uint32_t i = placed; i < end; i++) {
    const uint32_t count = exec->work[exec->order[i]].piece.count;
    if (in_task == 0 || in_task + count > target) {
      exec->task_first[exec->task_count++] = i;
      in_task = 0;
    }
    in_task += count;
  }
  exec->task_first[exec->task_count] = end;
  KC_ASSERT(end <= exec->work_count);
  KC_ASSERT(exec->task_count <= end - placed);
  return end - placed;
}

/* ---- computing ---- */

static int32_t token_at(const struct kc_exec *exec, uint32_t request, uint32_t position)
{
  const uint32_t prompt = exec->config.requests[request].input_tokens;
  if (position < prompt || exec->config.prompts.whole) {
    return exec->config.prompts.token(exec->config.prompts.context, request, position);
  }
  KC_ASSERT(exec->output_first[request] != UINT64_MAX);
  return exec->output[exec->output_first[request] + position - prompt];
}

/* The pieces [first, first + count) in one pass. */
static enum kc_op_status run_block(struct kc_exec *exec, uint32_t member, struct kc_piece *piece,
                                   uint32_t count)
{
  int32_t *token = exec->row_token + (size_t)member * block_rows_of(&exec->config);
  uint32_t rows = 0;
  for (uint32_t p = 0; p < count; p++) {
    const uint32_t request = exec->slot[piece[p].slot].request;
    for (uint32_t i = 0; i < piece[p].count; i++) {
      token[rows++] = token_at(exec, request, piece[p].start + i);
    }
  }
  KC_ASSERT(rows <= block_rows_of(&exec->config));
  const enum kc_op_status status =
      kc_forward_begin(&exec->forward[member], piece, count, token);
  if (status != KC_OP_OK) return status;
  if (!kc_site_is_host(&exec->site)) kc_exec_fetch_verdicts(exec); /* one wait for all */
  return kc_forward_end(&exec->forward[member], piece, count);
}

/* One work item of more rows than a block: block after block. */
static enum kc_op_status run_long(struct kc_exec *exec, uint32_t member, struct kc_piece *whole)
{
  const uint32_t block = block_rows_of(&exec->config), end = whole->start + whole->count;
  for (uint32_t start = whole->start; start < end; start += block) {
    struct kc_piece piece = *whole;
    piece.start = start;
    piece.count = end - start < block ? end - start : block;
    piece.yields = whole->yields && start + piece.count == end;
    const enum kc_op_status status = run_block(exec, member, &piece, 1);
    if (status != KC_OP_OK) return status;
    whole->token = piece.token;
  }
  return KC_OP_OK;
}

static void run_task(void *context, uint32_t member, uint32_t task)
{
  struct kc_exec *exec = context;
  const uint32_t first = exec->task_first[task], end = exec->task_first[task + 1];
  struct kc_piece *piece = exec->piece + (size_t)member * exec->slots;
  KC_ASSERT(end > first && end - first <= exec->slots);
  enum kc_op_status status = KC_OP_OK;
  if (end - first == 1) {
    status = run_long(exec, member, &exec->work[exec->order[first]].piece);
  } else {
    for (uint32_t i = first; i < end; i++) piece[i - first] = exec->work[exec->order[i]].piece;
    status = run_block(exec, member, piece, end - first);
    for (uint32_t i = first; i < end; i++) exec->work[exec->order[i]].piece = piece[i - first];
  }
  if (status != KC_OP_OK) exec->status[member] = status;
}

static void run_tasks(struct kc_exec *exec)
{
  KC_ASSERT(exec->task_count <= exec->work_count);
  if (exec->task_count > 0 && exec->config.team != NULL) {
    kc_team_run(exec->config.team, exec->task_count, run_task, exec);
    return;
  }
  for (uint32_t task = 0; task < exec->task_count; task++) run_task(exec, 0, task);
}

/* What writes refused goes behind the events of the checks. (On a device there is one ring.) */
static void add_events(struct kc_exec *exec, const struct kc_forward *f)
{
  uint64_t at = exec->host.counter[KC_COUNT_EVENTS];
  const uint64_t count = f->counter[KC_COUNT_EVENTS];
  KC_ASSERT(count == 0 || kc_site_is_host(&exec->site));
  for (uint64_t i = 0; i < count && i < KC_FORWARD_RING && at < KC_FORWARD_RING; i++) {
    exec->host.ring[at++] = f->ring[i];
  }
}

static enum kc_err compute(struct kc_exec *exec, struct kc_diag *diag)
{
  uint32_t placed = 0;
  for (uint32_t wave = 0; wave < exec->waves; wave++) {
    placed += cut_tasks(exec, wave, placed);
    run_tasks(exec);
  }
  KC_ASSERT(placed == exec->work_count);
  for (uint32_t i = 0; i < exec->config.threads; i++) {
    struct kc_forward *f = &exec->forward[i];
    add_events(exec, f);
    for (int c = 0; c < KC_TAG_COUNTERS; c++) exec->host.counter[c] += f->counter[c];
    memset(f->counter, 0, sizeof f->counter);
    if (exec->status[i] == KC_OP_OK) continue;
    return kc_site_fail(&exec->site, exec->status[i], "computing a step", diag);
  }
  return KC_OK;
}

/* ---- results ---- */

static void take_token(struct kc_exec *exec, struct kc_exec_slot *slot, int32_t token)
{
  const struct kc_exec_config *c = &exec->config;
  KC_ASSERT(slot->outputs < slot->limit);
  exec->output[exec->output_first[slot->request] + slot->outputs] = token;
  if (c->on_token != NULL) c->on_token(c->on_token_context, slot->request, slot->outputs, token);
  slot->outputs++;
  exec->output_count[slot->request] = slot->outputs;
  exec->tokens++;
}

/* Tokens [start, start + count) of the slot are in its pages now. */
static void note_filled(struct kc_exec *exec, const struct kc_piece *piece)
{
  const uint32_t size = exec->config.page_tokens, end = piece->start + piece->count;
  const struct kc_page_ref *row = kc_exec_row(exec, piece->slot);
  KC_ASSERT(piece->count > 0);
  for (uint32_t i = piece->start / size; i * size < end; i++) {
    const uint32_t tokens = end - i * size < size ? end - i * size : size;
    if (row[i].page >= exec->config.pages) continue;
    struct kc_exec_fill *fill = &exec->fill[row[i].page];
    if (fill->tag == row[i].tag && fill->tokens >= tokens) continue;
    fill->tag = row[i].tag;
    fill->tokens = tokens;
  }
}

static void advance(struct kc_exec *exec)
{
  for (uint32_t i = 0; i < exec->work_count; i++) {
    const struct kc_piece *piece = &exec->work[i].piece;
    struct kc_exec_slot *slot = &exec->slot[piece->slot];
    if (exec->host.verdict[piece->slot] != KC_VERDICT_CLEAR) continue; /* no token leaves */
    slot->length = piece->start + piece->count;
    note_filled(exec, piece);
    if (slot->ghost) {
      exec->rows_discarded += piece->count;
      continue;
    }
    KC_ASSERT(piece->token >= 0 || !piece->yields);
    if (!piece->yields) continue;
    slot->decoding = true;
    take_token(exec, slot, piece->token);
  }
}

/* Violations and finishes, both in join order. */
static void report(struct kc_exec *exec, struct kc_step_result *result)
{
  for (uint32_t s = exec->first; s != NONE; s = exec->slot[s].next) {
    struct kc_exec_slot *slot = &exec->slot[s];
    const uint32_t bad = exec->host.verdict[s];
    if (slot->dead) continue;
    if (bad != KC_VERDICT_CLEAR) {
      const uint32_t page = kc_exec_row(exec, s)[bad].page;
      const bool inside = page < exec->config.pages;
      slot->dead = true;
      exec->violation[result->violation_count++] = (struct kc_violation){
          .slot = s, .page = page, .code = inside ? KC_ERR_TAG_STALE : KC_ERR_TAG_RANGE};
      continue;
    }
    if (!slot->decoding || slot->outputs == 0 || slot->ghost) continue;
    const uint64_t last = exec->output_first[slot->request] + slot->outputs - 1;
    const bool ended = exec->config.end_token >= 0 && exec->output[last] == exec->config.end_token;
    if (ended || slot->outputs == slot->limit) exec->finished[result->finish_count++] = s;
  }
  KC_ASSERT(result->finish_count + result->violation_count <= exec->slots);
  result->finish = exec->finished;
  result->violation = exec->violation;
}

static kc_ps wall_ps(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  KC_ASSERT(now.tv_nsec >= 0);
  return ((kc_ps)(now.tv_sec % 1000000) * 1000000000 + now.tv_nsec) * 1000;
}

/* The check is enqueued before the pass and read with its tokens, unless work depends on it. */
static enum kc_err check_step(struct kc_exec *exec, const struct kc_step *step,
                              struct kc_diag *diag)
{
  const bool host = kc_site_is_host(&exec->site);
  const struct kc_exec_probe *probe = exec->config.probe;
  KC_ASSERT(exec->waves <= 2 * exec->slots + 1);
  if (exec->config.integrity == KC_INTEGRITY_OFF) return KC_OK;
  enum kc_op_status status = kc_exec_check_tags(exec, step);
  const bool asks = finds_pages(exec) || exec->work_count == 0 || probe != NULL;
  if (status == KC_OP_OK && !host && asks) {
    kc_exec_fetch_verdicts(exec);
    status = kc_site_wait(&exec->site);
    if (status == KC_OP_OK) drop_refused(exec);
  }
  if (status != KC_OP_OK) return kc_site_fail(&exec->site, status, "the tag check", diag);
  if (host) drop_refused(exec);
  if (probe == NULL) return KC_OK;
  probe->before_pass(probe->context, exec, step);
  kc_exec_send_probed(exec);
  return KC_OK;
}

static uint64_t collective_ns(const struct kc_exec *exec)
{
  uint64_t sum = 0;
  KC_ASSERT(exec->config.threads > 0);
  for (uint32_t i = 0; i < exec->config.threads; i++) sum += exec->forward[i].collective_ns;
  return sum;
}

static enum kc_err run(void *context, const struct kc_step *step, struct kc_step_result *result,
                       struct kc_diag *diag)
{
  struct kc_exec *exec = context;
  const kc_ps begin = wall_ps();
  const uint64_t waited = collective_ns(exec);
  KC_ASSERT(step->sum.decodes + step->sum.chunks > 0);
  memset(exec->status, 0, exec->config.threads * sizeof *exec->status);
  KC_TRY(apply_delta(exec, step, diag));
  list_work(exec, step);
  KC_TRY(check_step(exec, step, diag));
  assign_waves(exec);
  KC_TRY(compute(exec, diag));
  kc_exec_fetch_events(exec, step->index);
  advance(exec);
  *result = (struct kc_step_result){0};
  report(exec, result);
  if (exec->config.probe != NULL && exec->config.integrity != KC_INTEGRITY_OFF) {
    exec->config.probe->after_step(exec->config.probe->context, exec, step);
  }
  exec->steps++;
  const kc_ps spent = wall_ps() - begin + 1000 * (kc_ps)(collective_ns(exec) - waited);
  result->duration_ps = spent > 0 ? spent : 1;
  if (exec->config.clock == NULL) return KC_OK;
  struct kc_step_result predicted;
  KC_TRY(exec->config.clock->run(exec->config.clock->context, step, &predicted, diag));
  result->duration_ps = predicted.duration_ps;
  return KC_OK;
}

struct kc_executor kc_exec_executor(struct kc_exec *exec)
{
  KC_ASSERT(exec->slot != NULL);
  KC_ASSERT(exec->config.requests != NULL);
  return (struct kc_executor){.context = exec, .name = exec->site.ops->name, .run = run};
}

const int32_t *kc_exec_output(const struct kc_exec *exec, uint32_t request, uint32_t *count)
{
  KC_ASSERT(request < exec->config.request_count);
  *count = exec->output_count[request];
  if (exec->output_first[request] == UINT64_MAX) return NULL;
  return exec->output + exec->output_first[request];
}
