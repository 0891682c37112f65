/* How much a quick run does: all of it in optimised builds, a tenth in unoptimised or sanitized
 * ones, which are about ten times slower. */
#ifndef KC_TESTS_PROP_QUICK_SCALE_H
#define KC_TESTS_PROP_QUICK_SCALE_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUICK_SCALE_SLOW
#endif
#endif
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUICK_SCALE_SLOW
#endif

#ifdef QUICK_SCALE_SLOW
#define QUICK_SCALE(n) ((n) / 10)
#else
#define QUICK_SCALE(n) (n)
#endif

#endif
