#!/usr/bin/env bash
# The golden runner can fail: a small program stands in for kvcap, and each kind of expectation is
# given once as it should be and once wrong.
set -u

runner="$KVCAP_SOURCE/tests/golden/test_cli.sh"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
failed=0
mkdir -p "$root/cases/a"
cat >"$root/kvcap" <<'END'
#!/usr/bin/env bash
echo "one"; echo "two 2"; echo "three"; echo "at $PWD" >&2; exit 3
END
chmod +x "$root/kvcap"

run() { KVCAP="$root/kvcap" CASES="$root/cases" bash "$runner" >"$root/output" 2>&1; }

# expect pass|fail WHAT: runs the one case as it stands now.
expect() {
  local result=pass
  run || result=fail
  if [ "$result" != "$1" ]; then
    echo "the runner should $1: $2"
    cat "$root/output"
    failed=1
  fi
}

case_folder="$root/cases/a"
echo kvcap >"$case_folder/cmd"
expect fail "no expectation at all"
echo 3 >"$case_folder/exit"
printf 'one\ntwo 2\nthree\n' >"$case_folder/stdout.exact"
# shellcheck disable=SC2016 # the marker itself
printf 'at $CASE_FOLDER\n' >"$case_folder/stderr.exact"
expect pass "all as it is"
echo 0 >"$case_folder/exit"
expect fail "another exit status"
echo 3 >"$case_folder/exit"
printf 'one\ntwo 2\nthree' >"$case_folder/stdout.exact"
expect fail "a missing newline"
rm "$case_folder/stdout.exact"
expect fail "output where none is expected"

glob() { printf '%s\n' "$@" >"$case_folder/stdout.glob"; }
glob 'one' 'two *' 'three'; expect pass "a pattern for a line"
glob '...' 'three'; expect pass "any lines first"
glob 'one' '...'; expect pass "any lines last"
glob 'one' '...' 'two ?' '...' 'three' '...'; expect pass "no lines at all"
glob 'one' 'two *'; expect fail "a line too many"
glob 'one' '...' 'four'; expect fail "a line that never comes"
glob 'one' 'two ? ' 'three'; expect fail "a line that does not match"
rm "$case_folder/stdout.glob"
touch "$case_folder/stdout.ignore"; expect pass "ignored output"
rm "$case_folder/stdout.ignore" "$case_folder/stderr.exact" "$case_folder/exit"

UPDATE=1 KVCAP="$root/kvcap" CASES="$root/cases" bash "$runner" >/dev/null
expect pass "what UPDATE=1 wrote"
[ -f "$case_folder/stdout.exact" ] && [ "$(cat "$case_folder/exit")" = 3 ] || failed=1
exit "$failed"
