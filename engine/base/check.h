/* Assertions are for our own mistakes; they stay on in release builds.
 *
 * KC_ASSERT(x)      cheap invariant, always checked (compiled out only with KC_COVERAGE)
 * KC_ASSERT_SLOW(x) O(n) invariant, checked in the `check` preset (KC_CHECK)
 * KC_NEVER(x)       a defended impossibility: asserts in check builds, is plain `x` otherwise
 * KC_FAULT(name)    a switch that tests throw to break the program on purpose; false unless the
 *                   build has KC_FAULTS and the named fault is armed
 */
#ifndef KC_ENGINE_BASE_CHECK_H
#define KC_ENGINE_BASE_CHECK_H

#include <stdbool.h>

/* Prints file, line, function and the condition to stderr and aborts. */
_Noreturn void kc_assert_failed(const char *condition, const char *file, int line,
                                const char *function);

#ifdef KC_COVERAGE
/* Not evaluated, but its variables count as used. */
#define KC_ASSERT(x) ((void)sizeof((x) ? 1 : 0))
#else
#define KC_ASSERT(x) \
  (__builtin_expect(!(x), 0) ? kc_assert_failed(#x, __FILE__, __LINE__, __func__) : (void)0)
#endif

#ifdef KC_CHECK
#define KC_ASSERT_SLOW(x) KC_ASSERT(x)
#define KC_NEVER(x) \
  ((bool)((x) ? (kc_assert_failed("never: " #x, __FILE__, __LINE__, __func__), 1) : 0))
#else
#define KC_ASSERT_SLOW(x) ((void)0)
#define KC_NEVER(x) ((bool)(x))
#endif

#ifdef KC_FAULTS
/* True when `name` is the fault armed by the environment variable KVCAP_FAULT. Test builds only. */
bool kc_fault_armed(const char *name);
#define KC_FAULT(name) kc_fault_armed(name)
#else
#define KC_FAULT(name) false
#endif

#endif
