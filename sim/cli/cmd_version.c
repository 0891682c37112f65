/* kvcap version: one line for people, or a document with what decides results besides the input. */
#include <stdio.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"

#ifndef KVCAP_VERSION
#error "KVCAP_VERSION comes from the file VERSION by way of CMakeLists.txt"
#endif

enum { VERSION_SCHEMA = 1 };

struct version_arguments {
  bool json;
};

static const struct kc_option version_options[] = {
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct version_arguments, json),
   .help = "print one JSON document"},
};

static const struct kc_cli_usage version_usage = {
  .name = "version",
  .synopsis = "[--json]",
  .about = "Prints the version of the program.",
  .options = version_options,
  .option_count = sizeof version_options / sizeof version_options[0],
};

int kc_cmd_version(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct version_arguments arguments = {0};
  const int status = kc_cli_arguments(&version_usage, &arguments, argc, argv, NULL, NULL);
  if (status >= 0) return status;
  if (!arguments.json) {
    printf("kvcap %s\n", KVCAP_VERSION);
    return 0;
  }
  json_t *root = json_pack("{s:i, s:s}", "schema", VERSION_SCHEMA, "version", KVCAP_VERSION);
  return kc_cli_print_json(root);
}
