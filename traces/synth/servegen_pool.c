/* A pool of ServeGen clients: its folder, and the requests that it makes.
 *
 *   folder --> chunk-0, chunk-1, ... by number --> each: windows = rate curve, own random streams
 *                                              --> all rows together, sorted by (arrival, client)
 *
 * A client's gaps have mean 1 and the shape of the window they start in; they are laid along the
 * rates, so bursts run over the edges of windows. The first gap is an equilibrium gap: with a CV of
 * 7 an ordinary first gap would add dozens of requests. Clients without lengths are left out and
 * counted: nobody knows what they sent. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/number.h"
#include "traces/synth/servegen.h"
#include "traces/synth/synth_build.h"

enum { PATH_BYTES = 4096 };

static const kc_ps last_window_ps = 600 * KC_PS_PER_S; /* when there is only one */

/* ---- loading ---- */

static enum kc_err read_file(struct kc_client *client, const char *path, bool windows,
                             struct kc_diag *diag)
{
  struct kc_file file;
  KC_TRY(kc_file_open(&file, path, KC_SERVEGEN_BYTES_MAX, diag));
  const char *data = file.bytes > 0 ? file.data : "";
  const enum kc_err err = windows
                              ? kc_client_read_windows(client, path, data, file.bytes, diag)
                              : kc_client_read_lengths(client, path, data, file.bytes, diag);
  kc_file_close(&file);
  return err;
}

static bool has_lengths(const struct kc_client *client)
{
  for (size_t i = 0; i < client->lengths_count; i++) {
    if (client->lengths[i].count[0] > 0 && client->lengths[i].count[1] > 0) return true;
  }
  return false;
}

static kc_ps end_of(const struct kc_client *client)
{
  const size_t count = client->window_count;
  const kc_ps start_ps = client->window[count - 1].start_ps;
  const kc_ps length_ps =
      count > 1 ? start_ps - client->window[count - 2].start_ps : last_window_ps;
  return length_ps < KC_PS_NEVER - 1 - start_ps ? start_ps + length_ps : KC_PS_NEVER - 1;
}

/* Reads the client's two files into the pool. */
static enum kc_err add_client(struct kc_client_pool *pool, const char *folder, uint32_t number,
                              struct kc_diag *diag)
{
  char path[PATH_BYTES];
  struct kc_client *const client = &pool->client[pool->count];
  *client = (struct kc_client){.number = number};
  pool->count++; /* from here on the pool frees it */
  if (snprintf(path, sizeof path, "%s/chunk-%u-trace.csv", folder, number) >= PATH_BYTES) {
    return kc_fail(diag, KC_ERR_LIMIT, "the path is longer than %d bytes", PATH_BYTES - 1);
  }
  KC_TRY(read_file(client, path, true, diag));
  snprintf(path, sizeof path, "%s/chunk-%u-dataset.json", folder, number);
  if (kc_file_exists(path)) KC_TRY(read_file(client, path, false, diag));
  if (!has_lengths(client)) {
    kc_client_free(client);
    pool->count--;
    pool->without_lengths++;
    return KC_OK;
  }
  if (end_of(client) > pool->end_ps) pool->end_ps = end_of(client);
  return KC_OK;
}

/* <i> of "chunk-<i>-trace.csv". */
static bool client_number(const char *name, uint32_t *number)
{
  const char *const before = "chunk-", *const behind = "-trace.csv";
  const size_t bytes = strlen(name), around = strlen(before) + strlen(behind);
  uint64_t value;
  if (bytes <= around || strncmp(name, before, strlen(before)) != 0) return false;
  if (strcmp(name + bytes - strlen(behind), behind) != 0) return false;
  const char *digits = name + strlen(before);
  const size_t count = bytes - around;
  for (size_t i = 0; i < count; i++) {
    if (digits[i] < '0' || digits[i] > '9') return false;
  }
  if (count > 1 && digits[0] == '0') return false; /* the name is made again from the number */
  if (!kc_parse_u64(digits, count, &value) || value > UINT32_MAX) return false;
  *number = (uint32_t)value;
  return true;
}

static int by_number(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Numbers of the folder's clients, ascending: the order of the folder itself is not an order. */
static enum kc_err list_clients(const char *folder, uint32_t *number, size_t *count,
                                struct kc_diag *diag)
{
  DIR *open = opendir(folder);
  *count = 0;
  if (open == NULL) {
    return kc_fail_at(diag, KC_ERR_FILE, folder, 0, 0, "the folder cannot be opened: %s",
                      strerror(errno));
  }
  for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
    uint32_t found;
    if (!client_number(entry->d_name, &found)) continue;
    if (*count == KC_SERVEGEN_CLIENTS_MAX) {
      closedir(open);
      return kc_fail_at(diag, KC_ERR_LIMIT, folder, 0, 0, "a pool has at most %d clients",
                        KC_SERVEGEN_CLIENTS_MAX);
    }
    number[(*count)++] = found;
  }
  closedir(open);
  if (*count == 0) {
    return kc_fail_at(diag, KC_ERR_FILE, folder, 0, 0,
                      "no client in this folder; expected files chunk-<i>-trace.csv");
  }
  qsort(number, *count, sizeof *number, by_number);
  return KC_OK;
}

