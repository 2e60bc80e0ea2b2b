#!/usr/bin/env bash
# What tools/run_cases.sh makes of cases that end well, badly and not at all, and of what is no case.
#   run_cases_test.sh SOURCE_DIR PROGRAMS_DIR
set -euo pipefail
run=$1/tools/run_cases.sh
bin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'run_cases_test: %s\n' "$*" >&2; [[ ! -r $work/said ]] || cat "$work/said" >&2; exit 1; }

"/usr/bin/python3" -c 'import grpc, google.protobuf' 2>/dev/null || { echo "skipped: python3 has no grpc"; exit 77; }
mkdir -p "$work/all/shell" "$work/all/python" "$work/all/none" "$work/bad/broken" "$work/bad/slow"
# The programs and the package are found, with nothing of the caller's environment.
printf 'luthier --version && ! env | grep LUTHIER_SERVER\n' >"$work/all/shell/run.sh"
printf 'import os, luthier\nassert not os.listdir("."), os.listdir(".")\n' >"$work/all/python/run.py"
touch "$work/all/none/README"
printf 'echo what is wrong; exit 3\n' >"$work/bad/broken/run.sh"
printf 'sleep 60\n' >"$work/bad/slow/run.sh"

export LUTHIER_SERVER=nowhere:1
"$run" --bin "$bin" --python /usr/bin/python3 "$work/all" >"$work/said" 2>&1 || fail "cases that end with 0 are not all well"
grep -q '^2 of 2 cases ended with 0$' "$work/said" || fail "the summary does not count two"
grep -q '^none .*neither run.sh nor run.py' "$work/said" || fail "a folder that is no case is not named"
if LUTHIER_CASE_SECONDS=1 "$run" --bin "$bin" --python /usr/bin/python3 "$work/bad" >"$work/said" 2>&1; then
  fail "a case that fails is well"
fi
grep -q '^broken  *3 ' "$work/said" || fail "the exit code of a failure is not shown"
grep -q '^    what is wrong$' "$work/said" || fail "what a failure said is not shown"
grep -q '^0 of 2 cases ended with 0; not: broken slow$' "$work/said" || fail "the summary does not name them"
mkdir "$work/empty"
code=0
"$run" --bin "$bin" --python /usr/bin/python3 "$work/empty" >"$work/said" 2>&1 || code=$?
((code == 1)) || fail "no case at all is well"
code=0
"$run" --bogus "$work/all" >"$work/said" 2>&1 || code=$?
((code == 2)) || fail "an unknown option is taken"
