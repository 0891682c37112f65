#!/usr/bin/env bash
# The tidy checks can fail: each offence is planted in a small clean tree, alone, and must be
# reported at its place; the clean tree itself must pass.
set -u

tidy="$KVCAP_BUILD/tests/tidy"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
failed=0

# A tree that passes every check.
fresh_tree() {
  rm -rf "${root:?}"/*
  mkdir -p "$root/engine/base" "$root/engine/kv" "$root/sim/cli" "$root/tests/tidy"
  printf 'engine/base:\nengine/kv: engine/base\nsim/cli: engine/kv\nlibrary sqlite3.h: sim/cli\n' \
    >"$root/tests/tidy/arrows.txt"
  printf 'engine/base/arena.c  set-up\n' >"$root/tests/tidy/allocators.txt"
  printf '/* Memory. */\n#include "engine/base/arena.h"\n\nvoid f(void)\n{\n  malloc(1);\n}\n' \
    >"$root/engine/base/arena.c"
  printf '/* Memory. */\nvoid f(void);\n' >"$root/engine/base/arena.h"
  printf '/* Pages. */\n#include "engine/base/arena.h"\n' >"$root/engine/kv/pool.h"
  printf '/* Pages. */\n#include "engine/kv/pool.h"\n' >"$root/engine/kv/pool.c"
}

# expect CHECK TEXT: the check must fail and print the text.
expect() {
  local output
  if output="$("$tidy" "$root" "$1" 2>&1)"; then
    echo "tidy $1 passed although it should say: $2"
    failed=1
  elif [[ "$output" != *"$2"* ]]; then
    printf 'tidy %s should say: %s\nbut said:\n%s\n' "$1" "$2" "$output"
    failed=1
  fi
  fresh_tree
}

fresh_tree
for check in limits words arrows asserts; do
  if ! output="$("$tidy" "$root" "$check")"; then
    printf 'tidy %s fails on a clean tree:\n%s\n' "$check" "$output"
    failed=1
  fi
done

pool="$root/engine/kv/pool.c"
long="$(printf 'x%.0s' {1..101})"

printf '/* %s */\n' "$long" >>"$pool"; expect limits "pool.c:3: 107 columns"
printf 'int a; \n' >>"$pool"; expect limits "pool.c:3: trailing blanks"
printf '\tint a;\n' >>"$pool"; expect limits "pool.c:3: tab"
printf 'int a;\r\n' >>"$pool"; expect limits "carriage return"
printf 'int a;' >>"$pool"; expect limits "no newline at the end"
printf 'int f(void) {\n}\n' >>"$pool"; expect limits "on a line of its own"
{ printf 'void g(void)\n{\n'; printf '  ;\n%.0s' {1..69}; printf '}\n'; } >>"$pool"
expect limits "pool.c:4: function of 71 lines"
printf '\n%.0s' {1..799} >>"$pool"; expect limits "801 lines; at most 800"
printf 'int a;\n' >"$pool"; expect limits "open the file with a comment"
printf '/* x */\n' >"$root/engine/kv/arena.h"
expect limits "has the file name of engine/base/arena.h"
printf '/* x */\n' >"$root/engine/kv/test_a.c"
printf '#!/usr/bin/env bash\n# x\nset -eu\n' >"$root/engine/base/test_a.sh"
expect limits "has the test name of"
printf '#!/bin/sh\nset -eu\n' >"$root/tests/a.sh"; expect limits "begin with"
printf '#!/usr/bin/env bash\n# x\nls\n' >"$root/tests/a.sh"; expect limits "is missing"

for call in sprintf strcpy strcat atoi atof rand time gets strtok assert log printf exit; do
  printf 'int a = %s (1);\n' "$call" >>"$pool"
  expect words "pool.c:3: $call: "
done
printf 'FILE *f = stderr;\n' >>"$pool"; expect words "stderr: only sim/cli prints"
printf 'void *p = malloc(1);\n' >>"$pool"; expect words "malloc: memory is taken at set-up"
printf 'engine/kv/gone.c  set-up\n' >>"$root/tests/tidy/allocators.txt"
expect words "engine/kv/gone.c is not in the tree"
printf 'engine/kv/pool.c  set-up\n' >>"$root/tests/tidy/allocators.txt"
expect words "engine/kv/pool.c takes no memory"
printf '/* %s%s: later */\n' TO DO >>"$pool"; expect words "finish it"
printf '/* see /wo%s/main */\n' rk >>"$pool"; expect words "a path of one machine"
printf '# from pypi%s\n' .org >"$root/tests/a.txt"; expect words "no registry hosts"

printf '#include "engine/kv/pool.h"\n' >>"$root/engine/base/arena.c"
expect arrows "engine/base/arena.c:8: engine/base -> engine/kv is no arrow"
printf '#include "pool.h"\n' >>"$pool"; expect arrows "is not in the tree"
printf '#include <sqlite3.h>\n' >>"$pool"; expect arrows "<sqlite3.h> is known to"
mkdir "$root/engine/new"; printf '/* x */\n' >"$root/engine/new/new.c"
expect arrows "engine/new has no line"
printf '/* x */\n' >"$root/engine/kv/unused.h"; expect arrows "no file includes this header"
printf 'sim/a: sim/b\n' >>"$root/tests/tidy/arrows.txt"; expect arrows "arrows point downward only"

{ printf 'void g(void)\n{\n'; printf '  ;\n%.0s' {1..4}; printf '}\n'; } >>"$pool"
expect asserts "fewer than 1.0 asserts"

# What must not be reported: words in comments and strings, members, longer identifiers.
cat >>"$pool" <<'END'
/* rand() time() malloc() stdout */
static const char *a = "printf(\" rand()";
int b = x.time(1) + y->log(2) + my_rand(3);
END
if ! output="$("$tidy" "$root" words)"; then
  printf 'tidy words reports what is no offence:\n%s\n' "$output"
  failed=1
fi
exit "$failed"
