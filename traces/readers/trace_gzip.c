/* Streaming gzip by zlib. inflateInit2 with 16 + 15 takes gzip framing and the largest window, and
 * checks the CRC and length at the end of each member. gzopen is not used: it wants a descriptor
 * and passes plain files through unseen, where we hold mapped bytes and want to know.
 *
 * Owns the window and zlib's state, both from malloc (set-up, never a step loop); borrows the
 * compressed bytes. */
#include "traces/readers/trace_gzip.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { WINDOW_BYTES = 256 << 10, PIECE_BYTES = 1 << 20 };

static enum kc_err no_memory(struct kc_diag *diag, size_t bytes)
{
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu bytes to inflate a gzip trace", bytes);
}

enum kc_err kc_gzip_init(struct kc_gzip *gzip, const char *data, size_t bytes, struct kc_diag *diag)
{
  KC_ASSERT(data != NULL && bytes > 0);
  memset(gzip, 0, sizeof *gzip);
  gzip->data = data;
  gzip->bytes = bytes;
  gzip->capacity = WINDOW_BYTES;
  gzip->window = KC_FAULT("trace_gzip_memory") ? NULL : malloc(gzip->capacity);
  if (gzip->window == NULL) return no_memory(diag, gzip->capacity);
  if (inflateInit2(&gzip->stream, 16 + 15) != Z_OK) {
    free(gzip->window);
    return no_memory(diag, WINDOW_BYTES);
  }
  return KC_OK;
}

void kc_gzip_deinit(struct kc_gzip *gzip)
{
  (void)inflateEnd(&gzip->stream);
  free(gzip->window);
  memset(gzip, 0, sizeof *gzip);
}

static enum kc_err grow(struct kc_gzip *gzip, struct kc_diag *diag)
{
  char *const larger = realloc(gzip->window, gzip->capacity * 2);
  if (larger == NULL) return no_memory(diag, gzip->capacity * 2);
  gzip->window = larger;
  gzip->capacity *= 2;
  return KC_OK;
}

/* zlib counts in 32 bits, so the input goes in pieces. */
static void offer_input(struct kc_gzip *gzip)
{
  if (gzip->stream.avail_in > 0 || gzip->taken == gzip->bytes) return;
  const size_t left = gzip->bytes - gzip->taken;
  const size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
  /* zlib's interface lacks the const that its implementation keeps. */
  gzip->stream.next_in = (z_const Bytef *)(uintptr_t)(gzip->data + gzip->taken);
  gzip->stream.avail_in = (uInt)piece;
  gzip->taken += piece;
}

/* A flipped bit shows where the code breaks, or at the end of its member, whose sum is wrong. */
static enum kc_err fail_damaged(const struct kc_gzip *gzip, const char *path, struct kc_diag *diag)
{
  const uint64_t at = gzip->taken - gzip->stream.avail_in;
  KC_ASSERT(at <= gzip->bytes);
  return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                    "gzip data is damaged at or before byte %llu of %zu, after %llu inflated bytes "
                    "(%s); fetch it again", (unsigned long long)at, gzip->bytes,
                    (unsigned long long)gzip->inflated,
                    gzip->stream.msg != NULL ? gzip->stream.msg : "unknown kind");
}

/* After a member: done, or the next one follows. */
static enum kc_err end_member(struct kc_gzip *gzip, const char *path, struct kc_diag *diag)
{
  offer_input(gzip);
  if (gzip->stream.avail_in == 0) {
    gzip->ended = true;
    return KC_OK;
  }
  if (inflateReset(&gzip->stream) != Z_OK) {
    return fail_damaged(gzip, path, diag);
  }
  return KC_OK;
}

static enum kc_err inflate_some(struct kc_gzip *gzip, const char *path, struct kc_diag *diag)
{
  const size_t room = gzip->capacity - gzip->used;
  KC_ASSERT(room > 0);
  offer_input(gzip);
  gzip->stream.next_out = (Bytef *)gzip->window + gzip->used;
  gzip->stream.avail_out = (uInt)(room < PIECE_BYTES ? room : PIECE_BYTES);
  const uInt offered = gzip->stream.avail_out;
  const int status = inflate(&gzip->stream, Z_NO_FLUSH);
  const size_t made = offered - gzip->stream.avail_out;
  gzip->used += made;
  gzip->inflated += made;
  if (status == Z_STREAM_END) return end_member(gzip, path, diag);
  if (status == Z_MEM_ERROR) return no_memory(diag, WINDOW_BYTES);
  if (status == Z_BUF_ERROR) {
    return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                      "gzip data ends early, after %llu inflated bytes; fetch it again",
                      (unsigned long long)gzip->inflated);
  }
  return status == Z_OK ? KC_OK : fail_damaged(gzip, path, diag);
}

enum kc_err kc_gzip_fill(struct kc_gzip *gzip, uint64_t inflated_max, const char *path,
                         struct kc_diag *diag)
{
  KC_ASSERT(gzip->used <= gzip->capacity);
  if (gzip->used == gzip->capacity) KC_TRY(grow(gzip, diag));
  while (!gzip->ended && gzip->used < gzip->capacity) {
    KC_TRY(inflate_some(gzip, path, diag));
    if (gzip->inflated > inflated_max) {
      return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0,
                        "inflates to more than %llu bytes, the ceiling of a trace; split it",
                        (unsigned long long)inflated_max);
    }
  }
  return KC_OK;
}

enum kc_err kc_gzip_check_rest(struct kc_gzip *gzip, uint64_t inflated_max, const char *path,
                               struct kc_diag *diag)
{
  while (!gzip->ended && gzip->inflated <= inflated_max) {
    gzip->used = 0;
    KC_TRY(inflate_some(gzip, path, diag));
  }
  return KC_OK;
}

void kc_gzip_consume(struct kc_gzip *gzip, size_t bytes)
{
  KC_ASSERT(bytes <= gzip->used);
  gzip->used -= bytes;
  memmove(gzip->window, gzip->window + bytes, gzip->used);
}

enum kc_err kc_gzip_whole(const char *data, size_t bytes, uint64_t inflated_max, const char *path,
                          char **text, size_t *text_bytes, struct kc_diag *diag)
{
  struct kc_gzip gzip;
  KC_ASSERT(data != NULL && bytes > 0);
  *text = NULL;
  KC_TRY(kc_gzip_init(&gzip, data, bytes, diag));
  enum kc_err err = KC_OK;
  while (err == KC_OK && !gzip.ended) err = kc_gzip_fill(&gzip, inflated_max, path, diag);
  if (err == KC_OK) {
    *text = gzip.window; /* all of it, as nothing was consumed */
    *text_bytes = gzip.used;
    gzip.window = NULL;
  }
  kc_gzip_deinit(&gzip);
  return err;
}
