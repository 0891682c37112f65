/* Memory and copies of a site. Nothing here is called in a step but send, fetch and wait. */
#include "engine/exec/site.h"

#include <dlfcn.h>
#include <string.h>

#include "engine/base/check.h"
#include "kernels/ref/ref.h"

enum { WHY_BYTES = 200 };

struct kc_site kc_site_host(void)
{
  return (struct kc_site){.ops = kc_ref_ops()};
}

struct kc_site kc_site_or_host(const struct kc_site *site)
{
  KC_ASSERT(site != NULL);
  return site->ops != NULL ? *site : kc_site_host();
}

/* ---- memory ---- */

enum kc_err kc_site_arena(const struct kc_site *site, struct kc_arena *arena, size_t bytes,
                          struct kc_diag *diag)
{
  KC_ASSERT(bytes > 0);
  if (kc_site_is_host(site)) return kc_arena_init(arena, bytes, diag);
  *arena = (struct kc_arena){.base = site->ops->allocate(site->context, bytes),
                             .capacity_bytes = bytes};
  if (arena->base != NULL) return KC_OK;
  return kc_fail(diag, KC_ERR_NO_FIT, "the device has no room for another %llu bytes",
                 (unsigned long long)bytes);
}

void kc_site_arena_free(const struct kc_site *site, struct kc_arena *arena)
{
  KC_ASSERT(arena != NULL);
  if (arena->base == NULL) return;
  if (kc_site_is_host(site)) kc_arena_deinit(arena);
  else site->ops->release(site->context, arena->base);
  *arena = (struct kc_arena){0};
}

enum kc_err kc_site_pinned(const struct kc_site *site, struct kc_arena *arena, size_t bytes,
                           struct kc_diag *diag)
{
  KC_ASSERT(bytes > 0);
  if (kc_site_is_host(site)) return kc_arena_init(arena, bytes, diag);
  *arena = (struct kc_arena){.base = site->module->pinned_allocate(site->context, bytes),
                             .capacity_bytes = bytes};
  if (arena->base == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "no pinned memory for %llu bytes",
                   (unsigned long long)bytes);
  }
  memset(arena->base, 0, bytes);
  return KC_OK;
}

void kc_site_pinned_free(const struct kc_site *site, struct kc_arena *arena)
{
  KC_ASSERT(arena != NULL);
  if (arena->base == NULL) return;
  if (kc_site_is_host(site)) kc_arena_deinit(arena);
  else site->module->pinned_release(site->context, arena->base);
  *arena = (struct kc_arena){0};
}

/* ---- copies ---- */

enum kc_op_status kc_site_put(const struct kc_site *site, void *to, const void *from,
                              uint64_t bytes)
{
  KC_ASSERT(to != NULL && from != NULL);
  return to == from ? KC_OP_OK : site->ops->upload(site->context, to, from, bytes);
}

enum kc_op_status kc_site_send(const struct kc_site *site, void *to, const void *from,
                               uint64_t bytes)
{
  KC_ASSERT(!kc_site_is_host(site) || to == from);
  if (kc_site_is_host(site)) return KC_OP_OK;
  return site->module->send(site->context, to, from, bytes);
}

enum kc_op_status kc_site_fetch(const struct kc_site *site, void *to, const void *from,
                                uint64_t bytes)
{
  KC_ASSERT(!kc_site_is_host(site) || to == from);
  if (kc_site_is_host(site)) return KC_OP_OK;
  return site->module->fetch(site->context, to, from, bytes);
}

enum kc_op_status kc_site_wait(const struct kc_site *site)
{
  return kc_site_is_host(site) ? KC_OP_OK : site->ops->synchronise(site->context);
}

/* ---- errors ---- */

enum kc_err kc_site_fail(const struct kc_site *site, enum kc_op_status status, const char *what,
                         struct kc_diag *diag)
{
  KC_ASSERT(status != KC_OP_OK);
  const char *said = site->ops->error(site->context);
  switch (status) {
    case KC_OP_UNSUPPORTED:
      return kc_fail(diag, KC_ERR_DEVICE, "%s: no kernel of \"%s\" has this shape or format", what,
                     site->ops->name);
    case KC_OP_STOPPED:
      return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted in a step; nothing of this run was "
                     "kept");
    case KC_OP_MEMORY:
      return kc_fail(diag, KC_ERR_NO_FIT, "%s: the device has no memory left", what);
    default:
      return kc_fail(diag, KC_ERR_DEVICE, "%s: \"%s\" %s%s", what, site->ops->name,
                     said[0] != '\0' ? "says: " : "refused its arguments", said);
  }
}

/* ---- devices ---- */

static const struct kc_module *look_up(struct kc_accelerator *device, const char *path,
                                       struct kc_diag *diag)
{
  const struct kc_module *(*table)(void) = NULL;
  device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (device->library == NULL) {
    const char *why = dlerror();
    kc_fail(diag, KC_ERR_DEVICE, "the GPU's module cannot be opened (%.160s): build it with "
            "-DKC_CUDA=ON", why != NULL ? why : path);
    return NULL;
  }
  void *symbol = dlsym(device->library, KC_MODULE_SYMBOL);
  memcpy(&table, &symbol, sizeof table); /* ISO C has no other way from object to function */
  const struct kc_module *module = table != NULL ? table() : NULL;
  if (module != NULL && module->version == KC_MODULE_VERSION) return module;
  kc_fail(diag, KC_ERR_DEVICE, "%.160s is not a module of this version of kvcap: build both "
          "together", path);
  return NULL;
}

enum kc_err kc_accelerator_open(struct kc_accelerator *device, const char *path, int index,
                                struct kc_diag *diag)
{
  char why[WHY_BYTES] = "the GPU cannot be used";
  KC_ASSERT(path != NULL && index >= 0);
  *device = (struct kc_accelerator){0};
  const struct kc_module *module = look_up(device, path, diag);
  enum kc_err err = module != NULL ? KC_OK : KC_ERR_DEVICE;
  if (err == KC_OK) {
    device->site = (struct kc_site){.ops = module->ops, .module = module};
    if (module->create(index, &device->site.context, why, sizeof why) != KC_OP_OK) {
      err = kc_fail(diag, KC_ERR_DEVICE, "%s: use a machine with a GPU of sm_90", why);
    }
  }
  if (err == KC_OK) err = kc_accelerator_info(device, diag);
  if (err != KC_OK) kc_accelerator_close(device);
  return err;
}

enum kc_err kc_accelerator_info(struct kc_accelerator *device, struct kc_diag *diag)
{
  struct kc_site *site = &device->site;
  KC_ASSERT(!kc_site_is_host(site));
  const enum kc_op_status status = site->module->info(site->context, &device->info);
  if (status != KC_OP_OK) return kc_site_fail(site, status, "the GPU's properties", diag);
  KC_ASSERT(device->info.sm_count > 0);
  site->sm_count = (uint32_t)device->info.sm_count;
  return KC_OK;
}

void kc_accelerator_close(struct kc_accelerator *device)
{
  KC_ASSERT(device != NULL);
  if (device->site.context != NULL) device->site.module->destroy(device->site.context);
  if (device->library != NULL) (void)dlclose(device->library);
  *device = (struct kc_accelerator){0};
}
