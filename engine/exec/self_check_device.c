/* See self_check_device.h. */
#include "engine/exec/self_check_device.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/base/check.h"

enum { STACK_BYTES = 1 << 20 };

/* ---- operations that wait ---- */

#define WAITING(name)                                                                   \
  static enum kc_op_status wait_##name(void *context, const struct kc_op_##name *op)    \
  {                                                                                     \
    const struct kc_site *site = context;                                               \
    const enum kc_op_status status = site->ops->name(site->context, op);                \
    return status != KC_OP_OK ? status : site->ops->synchronise(site->context);         \
  }
WAITING(gather)
WAITING(rms_norm)
WAITING(rope)
WAITING(gemm)
WAITING(head_gemm)
WAITING(dequantise)
WAITING(quantise_rows)
WAITING(swiglu)
WAITING(sample)
WAITING(kv_write)
WAITING(decode)
WAITING(prefill)
WAITING(tag_check)
WAITING(route)
WAITING(moe_sort)
WAITING(grouped_gemm)
WAITING(moe_combine)
#undef WAITING

/* Only what checks call. */
static const struct kc_ops waiting = {
    .name = "waiting",
    .gather = wait_gather,
    .rms_norm = wait_rms_norm,
    .rope = wait_rope,
    .gemm = wait_gemm,
    .head_gemm = wait_head_gemm,
    .dequantise = wait_dequantise,
    .quantise_rows = wait_quantise_rows,
    .swiglu = wait_swiglu,
    .sample = wait_sample,
    .kv_write = wait_kv_write,
    .decode = wait_decode,
    .prefill = wait_prefill,
    .tag_check = wait_tag_check,
    .route = wait_route,
    .moe_sort = wait_moe_sort,
    .grouped_gemm = wait_grouped_gemm,
    .moe_combine = wait_moe_combine,
};

/* ---- a thread on pinned memory ---- */

struct job {
  const struct kc_site *site;
  const struct kc_self_check *check;
  char *text;
  bool passed;
};

static void *run_job(void *argument)
{
  struct job *job = argument;
  KC_ASSERT(job->check->run != NULL);
  job->passed = job->check->run(&waiting, (void *)(uintptr_t)job->site, job->text);
  return NULL;
}

static bool run_on(struct job *job, void *stack)
{
  pthread_attr_t attributes;
  pthread_t thread;
  KC_ASSERT(stack != NULL);
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool started = pthread_attr_setstack(&attributes, stack, STACK_BYTES) == 0 &&
                       pthread_create(&thread, &attributes, run_job, job) == 0;
  (void)pthread_attr_destroy(&attributes);
  return started && pthread_join(thread, NULL) == 0;
}

bool kc_self_check_at(const struct kc_site *site, const struct kc_self_check *check,
                      char text[KC_SELF_CHECK_TEXT_BYTES])
{
  struct kc_arena stack;
  struct kc_diag diag = {0};
  KC_ASSERT(check != NULL);
  if (kc_site_is_host(site)) return check->run(site->ops, site->context, text);
  /* A page more than needed: the stack begins at one. */
  if (kc_site_pinned(site, &stack, STACK_BYTES + 4096, &diag) != KC_OK) {
    snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "%.100s", diag.text);
    return false;
  }
  struct job job = {.site = site, .check = check, .text = text};
  const uintptr_t page = ((uintptr_t)stack.base + 4095) / 4096 * 4096;
  if (!run_on(&job, (void *)page)) {
    snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "no thread could be started on pinned memory");
  }
  kc_site_pinned_free(site, &stack);
  return job.passed;
}
