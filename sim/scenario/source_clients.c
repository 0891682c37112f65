/* Scenario keys about who sends the requests: workload.classes, workload.tenants, patience.
 *
 *   workload:
 *     tenants: session              one | session | kind | N
 *     timeout: 60s                  patience of every class that does not say its own
 *     classes:
 *       - {name: interactive, share: 3/4, ttft_ms: 500, cancel: 1/50, cancel_after: 5s}
 *       - {name: batch, priority: 10, queue_timeout: 600s}        # without share: the rest
 *
 * The part of source.c that only these keys need.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/scenario/source.h"

#define FIELD(field) .offset = offsetof(struct kc_class_source, field), \
                     .size = sizeof(((struct kc_class_source *)0)->field)
#define GIVEN(field) .set_offset = offsetof(struct kc_class_source, field)
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static const struct kc_option class_options[] = {
  {.key = "name", .type = KC_OPTION_TEXT, FIELD(name), .required = true,
   .help = "what results call the class"},
  {.key = "share", .type = KC_OPTION_TEXT, FIELD(share), GIVEN(has_share),
   .help = "share of the sessions (of the requests, without sessions), such as 1/4; one class may "
   "leave it out and gets the rest"},
  {.key = "kind", .type = KC_OPTION_TEXT, FIELD(kind), GIVEN(has_kind),
   .help = "takes the requests of this kind (model, type) of the trace instead of a share"},
  {.key = "priority", .type = KC_OPTION_U32, FIELD(priority), .fallback = "0", .min = 0,
   .max = 1000000, .help = "lower is served sooner, with scheduler.queue: priority"},
  {.key = "ttft_ms", .type = KC_OPTION_DOUBLE, FIELD(ttft_ms), .fallback = "0", .min = 0,
   .max = 1e9, .unit = "milliseconds",
   .help = "time to first token that a request must keep to count for goodput; 0 = any"},
  {.key = "tpot_ms", .type = KC_OPTION_DOUBLE, FIELD(tpot_ms), .fallback = "0", .min = 0,
   .max = 1e9, .unit = "milliseconds",
   .help = "time per output token that a request must keep to count for goodput; 0 = any"},
  {.key = "timeout", .type = KC_OPTION_DURATION, FIELD(timeout_ps), GIVEN(has_timeout),
   .help = "gives a request up that has not ended by then; workload.timeout unless said"},
  {.key = "queue_timeout", .type = KC_OPTION_DURATION, FIELD(queue_timeout_ps),
   GIVEN(has_queue_timeout),
   .help = "gives a request up that has not started by then; workload.queue_timeout unless said"},
  {.key = "cancel", .type = KC_OPTION_TEXT, FIELD(cancel), GIVEN(has_cancel),
   .help = "share of clients who cancel; workload.cancel unless said"},
  {.key = "cancel_after", .type = KC_OPTION_DURATION, FIELD(cancel_after_ps),
   GIVEN(has_cancel_after),
   .help = "mean time after which they do, from 0 to twice this; workload.cancel_after unless "
   "said"},
};

static const char *const tenant_rules[] = {"one", "session", "kind"};

const char *kc_tenant_rule_name(enum kc_tenant_rule rule)
{
  KC_ASSERT(rule != KC_TENANTS_COUNT);
  KC_ASSERT((unsigned)rule < COUNT(tenant_rules));
  return tenant_rules[rule];
}

static void read_tenants(struct kc_scenario_source *source, const struct kc_document *document,
                         struct kc_diag_list *problems)
{
  KC_ASSERT(source->tenants[0] != '\0');
  uint64_t count;
  for (size_t i = 0; i < COUNT(tenant_rules); i++) {
    if (strcmp(source->tenants, tenant_rules[i]) != 0) continue;
    source->clients.tenant_rule = (enum kc_tenant_rule)i;
    return;
  }
  if (kc_parse_u64(source->tenants, strlen(source->tenants), &count) && count >= 1 &&
      count <= KC_TENANTS_MAX) {
    source->clients.tenant_rule = KC_TENANTS_COUNT;
    source->clients.tenants = (uint32_t)count;
    return;
  }
  kc_source_problem(document, document->root, "workload.tenants", problems,
                    "workload.tenants: expected one, session, kind, or a number from 1 to %d, got "
                    "\"%s\"", (int)KC_TENANTS_MAX, source->tenants);
}

/* A share at a key; 0 is allowed where `zero` says so. */
static bool read_share(const char *text, bool zero, struct kc_fraction *share,
                       const struct kc_document *document, const struct kc_node *map,
                       const char *key, const char *prefix, struct kc_diag_list *problems)
{
  KC_ASSERT(text != NULL && key != NULL);
  *share = (struct kc_fraction){0, 1};
  if (zero && strcmp(text, "0") == 0) return true;
  if (kc_fraction_parse(text, share) && share->numerator <= share->denominator) return true;
  kc_source_problem(document, map, key, problems,
                    "%s%s: expected a share such as 1/4 or 0.25, at most 1, got \"%s\"", prefix,
                    key, text);
  *share = (struct kc_fraction){0, 1};
  return false;
}

