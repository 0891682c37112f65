/* The two faces of a finished run. */
#ifndef KC_SIM_CLI_RUN_OUTPUT_H
#define KC_SIM_CLI_RUN_OUTPUT_H

#include <jansson.h>

#include "sim/scenario/intervals.h"
#include "sim/store/store.h"

/* The document of `run --json`; NULL when memory ran out. The caller owns it. `intervals` may be
 * NULL, here and below. */
json_t *kc_run_json(const struct kc_run *run, const struct kc_intervals *intervals);

/* The summary that a person reads in ten seconds, on stdout, under `name`. Returns 0. */
int kc_run_print(const struct kc_run *run, const char *name, const struct kc_intervals *intervals);

/* {count, mean, p50, ..., trust} in milliseconds; nulls when it covers nothing. */
json_t *kc_run_statistic_json(const struct kc_statistic *s, const char *trust);
/* 1234567 -> "1,234,567". */
const char *kc_run_grouped(uint64_t value, char out[32]);

/* Prompt caching, goodput, classes, tenants, faults (run_groups.c). */
void kc_run_groups_json(json_t *root, const struct kc_run *run);
void kc_run_groups_print(const struct kc_run *run);

#endif
