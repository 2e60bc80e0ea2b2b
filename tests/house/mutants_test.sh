#!/usr/bin/env bash
# Each fault of tests/mutants/mutants.tsv, and of tests/server/coordinator/mutants.tsv, still has its place in the source.
# Whether tests notice it: tests/mutants/run.sh, coordinator_mutants_test.
#   mutants_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
run=$(dirname "${BASH_SOURCE[0]}")/../mutants/run.sh

# The check must see each kind of wrong line, and let pass what is right.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf 'if (full) return;\nx = 1;\nx = 1;\n' >"$scratch/a.cc"
{
  printf '# note\nright\ta.cc\tif (full) return;\t-\ta_test\tA.*\ngone\tb.cc\tx\ty\ta_test\tA.*\n'
  printf 'moved\ta.cc\tif (empty)\t-\ta_test\tA.*\ntwice\ta.cc\tx = 1;\t-\ta_test\tA.*\nshort\ta.cc\tx\ty\ta_test\n'
} >"$scratch/m.tsv"
found=$("$run" --list "$scratch" "$scratch/m.tsv" 2>&1 | cut -d: -f1 | tr '\n' ' ') || true
[[ $found == "gone moved twice short " ]] || { echo "self-test: found '$found'" >&2; exit 1; }

"$run" --list "$source_dir" || { echo "mend the lines of tests/mutants/mutants.tsv" >&2; exit 1; }
"$run" --list "$source_dir" "$source_dir/tests/server/coordinator/mutants.tsv" || {
  echo "mend the lines of tests/server/coordinator/mutants.tsv" >&2
  exit 1
}
