/* ServeGen client pools (alibaba/ServeGen, Apache-2.0): a folder with two files a client,
 *
 *   chunk-<i>-trace.csv      no header; start_s, requests per second, CV, family, shape, scale
 *   chunk-<i>-dataset.json   {"0": {"input_tokens": "{81: 0.00145, ...}", "output_tokens": ...}}
 *
 * windows of 10 minutes of arrivals and of 6 hours of lengths. The distributions are Python dict
 * literals inside JSON strings; both are read by our own small scanner. */
#ifndef KC_TRACES_SYNTH_SERVEGEN_H
#define KC_TRACES_SYNTH_SERVEGEN_H

#include "traces/synth/synth.h"

enum {
  KC_SERVEGEN_CLIENTS_MAX = 4096,
  KC_SERVEGEN_WINDOWS_MAX = 1 << 20,     /* of one client */
  KC_SERVEGEN_BYTES_MAX = 1 << 30        /* of one file */
};

/* Arrivals of a client over a stretch of time. */
struct kc_client_window {
  kc_ps start_ps;
  uint64_t rate_nhz;
  enum kc_gap_family family;
  uint64_t shape_nano; /* gamma, Weibull */
};

/* Lengths of a client from start_ps on; counts may be 0 (nothing was seen). */
struct kc_client_lengths {
  kc_ps start_ps;
  struct kc_length_point *point[2]; /* heap: input, output; ranks */
  size_t count[2];
};

struct kc_client {
  uint32_t number; /* the <i> of its files */
  struct kc_client_window *window; /* heap, ascending */
  size_t window_count;
  struct kc_client_lengths *lengths; /* heap, ascending */
  size_t lengths_count;
  uint64_t ignored_keys; /* distributions other than the two, reason_ratio for one */
};

struct kc_client_pool {
  struct kc_client *client; /* heap, by number */
  size_t count;
  uint64_t without_lengths; /* clients left out: no dataset file, or one without distributions */
  kc_ps end_ps;             /* of the last window */
};

/* One client from the bytes of its files. Errors: KC_ERR_INPUT with line or column, KC_ERR_LIMIT,
 * KC_ERR_MEMORY; kc_client_free after either outcome. */
enum kc_err kc_client_read_windows(struct kc_client *client, const char *path, const char *data,
                                   size_t bytes, struct kc_diag *diag);
enum kc_err kc_client_read_lengths(struct kc_client *client, const char *path, const char *data,
                                   size_t bytes, struct kc_diag *diag);
void kc_client_free(struct kc_client *client);

/* All clients of a folder. Errors as above, and KC_ERR_FILE. */
enum kc_err kc_client_pool_load(struct kc_client_pool *pool, const char *folder,
                                struct kc_diag *diag);
void kc_client_pool_free(struct kc_client_pool *pool);

/* Requests of all clients of the pool from `from_ps` of the pool's clock on. `rate_nhz` 0 keeps the
 * pool's rates; else all are scaled so that the mean over the time made is this. duration_ps 0 = to
 * the pool's end. Errors as kc_synth_rows. */
struct kc_pool_spec {
  uint64_t seed;
  uint64_t rows;     /* at most so many, the earliest; 0 = all */
  kc_ps from_ps, duration_ps;
  uint64_t rate_nhz;
};
enum kc_err kc_synth_pool(struct kc_trace *trace, const struct kc_client_pool *pool,
                          const struct kc_pool_spec *spec, struct kc_diag *diag);

#endif
