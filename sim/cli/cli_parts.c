/* Commands that are made of parts (`kvcap trace info`): overview, dispatch, the error for a
 * mistyped part. The command's table is the only list of its parts. */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"

static void print_overview(const struct kc_cli_parts *parts, FILE *out)
{
  fprintf(out, "usage: kvcap %s PART [arguments]\n\n%s\n\n", parts->name, parts->about);
  for (size_t i = 0; i < parts->count; i++) {
    fprintf(out, "  %-9s %s\n", parts->part[i].name, parts->part[i].purpose);
  }
  fprintf(out, "\n`kvcap %s PART --help` prints the options of a part.\n", parts->name);
}

static int fail_unknown(const struct kc_cli_parts *parts, const char *name)
{
  const char *nearest = NULL;
  unsigned least = kc_edit_reach(name) + 1;
  struct kc_diag diag;
  for (size_t i = 0; i < parts->count; i++) {
    const unsigned distance = kc_edit_distance(name, parts->part[i].name);
    if (distance >= least) continue;
    least = distance;
    nearest = parts->part[i].name;
  }
  kc_fail(&diag, KC_ERR_USAGE, "\"%.32s\" is not something `kvcap %s` does%s%s%s `kvcap %s --help` "
          "lists the parts", name, parts->name, nearest == NULL ? ";" : "; did you mean \"",
          nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?", parts->name);
  return kc_cli_fail(&diag);
}

int kc_cli_run_part(const struct kc_cli_parts *parts, int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  KC_ASSERT(parts->count > 0);
  if (argc < 2) {
    print_overview(parts, stderr);
    return 2;
  }
  if (kc_manual_form() != KC_MANUAL_NONE) {
    kc_manual_parts(parts->name, parts->part, parts->count);
    return 0;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_overview(parts, stdout);
    return 0;
  }
  for (size_t i = 0; i < parts->count; i++) {
    if (strcmp(parts->part[i].name, argv[1]) == 0) return parts->part[i].run(argc - 1, argv + 1);
  }
  return fail_unknown(parts, argv[1]);
}
