#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy on the C++ sources that changed since BASE, those of the product; a header stands for the source of
# its name. Needs clang-tidy-19 (tools/install_packages.sh dev) and a configured build/release whose generated files are there.
#
#   tools/tidy.sh [BASE | --all]      default: where this branch left origin/main, else the commit before the newest
#
# LUTHIER_TIDY_SECONDS bounds it (default 300): how many were not looked at by then is said, and is no finding. LUTHIER_JOBS sets
# how many run at once (default: one a core).
# Exit: 0 no finding, 1 findings, 2 wrong arguments, 77 it can't run here, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${LUTHIER_TIDY_SECONDS:-300}
jobs=${LUTHIER_JOBS:-$(nproc)}
places=(lib server worker client deploy)
commands=build/release/compile_commands.json

skip() { echo "tidy: skipped: $*"; exit 77; }
tidy=$(command -v clang-tidy-19) || skip "clang-tidy-19 is not installed (tools/install_packages.sh dev)"
[[ -r $commands ]] || skip "there is no $commands (tools/build.sh)"

base=${1:-}
case $base in
  --all) ;;
  -*) echo "tidy.sh: unknown option '$base'" >&2; exit 2 ;;
  '')
    base=$(git merge-base HEAD origin/main 2>/dev/null) || base=
    [[ -n $base && $base != "$(git rev-parse HEAD)" ]] || base=$(git rev-parse --verify --quiet HEAD~1) || skip "there is no commit to compare with"
    ;;
  *) git rev-parse --verify --quiet "$base^{commit}" >/dev/null || { echo "tidy.sh: there is no commit $base" >&2; exit 2; } ;;
esac

# A source that the build compiles together with others has no command of its own there; clang-tidy takes that of a neighbour,
# which may lack folders of headers: Eigen's and the generated ones are added.
if [[ $base == --all ]]; then
  changed=$(git ls-files -- "${places[@]}" | grep '\.cc$')
else
  changed=$(git diff --name-only --diff-filter=d "$base" -- "${places[@]}" | sed -n 's/\.h$/.cc/; /\.cc$/p')
fi
files=$(LC_ALL=C sort -u <<<"$changed" | while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done)
[[ -n $files ]] || { echo "tidy: no source changed since $base"; exit 0; }
number=$(wc -l <<<"$files")

scratch=$(mktemp -d)
worker=
finish() {
  [[ -z $worker ]] || kill "$worker" 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Flags of GCC that clang does not know, and what GCC's own library calls, say nothing about the code.
look() {
  local log=$scratch/${1//\//-}
  "$tidy" --quiet -p build/release --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument \
    --extra-arg=-Wno-deprecated-declarations --extra-arg=-isystem/usr/include/eigen3 "--extra-arg=-isystem$PWD/build/release/gen" "$1" >"$log.out" 2>"$log.err" || mv "$log.out" "$log.found"
  [[ -e $log.found ]] || mv "$log.out" "$log.clean"
}
export -f look
export tidy scratch
began=$SECONDS
status=0
# timeout ends all that it started, in a process group of its own.
timeout "$seconds" xargs -P "$jobs" -n 1 bash -c 'look "$@"' look <<<"$files" &
worker=$!
wait "$worker" || status=$?
worker=
looked=$(find "$scratch" \( -name '*.found' -o -name '*.clean' \) | wc -l)
find "$scratch" -name '*.found' -exec cat {} + | grep -E '(warning|error):' | LC_ALL=C sort -u >"$scratch/findings" || true
if ((status == 124)); then
  echo "tidy: $looked of $number sources looked at in $seconds s; the others were not (LUTHIER_TIDY_SECONDS)"
elif ((looked < number)); then
  echo "tidy: clang-tidy looked at $looked of $number sources only" >&2
  exit 1
fi
if [[ -s $scratch/findings ]] || [[ -n $(find "$scratch" -name '*.found') ]]; then
  find "$scratch" -name '*.found' -exec cat {} + >&2
  echo "tidy: $(wc -l <"$scratch/findings") findings since $base; mend them, or switch the check off in .clang-tidy with the reason" >&2
  exit 1
fi
echo "tidy: no finding in $looked sources changed since $base ($((SECONDS - began)) s)"
