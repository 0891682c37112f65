/* Sweeps in the database: one row a sweep, one a point, one a figure.
 *
 *   sweep 1 --- n point 1 --- n point_set      what was varied, and to what
 *                       +--- n point_figure   what is known of it
 *
 * A sweep is known by its digest: the same question asked again adds to the same rows. Points are
 * written in batches of one transaction each; a killed process loses at most the unfinished batch.
 */
#ifndef KC_SIM_STORE_STORE_SWEEP_H
#define KC_SIM_STORE_STORE_SWEEP_H

#include "sim/store/store.h"

/* The question. Strings are borrowed for the call. */
struct kc_sweep_header {
  const char *name;
  const char *sweep_sha256;    /* of all that follows */
  const char *scenario_sha256, *scenario_text; /* of the file, before changes */
  const char *sets;            /* changes of every point, one a line */
  const char *axes;            /* kc_vary_text */
  uint64_t points;             /* of the whole sweep, whatever this file holds of it */
};

struct kc_stored_pair {
  const char *key, *value;
};

struct kc_stored_figure {
  const char *name;
  double value;                /* finite */
};

/* A point and its answer. Strings are borrowed: by writing for the call, by reading until the
 * visitor returns. */
struct kc_stored_point {
  uint64_t number;             /* from 0 */
  const char *status;          /* "done", "no_fit", "refused", "failed" */
  const char *reason;          /* one sentence; "" when done */
  const char *trust;           /* "calibrated", ...; "" when nothing ran */
  const char *config_sha256, *result_sha256; /* "" = none */
  uint32_t set_count, figure_count;
  const struct kc_stored_pair *set;
  const struct kc_stored_figure *figure;
};

/* The row of the sweep, made if there is none; *sweep_id is its number. Errors KC_ERR_STORE. */
enum kc_err kc_store_sweep_begin(struct kc_store *store, const struct kc_sweep_header *header,
                                 int64_t *sweep_id, struct kc_diag *diag);

/* Writes the points in one transaction, in place of what was stored of them before. */
enum kc_err kc_store_points_write(struct kc_store *store, int64_t sweep_id,
                                  const struct kc_stored_point *points, size_t count,
                                  struct kc_diag *diag);

/* Calls `visit` for every point of every sweep that was run to its end, or does not fit. */
typedef enum kc_err (*kc_known_visitor)(void *context, const char *config_sha256,
                                        int64_t sweep_id, uint64_t number);
enum kc_err kc_store_each_known(struct kc_store *store, kc_known_visitor visit, void *context,
                                struct kc_diag *diag);

/* Calls `visit` with one point, or with every point of the sweep in order (number UINT64_MAX). Its
 * error ends the walk and is returned. KC_ERR_INPUT when there is no such point. */
typedef enum kc_err (*kc_point_visitor)(void *context, const struct kc_stored_point *point);
enum kc_err kc_store_each_point(struct kc_store *store, int64_t sweep_id, uint64_t number,
                                kc_point_visitor visit, void *context, struct kc_diag *diag);

/* A sweep in one line. Strings are valid during the call. */
struct kc_sweep_brief {
  int64_t id;
  const char *name, *sweep_sha256;
  int64_t points;              /* of the whole sweep */
  int64_t done, no_fit, refused, failed; /* of them, in this file */
};
typedef enum kc_err (*kc_sweep_visitor)(void *context, const struct kc_sweep_brief *sweep);
enum kc_err kc_store_each_sweep(struct kc_store *store, kc_sweep_visitor visit, void *context,
                                struct kc_diag *diag);

/* ---- merging and comparing files ---- */

/* Adds the sweeps of the files to those of `store`, each file in one transaction. A point that two
 * have must say the same in both, or KC_ERR_STORE names it; one that failed gives way to one that
 * did not. New sweeps are numbered in the order of their digests, so the rows do not depend on how
 * points were dealt out to the files, nor on the order of the files. */
enum kc_err kc_store_merge(struct kc_store *store, const char *const *from, size_t count,
                           struct kc_diag *diag);

/* SHA-256 over all rows of a table in the order of its key, types and values: calls `visit` for
 * every table, by name, but those that hold facts of a machine (host, measurement). */
typedef enum kc_err (*kc_table_visitor)(void *context, const char *table, uint64_t rows,
                                        const char *sha256);
enum kc_err kc_store_each_table(struct kc_store *store, kc_table_visitor visit, void *context,
                                struct kc_diag *diag);

#endif
