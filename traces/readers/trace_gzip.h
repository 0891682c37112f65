/* Inflates a gzip file held in memory, piece by piece, into a window that the caller consumes from.
 *
 *   compressed (borrowed) --inflate--> window [used bytes | free] --parser takes whole lines-->
 *
 * The window starts at 256 KiB and doubles only when one line does not fit, so a gigabyte trace
 * needs no gigabyte of memory. Several members in one file are read as one (RFC 1952, 2.2). */
#ifndef KC_TRACES_READERS_TRACE_GZIP_H
#define KC_TRACES_READERS_TRACE_GZIP_H

#include <zlib.h>

#include "engine/base/diag.h"

struct kc_gzip {
  z_stream stream;
  const char *data;   /* borrowed until deinit */
  size_t bytes;
  size_t taken;       /* compressed bytes handed to zlib */
  char *window;       /* heap */
  size_t capacity, used;
  uint64_t inflated;  /* bytes so far */
  bool ended;         /* the last member is complete */
};

/* Errors: KC_ERR_MEMORY. Deinit is due after success only. */
enum kc_err kc_gzip_init(struct kc_gzip *gzip, const char *data, size_t bytes,
                         struct kc_diag *diag);
void kc_gzip_deinit(struct kc_gzip *gzip);

/* Fills the window, growing it when it is full, until it is full or the file ends. Errors:
 * KC_ERR_INPUT damaged or cut short; KC_ERR_LIMIT more than `inflated_max`; KC_ERR_MEMORY. */
enum kc_err kc_gzip_fill(struct kc_gzip *gzip, uint64_t inflated_max, const char *path,
                         struct kc_diag *diag);

/* Inflates all of it at once into *text, which the caller frees; NULL after an error. Errors as
 * kc_gzip_fill. */
enum kc_err kc_gzip_whole(const char *data, size_t bytes, uint64_t inflated_max, const char *path,
                          char **text, size_t *text_bytes, struct kc_diag *diag);

/* Inflates what is left, keeps nothing of it, and fails as kc_gzip_fill does when it is damaged.
 * The sum of a member stands behind its data, so data that make no sense may be damaged ones. */
enum kc_err kc_gzip_check_rest(struct kc_gzip *gzip, uint64_t inflated_max, const char *path,
                               struct kc_diag *diag);

/* Drops the first `bytes` of the window. */
void kc_gzip_consume(struct kc_gzip *gzip, size_t bytes);

#endif
