#!/usr/bin/env bash
# ./demo with programs that are built already: it ends well twice in a row in the same place, leaves what it promises, and
# no process.
#   demo_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not installed (tools/install_packages.sh demo)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$scratch/log" >&2; exit 1; }

mkdir "$scratch/home"
unset XDG_STATE_HOME
for run in 1 2; do
  # The demo keeps everything in its output. (A home that cannot be written to would not stop root.)
  HOME=$scratch/home "$source_dir/demo" --bin "$bin" --output "$scratch/out" >"$scratch/log" 2>&1 </dev/null || fail "run $run: status $?"
  [[ $(wc -l <"$scratch/out/trials.tsv") == 20 ]] || fail "run $run: not 20 trials with a value"
  cp "$scratch/out/trials.tsv" "$scratch/trials-$run.tsv"
  for picture in best_so_far settings; do
    head -c 300 "$scratch/out/$picture.svg" | grep -q '<svg' || fail "run $run: no $picture.svg"
  done
  head -c 100 "$scratch/out/best_so_far.html" | grep -q '<!doctype html>' || fail "run $run: no page"
  [[ $(head -c 8 "$scratch/out/best_so_far.png" | od -An -tx1 | tr -d ' ') == 89504e470d0a1a0a ]] || fail "run $run: no PNG"
  # Losses on rows that the search has not seen: a tenth below the default, and below the standardized one.
  awk -F'\t' '{ loss[$1] = $2 } END { exit !(NR == 3 && loss["tuned"] > 0 && loss["tuned"] <= 0.9 * loss["plain"] &&
    loss["tuned"] < loss["standardized"]) }' "$scratch/out/test.tsv" || fail "run $run: the tuned model is not better"
  # What scikit-learn 1.9.1 has for C = 1 when it is let converge: bench/train/pages/training.md.
  awk -F'\t' '$1 == "plain" { exit !($2 > 0.15386 - 1e-3 && $2 < 0.15386 + 1e-3) }' "$scratch/out/test.tsv" ||
    fail "run $run: the default's loss is not scikit-learn's"
  grep -q 'below the default one' "$scratch/log" || fail "run $run: does not say what was gained"
  [[ -z $(ls -A "$scratch/home") ]] || fail "run $run: left in the home directory: $(find "$scratch/home" -type f)"
  for process in /proc/[0-9]*/cmdline; do
    command_line=$(tr '\0' ' ' <"$process" 2>/dev/null) || continue
    [[ $command_line != *"$scratch/out"* ]] || fail "run $run: a process is left: $command_line"
  done
done
# The study is reproducible: the same settings and losses, whichever worker was faster.
cmp "$scratch"/trials-1.tsv "$scratch"/trials-2.tsv || fail "the two runs differ"
# The default setting, then a curve that never rises and ends below it.
awk -F'\t' 'NR == 1 && ($2 != 1 || $3 != 1) { print "trial 1 has strengths " $2 ", " $3; exit 1 }
  NR > 1 && $5 > last { print "best so far rises at trial " $1; exit 1 }
  { last = $5 } NR == 1 { first = $4 } END { if (last >= first) { print "no improvement"; exit 1 } }' "$scratch/trials-1.tsv" || fail "the curve is wrong"

takes=$(sed -n 's/^build_takes="\(.*\)"$/\1/p' "$source_dir/demo")
[[ -n $takes && $(<"$source_dir/README.md") == *"$takes"* ]] || fail "README does not say that the first build takes '$takes', as demo does"

status=0
"$source_dir/demo" --nonsense >"$scratch/log" 2>&1 || status=$?
[[ $status == 2 ]] || fail "an unknown argument gives status $status"
echo "the demo works"
