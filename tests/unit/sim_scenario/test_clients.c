/* Classes, tenants and patience: shares within what chance allows, sessions whole, draws that do
 * not move when rows are added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario/clients.h"

enum { ROWS = 20000 };

static struct kc_clients_spec three_classes(void)
{
  struct kc_clients_spec spec = {.class_count = 3, .classes_given = true};
  for (int i = 0; i < 3; i++) {
    spec.class[i].patience = (struct kc_patience){KC_PS_NEVER, KC_PS_NEVER, 0, 1, 0};
    spec.class[i].priority = 10 * i;
  }
  spec.class[0].has_share = spec.class[1].has_share = true;
  spec.class[0].share = (struct kc_fraction){1, 2};
  spec.class[1].share = (struct kc_fraction){1, 8};
  return spec;
}

static void shares_are_kept(void **state)
{
  (void)state;
  struct kc_request *r = calloc(ROWS, sizeof *r);
  const struct kc_clients_spec spec = three_classes();
  struct kc_clients clients;
  struct kc_diag diag;
  uint32_t count[3] = {0};
  assert_non_null(r);
  assert_int_equal(kc_clients_assign(&clients, &spec, NULL, r, ROWS, 7, &diag), KC_OK);
  for (int i = 0; i < ROWS; i++) {
    count[r[i].class_index]++;
    assert_int_equal(r[i].priority, 10 * (int)r[i].class_index);
    assert_int_equal(r[i].tenant, 0);
  }
  /* n p +- 5 sqrt(n p q): 10000 +- 354, 2500 +- 234, 7500 +- 343 */
  assert_in_range(count[0], 10000 - 354, 10000 + 354);
  assert_in_range(count[1], 2500 - 234, 2500 + 234);
  assert_in_range(count[2], 7500 - 343, 7500 + 343);
  assert_null(clients.cancel_after_ps);
  /* Fewer rows: the same classes for those that are left. */
  struct kc_request *few = calloc(100, sizeof *few);
  assert_non_null(few);
  assert_int_equal(kc_clients_assign(&clients, &spec, NULL, few, 100, 7, &diag), KC_OK);
  for (int i = 0; i < 100; i++) assert_int_equal(few[i].class_index, r[i].class_index);
  free(few);
  free(r);
}

static void sessions_stay_whole(void **state)
{
  (void)state;
  enum { N = 600, SESSIONS = 40 };
  uint32_t session[N];
  struct kc_request r[N] = {0};
  struct kc_trace trace = {.count = N, .session_count = SESSIONS};
  struct kc_clients_spec spec = three_classes();
  struct kc_clients clients;
  struct kc_diag diag;
  for (uint32_t i = 0; i < N; i++) session[i] = i % (SESSIONS + 1);
  for (uint32_t i = 0; i < N; i++) if (session[i] == SESSIONS) session[i] = KC_TRACE_NONE;
  trace.column.session = session;
  spec.tenant_rule = KC_TENANTS_SESSION;
  assert_int_equal(kc_clients_assign(&clients, &spec, &trace, r, N, 3, &diag), KC_OK);
  assert_int_equal(clients.tenant_count, SESSIONS + 1);
  for (uint32_t i = SESSIONS + 1; i < N; i++) {
    if (session[i] == KC_TRACE_NONE) {
      assert_int_equal(r[i].tenant, SESSIONS);
      continue;
    }
    assert_int_equal(r[i].class_index, r[i - SESSIONS - 1].class_index);
    assert_int_equal(r[i].tenant, session[i]);
  }
  spec.tenant_rule = KC_TENANTS_COUNT;
  spec.tenants = 5;
  assert_int_equal(kc_clients_assign(&clients, &spec, &trace, r, N, 3, &diag), KC_OK);
  uint32_t seen[5] = {0};
  for (uint32_t i = 0; i < N; i++) seen[r[i].tenant]++;
  for (int i = 0; i < 5; i++) assert_true(seen[i] > 0);
}

static void kinds_take_their_class(void **state)
{
  (void)state;
  enum { N = 4 };
  uint32_t kind[N] = {0, 1, KC_TRACE_NONE, 1};
  char names[2][KC_TRACE_KIND_BYTES] = {"chat", "code"};
  struct kc_request r[N] = {0};
  struct kc_trace trace = {.count = N, .kind_count = 2, .kind_name = names};
  struct kc_clients_spec spec = three_classes();
  struct kc_clients clients;
  struct kc_diag diag;
  trace.column.kind = kind;
  spec.class_count = 2;
  spec.class[0].has_share = spec.class[1].has_share = false;
  memcpy(spec.class[0].kind, "code", 5);
  assert_int_equal(kc_clients_assign(&clients, &spec, &trace, r, N, 1, &diag), KC_OK);
  assert_int_equal(r[0].class_index, 1);
  assert_int_equal(r[1].class_index, 0);
  assert_int_equal(r[2].class_index, 1);
  assert_int_equal(r[3].class_index, 0);
  memcpy(spec.class[0].kind, "none", 5);
  assert_int_equal(kc_clients_assign(&clients, &spec, &trace, r, N, 1, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "\"none\""));
}

static void some_cancel(void **state)
{
  (void)state;
  struct kc_request *r = calloc(ROWS, sizeof *r);
  struct kc_clients_spec spec = {.class_count = 1};
  struct kc_clients clients;
  struct kc_diag diag;
  uint64_t cancelling = 0;
  double sum = 0;
  assert_non_null(r);
  spec.class[0].patience = (struct kc_patience){KC_PS_NEVER, KC_PS_NEVER, 1, 4, 1000000};
  assert_int_equal(kc_clients_assign(&clients, &spec, NULL, r, ROWS, 9, &diag), KC_OK);
  for (int i = 0; i < ROWS; i++) {
    if (clients.cancel_after_ps[i] == KC_PS_NEVER) continue;
    cancelling++;
    assert_in_range(clients.cancel_after_ps[i], 0, 2000000);
    sum += (double)clients.cancel_after_ps[i];
  }
  assert_int_equal(clients.cancelling, cancelling);
  assert_in_range(cancelling, 5000 - 306, 5000 + 306);
  assert_true(sum / (double)cancelling > 0.95e6 && sum / (double)cancelling < 1.05e6);
  kc_clients_free(&clients);
  free(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_are_kept), cmocka_unit_test(sessions_stay_whole),
      cmocka_unit_test(kinds_take_their_class), cmocka_unit_test(some_cancel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