/* A class's own patience, or the workload's. */
static void read_patience(struct kc_class_spec *out, const struct kc_class_source *class,
                          const struct kc_scenario_source *source,
                          const struct kc_document *document, const struct kc_node *map,
                          const char *prefix, struct kc_diag_list *problems)
{
  struct kc_patience *patience = &out->patience;
  struct kc_fraction cancel = source->cancel_fraction;
  patience->timeout_ps = class->has_timeout ? class->timeout_ps
                         : source->has_timeout ? source->timeout_ps : KC_PS_NEVER;
  patience->queue_timeout_ps = class->has_queue_timeout ? class->queue_timeout_ps
                               : source->has_queue_timeout ? source->queue_timeout_ps
                                                           : KC_PS_NEVER;
  patience->cancel_after_ps =
      class->has_cancel_after ? class->cancel_after_ps : source->cancel_after_ps;
  if (class->has_cancel) {
    read_share(class->cancel, true, &cancel, document, map, "cancel", prefix, problems);
  }
  if (patience->timeout_ps == 0 || patience->queue_timeout_ps == 0) {
    const bool own = class->has_timeout || class->has_queue_timeout;
    kc_source_problem(document, map, own ? "timeout" : "workload", problems,
                      "%stimeout and queue_timeout of 0 would give every request up at once; leave "
                      "them out for no limit", prefix);
  }
  patience->cancel_numerator = cancel.numerator;
  patience->cancel_denominator = cancel.denominator;
  if (cancel.numerator > 0 && !class->has_cancel_after && !source->has_cancel_after) {
    kc_source_problem(document, map, class->has_cancel || map != document->root ? "cancel"
                                                                                : "workload.cancel",
                      problems,
                      "%scancel says that clients give up, and cancel_after does not say when; add "
                      "cancel_after, such as 5s", prefix);
  }
  if (cancel.numerator == 0 && class->has_cancel_after) {
    kc_source_problem(document, map, "cancel_after", problems,
                      "%scancel_after has no effect without cancel, the share of clients who do",
                      prefix);
  }
  KC_ASSERT(patience->cancel_denominator > 0);
}

static void read_class(struct kc_scenario_source *source, const struct kc_document *document,
                       const struct kc_node *map, uint32_t index, struct kc_diag_list *problems)
{
  struct kc_class_source class;
  struct kc_class_spec *out = &source->clients.class[index];
  char prefix[64];
  KC_ASSERT(index < KC_CLASSES_MAX);
  if (map->kind != KC_NODE_MAP) {
    kc_diag_list_add(problems, KC_ERR_INPUT, document->path, map->line, map->column,
                     "workload.classes[%u]: expected a map with name, share and so on", index);
    return;
  }
  memset(&class, 0, sizeof class);
  snprintf(prefix, sizeof prefix, "workload.classes.%u.", index);
  kc_options_default(class_options, COUNT(class_options), &class);
  kc_options_read_map(class_options, COUNT(class_options), &class, map, document->path, prefix,
                      problems);
  *out = (struct kc_class_spec){.priority = (int32_t)class.priority, .ttft_ms = class.ttft_ms,
                                .tpot_ms = class.tpot_ms, .has_share = class.has_share};
  memcpy(out->name, class.name, sizeof out->name);
  memcpy(out->kind, class.kind, sizeof out->kind);
  if (class.has_share && class.has_kind) {
    kc_source_problem(document, map, "kind", problems,
                      "%skind: share and kind both say which requests class %s takes; keep one",
                      prefix, class.name);
  }
  if (class.has_share) {
    read_share(class.share, false, &out->share, document, map, "share", prefix, problems);
  }
  read_patience(out, &class, source, document, map, prefix, problems);
}

