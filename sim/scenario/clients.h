/* Who sends the requests: tenants, classes of service, and how patient clients are.
 *
 *   classes    a share of the requests (or of the sessions) each, drawn from the seed, or all
 *              requests of one kind of the trace; with a priority, latency limits, patience
 *   tenants    one, or one per session, one per kind of the trace, or N drawn from the seed
 *
 * All requests of a session belong to one class and one tenant. Draws are a stream per session, so
 * a row more never changes another row's class.
 */
#ifndef KC_SIM_SCENARIO_CLIENTS_H
#define KC_SIM_SCENARIO_CLIENTS_H

#include "engine/base/diag.h"
#include "engine/sched/step.h"
#include "sim/replay/patience.h"
#include "traces/transform/transform.h"

enum {
  KC_CLASSES_MAX = 16,
  KC_TENANTS_MAX = 65536,
  KC_CLASS_NAME_BYTES = 32
};

enum kc_tenant_rule { KC_TENANTS_ONE, KC_TENANTS_SESSION, KC_TENANTS_KIND, KC_TENANTS_COUNT };

struct kc_class_spec {
  char name[KC_CLASS_NAME_BYTES];
  char kind[KC_TRACE_KIND_BYTES]; /* "" = by share */
  bool has_share;                 /* without share and kind: everything that is left */
  struct kc_fraction share;
  int32_t priority;               /* lower is sooner, as in vLLM; 0 unless said */
  double ttft_ms, tpot_ms;        /* limits of one request, for goodput; 0 = none */
  struct kc_patience patience;
};

struct kc_clients_spec {
  enum kc_tenant_rule tenant_rule;
  uint32_t tenants;               /* with KC_TENANTS_COUNT */
  uint32_t class_count;           /* >= 1: the first is "all" when the scenario names none */
  bool classes_given;
  struct kc_class_spec class[KC_CLASSES_MAX];
};

/* What the assignment gave. */
struct kc_clients {
  uint32_t tenant_count;
  kc_ps *cancel_after_ps;         /* [count], heap: KC_PS_NEVER = does not cancel; NULL = nobody */
  uint64_t cancelling;            /* how many will, if they are not served before */
};

/* Fills tenant, class_index and priority of `requests`, row by row of the trace (NULL: a closed
 * workload). Errors: KC_ERR_MEMORY; KC_ERR_INPUT for a kind that the trace does not have, for
 * tenants by session or kind of a trace without; KC_ERR_LIMIT for more tenants than can be. */
enum kc_err kc_clients_assign(struct kc_clients *clients, const struct kc_clients_spec *spec,
                              const struct kc_trace *trace, struct kc_request *requests,
                              uint32_t count, uint64_t seed, struct kc_diag *diag);

void kc_clients_free(struct kc_clients *clients);

#endif
