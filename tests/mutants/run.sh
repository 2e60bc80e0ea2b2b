#!/usr/bin/env bash
# Puts each fault of mutants.tsv into the source, one at a time, builds its test program and expects the named tests to
# fail: a test that lets its mutant live is broken.
#   run.sh --list SOURCE_DIR [TSV]    whether each fault still has its place in the source; changes nothing
#   run.sh SOURCE_DIR [NAME...]       SOURCE_DIR: a checkout that nobody else works in, without uncommitted changes, whose
#                                     build/release is configured. Minutes: each fault is compiled.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Prints what is wrong with the lines of $2, whose paths are below $1.
wrong_mutants() {
  local name path from to program filter rest
  while IFS=$'\t' read -r name path from to program filter rest; do
    [[ -n $name && $name != '#'* ]] || continue
    if [[ -z $filter || -n $rest ]]; then
      echo "$name: needs six columns with tabs between them: name, path, text, fault, test program, tests"
    elif [[ ! -f $1/$path ]]; then
      echo "$name: there is no $path"
    elif [[ $(grep -cF -e "$from" "$1/$path") != 1 ]]; then
      echo "$name: $path does not hold '$from' on exactly one line"
    fi
  done <"$2"
}

if [[ ${1:-} == --list ]]; then
  list=${3:-$here/mutants.tsv}
  wrong=$(wrong_mutants "$2" "$list")
  [[ -z $wrong ]] || { printf '%s\n' "$wrong" >&2; exit 1; }
  echo "$(grep -c '^[^#]' "$list") mutants have their places"
  exit 0
fi

source_dir=$(cd "$1" && pwd)
shift
[[ -z $(git -C "$source_dir" status --porcelain --untracked-files=no) ]] || { echo "there are uncommitted changes" >&2; exit 1; }
mutated=
trap '[[ -z $mutated ]] || git -C "$source_dir" checkout -q -- "$mutated"' EXIT
alive=0
while IFS=$'\t' read -r name path from to program filter <&3; do
  [[ -n $name && $name != '#'* ]] || continue
  [[ $# == 0 || " $* " == *" $name "* ]] || continue
  [[ $to != - ]] || to=
  mutated=$path
  content=$(cat "$source_dir/$path"; echo x)
  content=${content/"$from"/"$to"}
  printf '%s' "${content%x}" >"$source_dir/$path"
  if ! ninja -C "$source_dir/build/release" "$program" >"$source_dir/build/release/mutant.log" 2>&1; then
    echo "$name: does not compile:" && tail -20 "$source_dir/build/release/mutant.log"
    alive=1
  elif timeout 120 "$source_dir/build/release/tests/$program" --gtest_filter="$filter" \
    >"$source_dir/build/release/mutant.log" 2>&1; then
    echo "$name: lives"
    alive=1
  else
    echo "$name: found by $(grep -oE '^\[  FAILED  \] [A-Za-z]+[./][^ ,]+' "$source_dir/build/release/mutant.log" | sort -u | head -1 | cut -c14- || true)"
  fi
  git -C "$source_dir" checkout -q -- "$path"
  mutated=
done 3<"$here/mutants.tsv"
exit $alive
