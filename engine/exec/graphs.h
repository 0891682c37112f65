/* Graphs of a decode pass: one for each padded batch size, captured when the size comes up.
 *
 *   sizes   1 2 4 8 12 16 20 24 ... 64 72 80 ... 128 144 ... 256 ...
 *
 * The first pass of a size runs as it is (libraries make their choices then), the second is
 * captured, all later ones are one launch. A graph holds pointers and launch sizes, so everything
 * that differs from pass to pass lies in memory that is sent before.
 */
#ifndef KC_ENGINE_EXEC_GRAPHS_H
#define KC_ENGINE_EXEC_GRAPHS_H

#include "engine/exec/site.h"

enum { KC_GRAPHS_MAX = 64 };

struct kc_graphs {
  void *graph[KC_GRAPHS_MAX]; /* NULL: not captured yet */
  bool seen[KC_GRAPHS_MAX];
  uint64_t captured, launched;
};

/* The place of the size that holds `rows` rows, KC_GRAPHS_MAX when none does; and that size. */
uint32_t kc_graphs_find(uint32_t rows);
uint32_t kc_graphs_rows(uint32_t index);

/* Runs body(context), by graph where there is one. */
enum kc_op_status kc_graphs_run(struct kc_graphs *graphs, const struct kc_site *site,
                                uint32_t index, enum kc_op_status (*body)(void *context),
                                void *context);
void kc_graphs_free(struct kc_graphs *graphs, const struct kc_site *site);

#endif
