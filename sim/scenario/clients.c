/* Deals classes, tenants and patience out to requests (see clients.h). Set-up code: it may
 * allocate.
 *
 * A class with a share takes a stretch of [0, 2^64) as long as its share; one draw per session
 * falls into it or not. Stretches follow each other in the order of the file, and the class without
 * a share has what is left.
 *
 *   0 ---- interactive 1/2 ----|-- batch 1/4 --|---- rest (the class without share) ---- 2^64
 */
#include "sim/scenario/clients.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "engine/base/vtime.h"

struct dealing {
  const struct kc_clients_spec *spec;
  const struct kc_trace *trace;          /* NULL: closed workload */
  uint64_t seed;
  kc_u128 upto[KC_CLASSES_MAX];          /* end of the stretch of each class */
  uint32_t class_of_kind[KC_CLASSES_MAX]; /* trace kind that the class takes, or KC_TRACE_NONE */
  uint32_t rest;                         /* class that takes what is left */
};

void kc_clients_free(struct kc_clients *clients)
{
  free(clients->cancel_after_ps);
  *clients = (struct kc_clients){0};
}

/* ---- classes ---- */

static kc_u128 stretch(struct kc_fraction share)
{
  KC_ASSERT(share.denominator > 0);
  KC_ASSERT(share.numerator <= share.denominator);
  return ((kc_u128)1 << 64) * share.numerator / share.denominator;
}

static enum kc_err find_kind(struct dealing *d, uint32_t index, struct kc_diag *diag)
{
  const struct kc_class_spec *class = &d->spec->class[index];
  d->class_of_kind[index] = KC_TRACE_NONE;
  if (class->kind[0] == '\0') return KC_OK;
  const uint32_t kinds = d->trace == NULL ? 0 : d->trace->kind_count;
  for (uint32_t k = 0; k < kinds; k++) {
    if (strcmp(d->trace->kind_name[k], class->kind) != 0) continue;
    d->class_of_kind[index] = k;
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_INPUT,
                 "workload.classes: class %s takes requests of kind \"%s\", and the workload has "
                 "none; kvcap trace info lists the kinds of a trace", class->name, class->kind);
}

static enum kc_err prepare_classes(struct dealing *d, struct kc_diag *diag)
{
  kc_u128 end = 0;
  KC_ASSERT(d->spec->class_count >= 1 && d->spec->class_count <= KC_CLASSES_MAX);
  d->rest = d->spec->class_count - 1;
  for (uint32_t i = 0; i < d->spec->class_count; i++) {
    const struct kc_class_spec *class = &d->spec->class[i];
    KC_TRY(find_kind(d, i, diag));
    if (class->has_share) end += stretch(class->share);
    d->upto[i] = end;
    if (!class->has_share && class->kind[0] == '\0') d->rest = i;
  }
  KC_ASSERT(end <= (kc_u128)1 << 64); /* the scenario's checks have seen to it */
  return KC_OK;
}

static uint32_t kind_of(const struct dealing *d, uint64_t row)
{
  const bool has = d->trace != NULL && d->trace->column.kind != NULL;
  return has ? d->trace->column.kind[row] : KC_TRACE_NONE;
}

/* What draws belong to: the session where there is one, else the row. Rows come after sessions, so
 * that neither takes the other's stream. */
static uint64_t entity_of(const struct dealing *d, uint64_t row)
{
  const bool has = d->trace != NULL && d->trace->column.session != NULL;
  const uint32_t session = has ? d->trace->column.session[row] : KC_TRACE_NONE;
  return session != KC_TRACE_NONE ? session : (UINT64_C(1) << 32) + row;
}

static uint32_t class_of(const struct dealing *d, uint64_t row)
{
  const uint32_t kind = kind_of(d, row);
  struct kc_random random;
  KC_ASSERT(d->rest < d->spec->class_count);
  if (d->spec->class_count == 1) return 0;
  for (uint32_t i = 0; i < d->spec->class_count && kind != KC_TRACE_NONE; i++) {
    if (d->class_of_kind[i] == kind) return i;
  }
  kc_random_init(&random, d->seed, "class", entity_of(d, row));
  const uint64_t draw = kc_random_u64(&random);
  for (uint32_t i = 0; i < d->spec->class_count; i++) {
    if (d->spec->class[i].has_share && draw < d->upto[i]) return i;
  }
  return d->rest;
}

/* ---- tenants ---- */

