#!/usr/bin/env bash
# docs/libraries.md tells the truth. Its table has one row per library, and the row's dependencies are the ones that the
# library's CMakeLists.txt links; these are all that the library's files include. Each arrow of its drawing is such a
# dependency, and each dependency follows the drawing's arrows, which never turn back.
#   libraries_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# Prints "library: dep dep …" for each library of ours below $1, from the CMake files; with $2 = program for each program.
from_cmake() {
  find "$1"/{lib,server,worker,client} -name CMakeLists.txt -exec cat {} + | awk -v call="luthier_${2:-library}" '
    { sub(/#.*/, ""); text = text " " $0 }
    END {
      while (match(text, call "\\([^)]*\\)")) {
        words = substr(text, RSTART + length(call) + 1, RLENGTH - length(call) - 2)
        text = substr(text, RSTART + RLENGTH)
        match(words, /[a-z_-]+/)
        name = substr(words, RSTART, RLENGTH)
        sub(/^luthier_/, "", name)
        line = name ":"
        words = substr(words, RSTART + RLENGTH)
        while (match(words, /luthier(::[a-z_]+|_([a-z]+_)?proto)/)) {
          dep = substr(words, RSTART, RLENGTH)
          words = substr(words, RSTART + RLENGTH)
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

# Prints "user used" for each arrow of the drawing in $1/docs/libraries.md. Statements such as "a, b <- c <- d" or
# "c -> a, b" stand two spaces or more apart.
# shellcheck disable=SC2016  # Backquotes of Markdown.
arrows() {
  sed -n '/^```text/,/^```$/p' "$1/docs/libraries.md" | grep -E -- '<-|->' | sed -E 's/^ +//; s/ {2,}/\n/g' | awk '
    function draw(users, used,   i, j, from, to, n, m) {
      n = split(users, from, /, */)
      m = split(used, to, /, */)
      for (i = 1; i <= n; ++i) for (j = 1; j <= m; ++j) print from[i], to[j]
    }
    / -> / { split($0, side, / -> /); draw(side[1], side[2]); next }
    { n = split($0, group, / <- /); for (i = 1; i < n; ++i) draw(group[i + 1], group[i]) }'
}

# Prints where the drawing in $1/docs/libraries.md and the CMake files below $1 contradict each other: arrows that no
# CMake file has, arrows that turn back, and dependencies to which no arrows lead. Generated code is one box: proto.
wrong_arrows() {
  {
    arrows "$1" | sed 's/^/drawn /'
    { from_cmake "$1"; from_cmake "$1" program; } | awk -F': *' '
      { n = split($2, deps, " "); for (i = 1; i <= n; ++i) { sub(/^[a-z]*_proto$/, "proto", deps[i]); print "linked", $1, deps[i] } }'
  } | awk '
    function mark(user, at,   i, n, used) {
      n = split(below[at], used, " ")
      for (i = 1; i <= n; ++i) if (!((user, used[i]) in reached)) { reached[user, used[i]] = 1; mark(user, used[i]) }
    }
    $1 == "drawn" { drawn[$2 " " $3] = 1; below[$2] = below[$2] " " $3 }
    $1 == "linked" { linked[$2 " " $3] = 1 }
    END {
      for (user in below) mark(user, user)
      for (arrow in drawn) if (!(arrow in linked)) print "drawn, but not in CMake: " arrow
      for (user in below) if ((user, user) in reached) print "turns back: " user
      for (arrow in linked) {
        split(arrow, end, " ")
        if (!((end[1], end[2]) in reached)) print "in CMake, but no arrows lead there: " arrow
      }
    }' | sed -E 's/: ([^ ]+) ([^ ]+)$/: \1 uses \2/' | LC_ALL=C sort
}

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

# The drawing's check must see an arrow that is not there, a dependency that no arrows show, and one that turns back.
expect_arrows() {  # what is wrong, lines of the drawing
  printf '```text\n' >"$scratch/docs/libraries.md"
  printf '%s\n' "${@:2}" '```' >>"$scratch/docs/libraries.md"
  found=$(wrong_arrows "$scratch")
  [[ $found == "$1" ]] || { echo "self-test: of '${*:2}' was said '$found'" >&2; exit 1; }
}
mkdir -p "$scratch/server/c"
printf 'luthier_library(luthier_c SRCS c.cc\n  DEPS luthier::a luthier::b)\nluthier_program(luthier-c SRCS main.cc DEPS luthier::c)\n' >"$scratch/server/c/CMakeLists.txt"
expect_arrows '' 'lib/' '    a, proto <- b <- c <- luthier-c'
expect_arrows '' '    proto <- b    b -> a' '         b <- c    c <- luthier-c'
expect_arrows 'drawn, but not in CMake: c uses proto' '    a, proto <- b <- c    proto <- c <- luthier-c'
expect_arrows 'in CMake, but no arrows lead there: c uses b' '    a, proto <- b    a <- c <- luthier-c'
expect_arrows 'in CMake, but no arrows lead there: luthier-c uses c' '    a, proto <- b <- c'
expect_arrows $'drawn, but not in CMake: a uses c\nturns back: a\nturns back: b\nturns back: c' \
  '    a, proto <- b <- c <- luthier-c    c <- a'
rm -r "$scratch/server/c"

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

wrong=$(wrong_arrows "$source_dir")
if [[ -n $wrong ]]; then
  printf '%s\n' "$wrong" >&2
  echo "the drawing in docs/libraries.md and the CMake files disagree; bring it in step, or move what both need down." >&2
  exit 1
fi
echo "docs/libraries.md agrees with the CMake files"
