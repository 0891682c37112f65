/* Runs one check over the tree and says what to mend.
 *
 *   tidy ROOT limits|words|arrows|asserts      status 0 clean, 1 offenders, 2 misuse
 */
#include <stdio.h>
#include <string.h>

#include "tidy.h"

static const struct {
  const char *name;
  void (*check)(struct tidy_tree *tree);
} checks[] = {
    {"limits", check_limits},
    {"words", check_words},
    {"arrows", check_arrows},
    {"asserts", check_asserts},
};

int main(int argc, char **argv)
{
  for (size_t i = 0; argc == 3 && i < sizeof checks / sizeof checks[0]; ++i) {
    if (strcmp(argv[2], checks[i].name) != 0) continue;
    struct tidy_tree tree;
    tidy_tree_read(&tree, argv[1]);
    checks[i].check(&tree);
    printf("%s: %zu files read, %zu offenders\n", argv[2], tree.count, tree.problems);
    const int status = tree.problems > 0 ? 1 : 0;
    tidy_tree_free(&tree);
    return status;
  }
  fprintf(stderr, "usage: tidy ROOT limits|words|arrows|asserts\n");
  return 2;
}
