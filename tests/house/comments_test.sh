#!/usr/bin/env bash
# Comments of headers have a subject: few of them begin with a word such as Of, Those or Whether, which leaves the reader
# to guess who does what. The ones that there are may only become fewer: comments_max.txt holds their number.
#   comments_test.sh SOURCE_DIR     prints every one of them, as path:line: comment
set -euo pipefail
source_dir=$1
here=$(dirname "${BASH_SOURCE[0]}")

# Prints "path:line: comment" for each comment without a subject in the headers of lib/, server/, worker/ and client/ below
# $1. A comment is a run of lines that begin with //, or one that follows code; its first word decides.
# shellcheck disable=SC2016  # Fields of awk.
without_subject() {
  (cd "$1" && find lib server worker client -name '*.h' -print0 2>/dev/null | LC_ALL=C sort -z |
    LC_ALL=C xargs -0 -r awk '
      BEGIN { subjectless = "^(Of|Those|None|Absent|What|Whether|Where|Which|How|Why)([^A-Za-z_]|$)" }
      FNR == 1 { goes_on = 0 }
      {
        line = $0
        sub(/^[ \t]+/, "", line)
        if (line ~ /^\/\//) {
          begins = !goes_on
          goes_on = 1
        } else {
          goes_on = 0
          begins = match(line, /[ \t]\/\/ /) > 0
          line = substr(line, RSTART + 1)
        }
        sub(/^\/\/+ */, "", line)
        if (begins && line ~ subjectless) print FILENAME ":" FNR ": " line
      }')
}

# The count must see what is planted, and no more.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lib,server,worker,client,tests}
cat >"$scratch/lib/a.h" <<'PLANTED'
// Of all rows the largest.
// What follows is the same comment.
int a;  // Whether it was seen.
int b;  // The rows seen.

  // None yet.
int c;  // Of
// Offsets in bytes.
const char* d = "x";  // Whatever it is.
// Rows.
//
// Where they are.
PLANTED
printf '// What it is.\n' >"$scratch/tests/b.h"
printf '// Those left.' >"$scratch/worker/c.h"  # Without an end of line.
printf '// Those left.\n' >"$scratch/worker/d.h"
found=$(without_subject "$scratch" | cut -d' ' -f1 | tr '\n' ' ')
[[ $found == "lib/a.h:1: lib/a.h:3: lib/a.h:6: lib/a.h:7: worker/c.h:1: worker/d.h:1: " ]] ||
  { echo "self-test: found '$found'" >&2; exit 1; }

most=$(<"$here/comments_max.txt")
list=$(without_subject "$source_dir")
number=$(grep -c . <<<"$list" || true)
printf '%s\n' "$list"
if ((number > most)); then
  echo "$number comments of headers begin without a subject, and there were $most: give the new ones a subject and a verb" \
    "(CONTRIBUTING.md), for instance 'True if …' for 'Whether …'" >&2
  exit 1
fi
echo "$number comments of headers begin without a subject; at most $most may"
((number == most)) || echo "write $number into tests/house/comments_max.txt, so that it stays so"