static enum kc_err count_tenants(const struct dealing *d, struct kc_clients *clients,
                                 struct kc_diag *diag)
{
  const struct kc_trace *trace = d->trace;
  uint64_t count = 1;
  if (d->spec->tenant_rule == KC_TENANTS_COUNT) count = d->spec->tenants;
  if (d->spec->tenant_rule == KC_TENANTS_SESSION) {
    if (trace == NULL || trace->column.session == NULL) {
      return kc_fail(diag, KC_ERR_INPUT, "workload.tenants: session needs a trace with sessions; "
                     "give a number of tenants, or leave the key out");
    }
    count = (uint64_t)trace->session_count + 1; /* one for rows outside of sessions */
  }
  if (d->spec->tenant_rule == KC_TENANTS_KIND) {
    if (trace == NULL || trace->column.kind == NULL) {
      return kc_fail(diag, KC_ERR_INPUT, "workload.tenants: kind needs a trace whose rows have a "
                     "model or type; give a number of tenants, or leave the key out");
    }
    count = (uint64_t)trace->kind_count + 1;
  }
  if (count > KC_TENANTS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "workload.tenants: the trace would have %llu tenants and at "
                   "most %d are kept apart; give a number instead",
                   (unsigned long long)count, (int)KC_TENANTS_MAX);
  }
  KC_ASSERT(count > 0);
  clients->tenant_count = (uint32_t)count;
  return KC_OK;
}

static uint32_t tenant_of(const struct dealing *d, const struct kc_clients *clients, uint64_t row)
{
  const uint32_t last = clients->tenant_count - 1;
  struct kc_random random;
  switch (d->spec->tenant_rule) {
    case KC_TENANTS_ONE: return 0;
    case KC_TENANTS_SESSION: {
      const uint32_t session = d->trace->column.session[row];
      return session == KC_TRACE_NONE ? last : session;
    }
    case KC_TENANTS_KIND: {
      const uint32_t kind = d->trace->column.kind[row];
      return kind == KC_TRACE_NONE ? last : kind;
    }
    case KC_TENANTS_COUNT: break;
  }
  KC_ASSERT(d->spec->tenant_rule == KC_TENANTS_COUNT);
  kc_random_init(&random, d->seed, "tenant", entity_of(d, row));
  return (uint32_t)kc_random_below(&random, clients->tenant_count);
}

/* ---- cancellation ---- */

static kc_ps cancel_after(const struct dealing *d, const struct kc_patience *patience, uint64_t row)
{
  struct kc_random random;
  KC_ASSERT(patience->cancel_denominator > 0);
  if (patience->cancel_numerator == 0) return KC_PS_NEVER;
  kc_random_init(&random, d->seed, "cancel", row);
  if (!kc_random_chance(&random, patience->cancel_numerator, patience->cancel_denominator)) {
    return KC_PS_NEVER;
  }
  KC_ASSERT(patience->cancel_after_ps >= 0 && patience->cancel_after_ps < KC_PS_NEVER / 2);
  return (kc_ps)kc_random_below(&random, 2 * (uint64_t)patience->cancel_after_ps + 1);
}

static bool anybody_cancels(const struct kc_clients_spec *spec)
{
  for (uint32_t i = 0; i < spec->class_count; i++) {
    if (spec->class[i].patience.cancel_numerator > 0) return true;
  }
  return false;
}

enum kc_err kc_clients_assign(struct kc_clients *clients, const struct kc_clients_spec *spec,
                              const struct kc_trace *trace, struct kc_request *requests,
                              uint32_t count, uint64_t seed, struct kc_diag *diag)
{
  struct dealing d = {.spec = spec, .trace = trace, .seed = seed};
  KC_ASSERT(count > 0);
  KC_ASSERT(requests != NULL);
  *clients = (struct kc_clients){0};
  KC_TRY(prepare_classes(&d, diag));
  KC_TRY(count_tenants(&d, clients, diag));
  if (anybody_cancels(spec)) {
    clients->cancel_after_ps = malloc(count * sizeof *clients->cancel_after_ps);
    if (clients->cancel_after_ps == NULL) {
      return kc_fail(diag, KC_ERR_MEMORY, "no memory for the clients' patience");
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t class = class_of(&d, i);
    requests[i].class_index = class;
    requests[i].priority = spec->class[class].priority;
    requests[i].tenant = tenant_of(&d, clients, i);
    if (clients->cancel_after_ps == NULL) continue;
    clients->cancel_after_ps[i] = cancel_after(&d, &spec->class[class].patience, i);
    clients->cancelling += clients->cancel_after_ps[i] != KC_PS_NEVER;
  }
  return KC_OK;
}
