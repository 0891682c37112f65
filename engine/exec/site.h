/* Where operations run and where their memory lies: on the host, or on a device behind a module.
 *
 *   host     the reference operations; what the host writes is what they read
 *   device   operations of a module (op_module.h); arrays exist twice, and what the host writes is
 *            sent before it is read
 *
 * An arena of a site is an ordinary kc_arena whose memory may be the device's: it is carved up in
 * the same way, but only operations and copies touch it.
 */
#ifndef KC_ENGINE_EXEC_SITE_H
#define KC_ENGINE_EXEC_SITE_H

#include "engine/base/arena.h"
#include "kernels/ops/op_module.h"

struct kc_site {
  const struct kc_ops *ops; /* NULL in a zeroed site, which is read as the host */
  void *context;
  const struct kc_module *module; /* NULL: the host */
  uint32_t sm_count;              /* of a device */
};

struct kc_site kc_site_host(void);
/* The site itself, or the host where it is zeroed. */
struct kc_site kc_site_or_host(const struct kc_site *site);
static inline bool kc_site_is_host(const struct kc_site *site)
{
  return site->module == NULL;
}

/* Memory that operations reach. KC_ERR_MEMORY, KC_ERR_LIMIT (host); KC_ERR_NO_FIT when the device
 * has no room. Freeing an arena that was never made is allowed. */
enum kc_err kc_site_arena(const struct kc_site *site, struct kc_arena *arena, size_t bytes,
                          struct kc_diag *diag);
void kc_site_arena_free(const struct kc_site *site, struct kc_arena *arena);

/* Memory of the host that copies to and from the device reach without a stop. Zeroed. */
enum kc_err kc_site_pinned(const struct kc_site *site, struct kc_arena *arena, size_t bytes,
                           struct kc_diag *diag);
void kc_site_pinned_free(const struct kc_site *site, struct kc_arena *arena);

/* Copies during set-up; `to` and `from` may be the same on the host. Waits. */
enum kc_op_status kc_site_put(const struct kc_site *site, void *to, const void *from,
                              uint64_t bytes);
/* Copies in order with the operations; the host's memory is pinned and stays as it is until
 * kc_site_wait. On the host both must be the same memory, and nothing happens. */
enum kc_op_status kc_site_send(const struct kc_site *site, void *to, const void *from,
                               uint64_t bytes);
enum kc_op_status kc_site_fetch(const struct kc_site *site, void *to, const void *from,
                                uint64_t bytes);
enum kc_op_status kc_site_wait(const struct kc_site *site);

/* The error of an operation that was refused: KC_ERR_DEVICE, KC_ERR_NO_FIT for memory, or
 * KC_ERR_INTERRUPTED; `what` is a few words, "the tag check". */
enum kc_err kc_site_fail(const struct kc_site *site, enum kc_op_status status, const char *what,
                         struct kc_diag *diag);

/* ---- devices ---- */

/* A module, opened, and a context on one device of it. */
struct kc_accelerator {
  struct kc_site site;
  struct kc_module_info info;
  void *library;
};

/* `path` of the module. KC_ERR_DEVICE with a sentence about what is missing: the module, the
 * driver, the device, or its age. */
enum kc_err kc_accelerator_open(struct kc_accelerator *device, const char *path, int index,
                                struct kc_diag *diag);
/* What is free now; info is read again. */
enum kc_err kc_accelerator_info(struct kc_accelerator *device, struct kc_diag *diag);
void kc_accelerator_close(struct kc_accelerator *device);

#endif