/* Names differ, shares fit into 1, at most one class takes the rest, and somebody takes it. */
static void check_classes(const struct kc_scenario_source *source,
                          const struct kc_document *document, struct kc_diag_list *problems)
{
  const struct kc_clients_spec *clients = &source->clients;
  uint32_t rest = 0;
  kc_u128 sum = 0;
  for (uint32_t i = 0; i < clients->class_count; i++) {
    const struct kc_class_spec *class = &clients->class[i];
    rest += !class->has_share && class->kind[0] == '\0';
    if (class->has_share) {
      KC_ASSERT(class->share.denominator > 0);
      sum += ((kc_u128)1 << 64) * class->share.numerator / class->share.denominator;
    }
    for (uint32_t j = 0; j < i; j++) {
      if (strcmp(class->name, clients->class[j].name) != 0) continue;
      kc_source_problem(document, document->root, "workload.classes", problems,
                        "workload.classes has two classes named \"%s\"; results could not tell "
                        "them apart", class->name);
    }
  }
  if (sum > (kc_u128)1 << 64) {
    kc_source_problem(document, document->root, "workload.classes", problems,
                      "workload.classes: the shares add up to more than 1");
  }
  if (rest > 1) {
    kc_source_problem(document, document->root, "workload.classes", problems,
                      "workload.classes: %u classes have neither share nor kind; only one can get "
                      "the rest", rest);
  }
  if (rest == 0 && sum + clients->class_count < (kc_u128)1 << 64) {
    kc_source_problem(document, document->root, "workload.classes", problems,
                      "workload.classes: the shares add up to less than 1 and no class takes the "
                      "rest; leave share out of one of them");
  }
}

static void read_classes(struct kc_scenario_source *source, const struct kc_document *document,
                         const struct kc_node *classes, struct kc_diag_list *problems)
{
  uint32_t count = 0;
  KC_ASSERT(classes != NULL);
  for (const struct kc_node *map = classes->child; map != NULL; map = map->next) count++;
  if (classes->kind != KC_NODE_LIST || count == 0 || count > KC_CLASSES_MAX) {
    kc_source_problem(document, document->root, "workload.classes", problems,
                      "workload.classes: expected a list of 1 to %d classes, each with a name",
                      (int)KC_CLASSES_MAX);
    return;
  }
  source->clients.class_count = count;
  source->clients.classes_given = true;
  const struct kc_node *map = classes->child;
  for (uint32_t i = 0; i < count; i++, map = map->next) {
    read_class(source, document, map, i, problems);
  }
  check_classes(source, document, problems);
}

void kc_source_read_clients(struct kc_scenario_source *source, const struct kc_document *document,
                            struct kc_diag_list *problems)
{
  const struct kc_node *workload = kc_node_get(document->root, "workload");
  const struct kc_node *classes = kc_node_get(workload, "classes");
  KC_ASSERT(source != NULL && problems != NULL);
  read_tenants(source, document, problems);
  read_share(source->cancel, true, &source->cancel_fraction, document, document->root,
             "workload.cancel", "", problems);
  if (classes != NULL) {
    read_classes(source, document, classes, problems);
    return;
  }
  const struct kc_class_source none = {0};
  struct kc_class_spec *all = &source->clients.class[0];
  source->clients.class_count = 1;
  *all = (struct kc_class_spec){.name = "all"};
  read_patience(all, &none, source, document, document->root, "workload.", problems);
}
