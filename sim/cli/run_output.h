/* The two faces of a finished run. */
#ifndef KC_SIM_CLI_RUN_OUTPUT_H
#define KC_SIM_CLI_RUN_OUTPUT_H

#include <jansson.h>

#include "engine/base/option.h"
#include "sim/scenario/intervals.h"
#include "sim/scenario/require.h"
#include "sim/store/store.h"

/* What a run must give. */
struct kc_run_demands {
  uint32_t count;
  struct kc_requirement item[KC_REQUIREMENTS_MAX];
};

/* The document of `run --json`; NULL when memory ran out. The caller owns it. `intervals` may be
 * NULL, here and below. */
json_t *kc_run_json(const struct kc_run *run, const struct kc_intervals *intervals,
                    const struct kc_run_demands *demands);

/* The summary that a person reads in ten seconds, on stdout, under `name`. Returns 0. */
int kc_run_print(const struct kc_run *run, const char *name, const struct kc_intervals *intervals);

/* {count, mean, p50, ..., trust} in milliseconds; nulls when it covers nothing. */
json_t *kc_run_statistic_json(const struct kc_statistic *s, const char *trust);
/* 1234567 -> "1,234,567". */
const char *kc_run_grouped(uint64_t value, char out[32]);

/* Prompt caching, goodput, classes, tenants, faults (run_groups.c). */
void kc_run_groups_json(json_t *root, const struct kc_run *run);
void kc_run_groups_print(const struct kc_run *run);

/* Requirements (run_require.c): reads them (KC_ERR_USAGE); says how each came out in a finished
 * run, in JSON and for people; how many it missed. */
enum kc_err kc_run_demands_parse(struct kc_run_demands *demands, const struct kc_option_list *texts,
                                 struct kc_diag *diag);
/* A note for each requirement that asks for more of a figure of which less is better, or the other
 * way round: it is taken as it stands, and is seldom meant. */
void kc_run_note_signs(const struct kc_requirement *require, uint32_t count);
json_t *kc_run_demands_json(const struct kc_run_demands *demands, const struct kc_run *run);
void kc_run_demands_print(const struct kc_run_demands *demands, const struct kc_run *run);
uint32_t kc_run_demands_missed(const struct kc_run_demands *demands, const struct kc_run *run);

/* Cost, energy, an API to compare with (run_money.c). */
void kc_run_money_json(json_t *root, const struct kc_run *run);
void kc_run_money_print(const struct kc_run *run);

#endif
