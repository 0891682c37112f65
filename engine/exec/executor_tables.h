/* The executor's tables, here and on a device: for executor.c alone. */
#ifndef KC_ENGINE_EXEC_EXECUTOR_TABLES_H
#define KC_ENGINE_EXEC_EXECUTOR_TABLES_H

#include "engine/exec/executor.h"

struct kc_exec_array {
  void *to; /* points to a pointer of some type */
  size_t count, size;
};

/* Takes the arrays, or counts their bytes when there is no arena; SIZE_MAX beyond all bounds. */
size_t kc_exec_lay_out(const struct kc_exec_array *array, size_t count, struct kc_arena *arena,
                       bool *failed);
size_t kc_exec_lay_out_tables(const struct kc_exec *exec, struct kc_exec_tables *tables,
                              struct kc_arena *arena, bool *failed);

/* Tables on both sides, verdicts clear and tags as no page has them. */
enum kc_err kc_exec_take_tables(struct kc_exec *exec, struct kc_arena *arena,
                                struct kc_diag *diag);
void kc_exec_free_tables(struct kc_exec *exec); /* a device's */

/* Sends a part of the host's tables to its place on the device. A refusal is kept in status[0]
 * until the step looks. */
void kc_exec_send(struct kc_exec *exec, void *to, const void *from, uint64_t bytes);
/* Verdicts and counters, as they stand when the device gets there; not waited for. */
void kc_exec_fetch_verdicts(struct kc_exec *exec);
/* New events; waits when there are any. */
void kc_exec_fetch_events(struct kc_exec *exec, uint64_t step);
/* Compares every entry that the step's slots hold with the pool's tags and places. */
enum kc_op_status kc_exec_check_tags(struct kc_exec *exec, const struct kc_step *step);
/* Sends what a probe may have changed: rows, tags, places. */
void kc_exec_send_probed(struct kc_exec *exec);

#endif
