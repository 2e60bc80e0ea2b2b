#!/usr/bin/env bash
# docs/libraries.md tells the truth: its table has one row per library, and the row's dependencies are the ones that the
# library's CMakeLists.txt links; and these are all that the library's files include.
#   libraries_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# "library: dep dep …" for each library of ours below $1, from the CMake files.
from_cmake() {
  find "$1"/{lib,server,worker,client} -name CMakeLists.txt -exec cat {} + | awk '
    { sub(/#.*/, ""); text = text " " $0 }
    END {
      while (match(text, /luthier_library\([^)]*\)/)) {
        call = substr(text, RSTART + 16, RLENGTH - 16)
        text = substr(text, RSTART + RLENGTH)
        match(call, /luthier_[a-z_]+/)
        line = substr(call, RSTART + 8, RLENGTH - 8) ":"
        call = substr(call, RSTART + RLENGTH)
        while (match(call, /luthier(::[a-z_]+|_([a-z]+_)?proto)/)) {
          dep = substr(call, RSTART, RLENGTH)
          call = substr(call, RSTART + RLENGTH)
          sub(/^luthier(::|_)/, "", dep)
          line = line " " dep
        }
        print line
      }
    }' | normalize
}

# The same from the table of docs/libraries.md: rows "| `library` | `dep`, `dep` | what |".
from_page() {
  awk -F'|' '/^\| *`[a-z_]+` *\|/ { gsub(/[`,]/, ""); print $2 ":" $3 }' "$1/docs/libraries.md" | sed 's/^ *//; s/ *:/:/' | normalize
}

normalize() {
  while IFS= read -r line; do
    printf '%s: %s\n' "${line%%:*}" "$(tr ' ' '\n' <<<"${line#*:}" | sed '/^$/d; /^-$/d; /^—$/d' | LC_ALL=C sort -u | tr '\n' ' ')"
  done | LC_ALL=C sort | sed 's/ *$//'
}

compare() { diff <(from_page "$1") <(from_cmake "$1"); }

# Prints "library: dep" for each library below $1 whose files include a header of a library that its CMake file does not
# link. Folders with several libraries are left out: their files do not tell whose they are.
unlinked_includes() {
  {
    from_cmake "$1" | awk -F': *' '{ n = split($2, deps, " "); for (i = 1; i <= n; ++i) print "links", $1, deps[i] }'
    (cd "$1" && find lib server worker client -name CMakeLists.txt -exec grep -Ho 'luthier_library(luthier_[a-z_]*' {} +) |
      sed 's#\(.*\)/CMakeLists.txt:luthier_library(luthier_#owner \1 #'
    (cd "$1" && find lib server worker client \( -name '*.h' -o -name '*.cc' \) -exec grep -HoE '^#include "(lib|server|worker|client)/[^"]+"' {} +) |
      sed 's#\(.*\):\#include "\(.*\)"#include \1 \2#'
  } | awk '
    function library(path) {
      while (sub(/\/[^\/]*$/, "", path)) if (path in owner) return owner[path]
      return ""
    }
    $1 == "links" { linked[$2 " " $3] = 1 }
    $1 == "owner" && $2 in owner { owner[$2] = "several"; next }
    $1 == "owner" { owner[$2] = $3 }
    $1 == "include" {
      from = library($2); to = library($3)
      if (from == "" || to == "" || from == "several" || to == "several" || from == to) next
      if (!((from " " to) in linked)) print from ": " to
    }' | LC_ALL=C sort -u
}

# The comparison must see a missing row, a missing arrow and an invented one.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{docs,lib/a,server/b,worker,client}
printf 'luthier_library(luthier_a\n  SRCS a.cc\n  DEPS absl::status)\n' >"$scratch/lib/a/CMakeLists.txt"
printf 'luthier_library(luthier_b SRCS b.cc\n  DEPS luthier::a Eigen3::Eigen\n  PRIVATE_DEPS luthier_record_proto)\n' >"$scratch/server/b/CMakeLists.txt"
expect() {
  printf '%s\n' "${@:2}" >"$scratch/docs/libraries.md"
  if compare "$scratch" >/dev/null; then verdict=same; else verdict=different; fi
  [[ $verdict == "$1" ]] || { echo "self-test: '${*:2}' was judged $verdict" >&2; exit 1; }
}
# shellcheck disable=SC2016  # Backquotes of Markdown.
{
  expect same '| `a` | — | one |' '| `b` | `record_proto`, `a` | two |'
  expect different '| `a` | — | one |'
  expect different '| `a` | — | one |' '| `b` | `a` | two |'
  expect different '| `a` | `b` | one |' '| `b` | `a`, `record_proto` | two |'
}

printf '#include "lib/a/a.h"\n' >"$scratch/server/b/b.cc"
[[ -z $(unlinked_includes "$scratch") ]] || { echo "self-test: an include of a linked library was held against it" >&2; exit 1; }
printf '#include "server/b/b.h"\n' >"$scratch/lib/a/a.cc"
[[ $(unlinked_includes "$scratch") == "a: b" ]] || { echo "self-test: an include of no linked library was not seen" >&2; exit 1; }

unlinked=$(unlinked_includes "$source_dir")
if [[ -n $unlinked ]]; then
  printf '%s\n' "$unlinked" >&2
  echo "these libraries include headers of others that their CMake files do not link; add them to DEPS and docs/libraries.md" >&2
  exit 1
fi

if ! differences=$(compare "$source_dir"); then
  printf '%s\n' "$differences" >&2
  echo "docs/libraries.md (<) and the CMake files (>) disagree; bring the table and the drawing in step." >&2
  exit 1
fi
# The drawing names every library folder, too.
for folder in $(cd "$source_dir/lib" && find . -mindepth 2 -maxdepth 2 -name CMakeLists.txt -size +0 -printf '%h\n' | sed 's#^\./##'); do
  grep -q luthier_library "$source_dir/lib/$folder/CMakeLists.txt" || continue
  # shellcheck disable=SC2016  # Backquotes of Markdown.
  sed -n '/^```text/,/^```$/p' "$source_dir/docs/libraries.md" | grep -qw "$folder" ||
    { echo "the drawing in docs/libraries.md lacks lib/$folder" >&2; exit 1; }
done
echo "docs/libraries.md agrees with the CMake files"
