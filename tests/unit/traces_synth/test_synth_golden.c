/* The same bytes everywhere: digests of traces over many parameters, committed. A change here is a
 * change of every user's synthetic traces; the program's version must then say so.
 *
 * Run with "print" to see the digests of this build (tests/prop/test_synth_compilers.sh compares
 * them between compilers and levels of optimisation). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "synth_support.h"

struct golden {
  const char *name, *preset;
  struct kc_synth_spec spec;
  bool sessions, like;
  const char *digest;
};

#define WEEK {.rate_nhz = 1500000000, .diurnal_nano = 700000000, .weekend_nano = 300000000, \
              .weekly = true, .start_ps = 100 * 3600 * KC_PS_PER_S,                         \
              .burst_every_ps = 3600 * KC_PS_PER_S, .burst_length_ps = 90 * KC_PS_PER_S,    \
              .burst_factor_nano = 6000000000}
#define STEADY {.rate_nhz = 3333333333}
#define AGENTS {.turns_nano = 3000000000, .tools_nano = 5500000000, .think_ps = 60 * KC_PS_PER_S, \
                .tool_ps = 5 * KC_PS_PER_S, .system_tokens = 9000, .system_prompts = 5,           \
                .block_tokens = 64, .context_tokens = 60000, .token_ps = 20 * KC_PS_PER_MS}

static const struct golden goldens[] = {
  {"constant", "conversation", {.seed = 1, .rows = 2000, .family = KC_GAP_CONSTANT, .rate = STEADY},
   false, false, "3c3a590c623433f9f473573353ac85819c607d0662c1c0a647a7f7abb0bf2f67"},
  {"poisson", "code", {.seed = 2, .rows = 2000, .family = KC_GAP_POISSON, .rate = STEADY}, false,
   false, "ca5a4cd4f34183ad7f9f92286619a372cc356b4ff2d502417547b34515c03c5f"},
  {"gamma-bursty", "reasoning", {.seed = 3, .rows = 2000, .family = KC_GAP_GAMMA,
   .shape_nano = 40000000, .rate = STEADY}, false, false,
   "eb498f5bedef4f2834ec37d10cdb92d9e97c10e1181d6f5f55887a6c0aba3e2e"},
  {"gamma-even", "code", {.seed = 4, .rows = 2000, .family = KC_GAP_GAMMA,
   .shape_nano = 30000000000, .rate = STEADY}, false, false,
   "32c8462144433ff4a7930decb1733a993614f8ef5f175c66ffaf55bea125c071"},
  {"weibull", "conversation", {.seed = UINT64_MAX, .rows = 2000, .family = KC_GAP_WEIBULL,
   .shape_nano = 375348614, .rate = STEADY}, false, false,
   "ed8d51a3c7361f62d3d5a42efe3964f93685d8278db918d66875901bcb6dca34"},
  {"week", "code", {.seed = 5, .duration_ps = 10000 * KC_PS_PER_S, .family = KC_GAP_POISSON,
   .rate = WEEK}, false, false, "f6ba4d0b9cf1fdab6fbd6696633c65351037f947269ea61f4bb6af173b0ed147"},
  {"agents", "agent", {.seed = 6, .rows = 1500, .family = KC_GAP_GAMMA, .shape_nano = 250000000,
   .rate = STEADY, .session = AGENTS}, true, false,
   "1c078f73746450df57d6f7dd90a4f56949f40683dc2eea1d6fb223f66bfe8ec0"},
  {"like-agents", "agent", {.seed = 7, .rows = 1500, .family = KC_GAP_POISSON, .rate = WEEK,
   .session = AGENTS}, true, true,
   "b1e9a21189100bde0eeb468df48c3f72b7e7f2bcf0af16d026ac4f395e029427"},
};
enum { GOLDENS = sizeof goldens / sizeof goldens[0] };

static void make(const struct golden *golden, char digest[65])
{
  struct kc_synth_spec spec = golden->spec;
  struct kc_lengths lengths;
  struct kc_trace trace, like;
  struct kc_diag diag;
  if (!kc_lengths_preset(&lengths, golden->preset)) fail_msg("%s", golden->preset);
  spec.lengths = &lengths;
  const enum kc_err err = golden->sessions ? kc_synth_sessions(&trace, &spec, &diag)
                                           : kc_synth_rows(&trace, &spec, &diag);
  if (err != KC_OK) fail_msg("%s: %s", golden->name, diag.text);
  check_trace(&trace);
  if (golden->like) {
    if (kc_synth_like(&like, &trace, spec.seed, 0, &diag) != KC_OK) fail_msg("%s", diag.text);
    digest_trace(&like, digest);
    kc_trace_free(&like);
  } else {
    digest_trace(&trace, digest);
  }
  kc_trace_free(&trace);
}

static void test_goldens(void **state)
{
  int different = 0;
  (void)state;
  for (size_t i = 0; i < GOLDENS; i++) {
    char digest[65];
    make(&goldens[i], digest);
    if (strcmp(digest, goldens[i].digest) == 0) continue;
    print_error("%s: %s, expected %s\n", goldens[i].name, digest, goldens[i].digest);
    different++;
  }
  assert_int_equal(different, 0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens)};
  if (argc == 2 && strcmp(argv[1], "print") == 0) {
    for (size_t i = 0; i < GOLDENS; i++) {
      char digest[65];
      make(&goldens[i], digest);
      printf("%s %s\n", goldens[i].name, digest);
    }
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
