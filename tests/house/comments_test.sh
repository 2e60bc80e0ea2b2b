#!/usr/bin/env bash
# Comments have a subject: few of them begin with a word such as Of, Those or Whether, which leaves the reader to guess
# who does what. Those that are there may only become fewer: comments_max.txt holds their number in lib, in the headers
# of other folders, and in the other sources of these.
#   comments_test.sh SOURCE_DIR     prints every one of them, as path:line: comment
set -euo pipefail
source_dir=$1
here=$(dirname "${BASH_SOURCE[0]}")

# Prints "path:line: comment" for each comment without a subject in the C++, Python, shell and proto files of the folders
# below $1. A comment is a run of lines that begin with the language's marker (// or #), or one that follows code; its
# first words decide. Text after # within quotes looks like a comment; such text seldom begins so.
# shellcheck disable=SC2016  # Fields of awk.
without_subject() {
  (cd "$1" && find lib server worker client proto tools deploy -type f \
    \( -name '*.h' -o -name '*.cc' -o -name '*.proto' -o -name '*.py' -o -name '*.sh' \) -print0 2>/dev/null |
    LC_ALL=C sort -z | LC_ALL=C xargs -0 -r awk '
      BEGIN {
        words = "Of|Those|None|Absent|What|Whatever|Whether|Where|Which|How|Why|Else|Until|Than|Into|Their"
        pairs = "(As|So) (many|much|few|little|long)|One (that|which)|That (of|which)|Not (of|by)|Its own"
        subjectless = "^(" words "|" pairs ")([^A-Za-z_]|$)"
      }
      FNR == 1 {
        goes_on = 0
        marker = FILENAME ~ /\.(py|sh)$/ ? "#+" : "\\/\\/+"
      }
      {
        line = $0
        sub(/^[ \t]+/, "", line)
        if (line ~ "^" marker && line !~ /^#!/) {
          begins = !goes_on
          goes_on = 1
        } else {
          goes_on = 0
          begins = match(line, "[ \t]" marker " ") > 0
          line = substr(line, RSTART + 1)
        }
        sub("^" marker " *", "", line)
        if (begins && line ~ subjectless) print FILENAME ":" FNR ": " line
      }')
}

# The count must see what is planted, and no more.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lib,server,worker,client,proto,tools,deploy,tests}
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
cat >"$scratch/lib/b.cc" <<'PLANTED'
int e;  // One that finds there that nobody is left.
int f;  // One of the folds.
// As many as there are rows.
int g;  // # None: of this language.
# None of a comment here.
/// That of the largest.
int h;  // Nothingness; Elsewhere.
PLANTED
cat >"$scratch/proto/c.proto" <<'PLANTED'
// Absent: the default.
string i = 1;  // So many at most.
string j = 2;  // The number.
PLANTED
cat >"$scratch/tools/d.py" <<'PLANTED'
#!/usr/bin/env python3
# What it prints.
k = 1  # Its own number.
l = 2  # Its number.
m = 3 // 4
# The rows.
# Those left.
PLANTED
cat >"$scratch/deploy/e.sh" <<'PLANTED'
#!/usr/bin/env bash
## How it is done.
n=$#  # Why.
echo "// None"  # shellcheck disable=SC2016
PLANTED
printf '// What it is.\n' >"$scratch/tests/b.h"
printf '// Of no language here.\n' >"$scratch/lib/f.txt"
printf '// Those left.' >"$scratch/worker/c.h"  # Without an end of line.
printf '// Those left.\n' >"$scratch/worker/d.h"
expected="deploy/e.sh:2: deploy/e.sh:3: lib/a.h:1: lib/a.h:3: lib/a.h:6: lib/a.h:7: lib/a.h:9: \
lib/b.cc:1: lib/b.cc:3: lib/b.cc:6: proto/c.proto:1: proto/c.proto:2: tools/d.py:2: tools/d.py:3: \
worker/c.h:1: worker/d.h:1: "
found=$(without_subject "$scratch" | cut -d' ' -f1 | tr '\n' ' ')
[[ $found == "$expected" ]] || { echo "self-test: found '$found'" >&2; exit 1; }

list=$(without_subject "$source_dir")
printf '%s\n' "$list"
failed=0
# Compares the number of lines of $2 with the limit of $1 in comments_max.txt.
check() {
  local most number
  most=$(sed -n "s/^$1 //p" "$here/comments_max.txt")
  [[ $most =~ ^[0-9]+$ ]] || { echo "comments_max.txt has no number for $1" >&2; exit 1; }
  number=$(grep -c . <<<"$2" || true)
  if ((number > most)); then
    echo "$number comments of $1 begin without a subject, and there were $most: give the new ones a subject and a verb" \
      "(CONTRIBUTING.md), for instance 'True if …' for 'Whether …'" >&2
    failed=1
    return
  fi
  echo "$number comments of $1 begin without a subject; at most $most may"
  ((number == most)) || echo "write '$1 $number' into tests/house/comments_max.txt, so that it stays so"
}
check lib "$(grep -E '^lib/' <<<"$list" || true)"
check headers "$(grep -vE '^lib/' <<<"$list" | grep -E '^[^:]*\.h:' || true)"
check others "$(grep -vE '^lib/' <<<"$list" | grep -vE '^[^:]*\.h:' || true)"
exit "$failed"