static enum kc_err load(struct kc_client_pool *pool, const char *folder, struct kc_diag *diag)
{
  uint32_t number[KC_SERVEGEN_CLIENTS_MAX];
  size_t count;
  KC_TRY(list_clients(folder, number, &count, diag));
  pool->client = calloc(count, sizeof *pool->client);
  if (pool->client == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  for (size_t i = 0; i < count; i++) KC_TRY(add_client(pool, folder, number[i], diag));
  if (pool->count > 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, folder, 0, 0,
                    "no client has lengths; expected chunk-<i>-dataset.json beside the traces");
}

enum kc_err kc_client_pool_load(struct kc_client_pool *pool, const char *folder,
                                struct kc_diag *diag)
{
  *pool = (struct kc_client_pool){0};
  const enum kc_err err = load(pool, folder, diag);
  if (err != KC_OK) kc_client_pool_free(pool);
  return err;
}

void kc_client_pool_free(struct kc_client_pool *pool)
{
  for (size_t i = 0; i < pool->count; i++) kc_client_free(&pool->client[i]);
  free(pool->client);
  *pool = (struct kc_client_pool){0};
}

/* ---- making requests ---- */

/* Part of the pool's time. */
struct stretch {
  kc_ps from_ps, until_ps;
  uint64_t scale_up, scale_down; /* rates are multiplied by up / down */
};

/* Where a window's overlap with the stretch lies; false when there is none. */
static bool overlap(const struct kc_client *client, size_t window, const struct stretch *stretch,
                    kc_ps *from_ps, kc_ps *until_ps)
{
  *from_ps = client->window[window].start_ps;
  *until_ps = window + 1 < client->window_count ? client->window[window + 1].start_ps
                                                : end_of(client);
  if (*from_ps < stretch->from_ps) *from_ps = stretch->from_ps;
  if (*until_ps > stretch->until_ps) *until_ps = stretch->until_ps;
  return *from_ps < *until_ps;
}

/* Mean rate of the whole pool over the stretch, in nHz. */
static uint64_t mean_rate(const struct kc_client_pool *pool, const struct stretch *stretch)
{
  kc_u128 sum = 0;
  for (size_t i = 0; i < pool->count; i++) {
    const struct kc_client *const client = &pool->client[i];
    for (size_t w = 0; w < client->window_count; w++) {
      kc_ps from_ps, until_ps;
      if (!overlap(client, w, stretch, &from_ps, &until_ps)) continue;
      sum += (kc_u128)(uint64_t)(until_ps - from_ps) * client->window[w].rate_nhz;
    }
  }
  const kc_u128 mean = sum / (uint64_t)(stretch->until_ps - stretch->from_ps);
  return mean > UINT64_MAX ? UINT64_MAX : (uint64_t)mean;
}

/* The client's rates from the start of the stretch; *first is the window of piece 0, and *lead is 1
 * when a silent piece precedes it. */
static enum kc_err build_curve(struct kc_rate_curve *curve, const struct kc_client *client,
                               const struct stretch *stretch, size_t *first, size_t *lead,
                               struct kc_diag *diag)
{
  *lead = 0;
  *first = SIZE_MAX;
  for (size_t w = 0; w < client->window_count; w++) {
    kc_ps from_ps, until_ps;
    if (!overlap(client, w, stretch, &from_ps, &until_ps)) continue;
    if (*first == SIZE_MAX) {
      *first = w;
      *lead = from_ps > stretch->from_ps;
      if (*lead == 1) KC_TRY(kc_rate_curve_add(curve, from_ps - stretch->from_ps, 0, diag));
    }
    const kc_u128 scaled =
        (kc_u128)client->window[w].rate_nhz * stretch->scale_up / stretch->scale_down;
    const uint64_t rate = scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
    KC_TRY(kc_rate_curve_add(curve, until_ps - stretch->from_ps, rate, diag));
  }
  return KC_OK;
}

/* Lengths in force at an instant: the latest window that has any, else the earliest later one. */
static const struct kc_client_lengths *lengths_at(const struct kc_client *client, kc_ps when_ps)
{
  const struct kc_client_lengths *best = NULL;
  for (size_t i = 0; i < client->lengths_count; i++) {
    const struct kc_client_lengths *const candidate = &client->lengths[i];
    if (candidate->count[0] == 0 || candidate->count[1] == 0) continue;
    if (best != NULL && candidate->start_ps > when_ps) break;
    best = candidate;
  }
  KC_ASSERT(best != NULL);
  return best;
}

static void draw_lengths(const struct kc_client_lengths *from, struct kc_random *random,
                         struct kc_synth_item *item)
{
  const struct kc_lengths lengths = {.input = {from->point[0], from->count[0], false},
                                     .output = {from->point[1], from->count[1], false}};
  kc_lengths_draw(&lengths, random, &item->input_tokens, &item->output_tokens);
}

/* The window whose shape the next gap has: where the cursor stands, or the next one with a rate. */
static const struct kc_client_window *window_at(const struct kc_client *client,
                                                const struct kc_rate_cursor *cursor, size_t first,
                                                size_t lead)
{
  size_t w = first + (cursor->at > lead ? cursor->at - lead : 0);
  while (w + 1 < client->window_count && client->window[w].rate_nhz == 0) w++;
  return w < client->window_count && client->window[w].rate_nhz > 0 ? &client->window[w] : NULL;
}

static enum kc_err run_client(struct kc_synth_build *build, const struct kc_client *client,
                              const struct kc_rate_curve *curve, const struct stretch *stretch,
                              size_t first, size_t lead, uint64_t seed, struct kc_diag *diag)
{
  struct kc_random arrivals, lengths;
  struct kc_rate_cursor cursor;
  kc_random_init(&arrivals, seed, "servegen arrivals", client->number);
  kc_random_init(&lengths, seed, "servegen lengths", client->number);
  kc_rate_cursor_init(&cursor, curve);
  for (bool started = false;; started = true) {
    struct kc_synth_item item = {.after = KC_SYNTH_NO_ROW};
    const struct kc_client_window *const window = window_at(client, &cursor, first, lead);
    struct kc_gap gap;
    if (window == NULL) return KC_OK;
    kc_gap_init(&gap, window->family, window->shape_nano);
    const uint64_t gap_q32 =
        started ? kc_gap_draw_q32(&gap, &arrivals) : kc_gap_first_q32(&gap, &arrivals);
    if (!kc_rate_advance(&cursor, gap_q32, &item.arrival_ps)) return KC_OK;
    draw_lengths(lengths_at(client, stretch->from_ps + item.arrival_ps), &lengths, &item);
    KC_TRY(kc_synth_add(build, item, diag));
  }
}

static enum kc_err add_all(struct kc_synth_build *build, const struct kc_client_pool *pool,
                           const struct stretch *stretch, uint64_t seed, struct kc_diag *diag)
{
  enum kc_err err = KC_OK;
  for (size_t i = 0; i < pool->count && err == KC_OK; i++) {
    struct kc_rate_curve curve = {0};
    size_t first, lead;
    err = build_curve(&curve, &pool->client[i], stretch, &first, &lead, diag);
    if (err == KC_OK && first != SIZE_MAX) {
      err = run_client(build, &pool->client[i], &curve, stretch, first, lead, seed, diag);
    }
    kc_rate_curve_free(&curve);
  }
  return err;
}

enum kc_err kc_synth_pool(struct kc_trace *trace, const struct kc_client_pool *pool,
                          const struct kc_pool_spec *spec, struct kc_diag *diag)
{
  const struct kc_synth_shape plain = {.rows_max = spec->rows};
  struct stretch stretch = {spec->from_ps, pool->end_ps, 1, 1};
  struct kc_synth_build build = {0};
  KC_ASSERT(pool->count > 0);
  KC_ASSERT(spec->from_ps >= 0 && spec->duration_ps >= 0);
  memset(trace, 0, sizeof *trace);
  if (spec->from_ps >= pool->end_ps) {
    return kc_fail(diag, KC_ERR_INPUT, "the pool ends after %lld s, before the time asked for",
                   (long long)(pool->end_ps / KC_PS_PER_S));
  }
  if (spec->duration_ps > 0 && spec->duration_ps < pool->end_ps - spec->from_ps) {
    stretch.until_ps = spec->from_ps + spec->duration_ps;
  }
  if (spec->rate_nhz > 0) {
    stretch.scale_up = spec->rate_nhz;
    stretch.scale_down = mean_rate(pool, &stretch);
    if (stretch.scale_down == 0) {
      return kc_fail(diag, KC_ERR_INPUT, "nothing arrives in this part of the pool; take another");
    }
  }
  enum kc_err err = add_all(&build, pool, &stretch, spec->seed, diag);
  if (err == KC_OK) err = kc_synth_finish(&build, &plain, trace, diag);
  kc_synth_build_free(&build);
  return err;
}
