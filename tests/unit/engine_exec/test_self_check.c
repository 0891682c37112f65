/* The engine's check of itself passes on the reference, and notices every operation that does
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/exec/self_check.h"
#include "kernels/ref/ref.h"

static unsigned failures(const struct kc_ops *ops, const char **last)
{
  size_t count;
  unsigned failed = 0;
  const struct kc_self_check *checks = kc_self_checks(&count);
  for (size_t i = 0; i < count; i++) {
    char text[KC_SELF_CHECK_TEXT_BYTES] = "";
    if (checks[i].run(ops, NULL, text)) continue;
    *last = checks[i].name;
    failed++;
  }
  return failed;
}

static void reference_passes(void **state)
{
  (void)state;
  const char *last = "";
  if (failures(kc_ref_ops(), &last) > 0) fail_msg("%s", last);
}

/* Operations differ in the type of their argument alone. */
static enum kc_op_status nothing(void *context, const void *op)
{
  (void)context, (void)op;
  return KC_OP_OK;
}

static void idle_operations_are_noticed(void **state)
{
  (void)state;
  static const size_t places[] = {
      offsetof(struct kc_ops, gather), offsetof(struct kc_ops, rms_norm),
      offsetof(struct kc_ops, rope), offsetof(struct kc_ops, gemm),
      offsetof(struct kc_ops, head_gemm), offsetof(struct kc_ops, dequantise),
      offsetof(struct kc_ops, quantise_rows),
      offsetof(struct kc_ops, swiglu), offsetof(struct kc_ops, sample),
      offsetof(struct kc_ops, kv_write), offsetof(struct kc_ops, decode),
      offsetof(struct kc_ops, prefill), offsetof(struct kc_ops, tag_check),
      offsetof(struct kc_ops, grouped_gemm), offsetof(struct kc_ops, moe_combine)};
  enum kc_op_status (*const idle)(void *, const void *) = nothing;
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *last = "";
    struct kc_ops broken = *kc_ref_ops();
    memcpy((char *)&broken + places[i], &idle, sizeof idle);
    if (failures(&broken, &last) == 0) fail_msg("operation %zu may do nothing", i);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_passes),
      cmocka_unit_test(idle_operations_are_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
