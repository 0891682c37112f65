/* See graphs.h. */
#include "engine/exec/graphs.h"

#include <string.h>

#include "engine/base/check.h"

/* Steps widen with the size, so padding costs at most an eighth of the rows from 32 on. */
uint32_t kc_graphs_rows(uint32_t index)
{
  KC_ASSERT(index < KC_GRAPHS_MAX);
  if (index < 3) return 1u << index;             /* 1, 2, 4 */
  if (index < 18) return 4 * (index - 1);        /* 8, 12, ..., 64 */
  if (index < 26) return 64 + 8 * (index - 17);  /* 72, ..., 128 */
  if (index < 34) return 128 + 16 * (index - 25);
  return 256 + 32 * (index - 33);
}

uint32_t kc_graphs_find(uint32_t rows)
{
  uint32_t index = 0;
  KC_ASSERT(rows > 0);
  while (index < KC_GRAPHS_MAX && kc_graphs_rows(index) < rows) index++;
  return index;
}

static enum kc_op_status capture(struct kc_graphs *graphs, const struct kc_site *site,
                                 uint32_t index, enum kc_op_status (*body)(void *context),
                                 void *context)
{
  const struct kc_module *module = site->module;
  void *graph = NULL;
  KC_ASSERT(graphs->graph[index] == NULL);
  enum kc_op_status status = module->capture_begin(site->context);
  if (status != KC_OP_OK) return status;
  status = body(context);
  const enum kc_op_status ended = module->capture_end(site->context, &graph);
  if (status == KC_OP_OK) status = ended;
  if (status != KC_OP_OK) {
    if (graph != NULL) module->graph_destroy(site->context, graph);
    return status;
  }
  graphs->graph[index] = graph;
  graphs->captured++;
  return KC_OP_OK;
}

enum kc_op_status kc_graphs_run(struct kc_graphs *graphs, const struct kc_site *site,
                                uint32_t index, enum kc_op_status (*body)(void *context),
                                void *context)
{
  KC_ASSERT(index < KC_GRAPHS_MAX && !kc_site_is_host(site));
  if (!graphs->seen[index]) {
    graphs->seen[index] = true;
    return body(context);
  }
  if (graphs->graph[index] == NULL) {
    const enum kc_op_status status = capture(graphs, site, index, body, context);
    if (status != KC_OP_OK) return status;
  }
  graphs->launched++;
  return site->module->graph_launch(site->context, graphs->graph[index]);
}

void kc_graphs_free(struct kc_graphs *graphs, const struct kc_site *site)
{
  KC_ASSERT(graphs != NULL);
  for (uint32_t i = 0; i < KC_GRAPHS_MAX; i++) {
    if (graphs->graph[i] != NULL) site->module->graph_destroy(site->context, graphs->graph[i]);
  }
  memset(graphs, 0, sizeof *graphs);
}
