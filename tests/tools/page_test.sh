#!/usr/bin/env bash
# Each box of docs/guide/operations.md, and of the ten minutes of docs/guide/security.md, is taken by one of the tests that run
# them as they stand: deploy/test_*.sh.
#   page_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
# shellcheck source=/dev/null
. deploy/page.sh

# The count must see every box, and no heading within one.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%s\n' '# A' '```' '# not a heading' '```' '## B c' '```sh' 'one' '```' 'text' '```' 'two' '```' >"$scratch/page.md"
[[ $(page_boxes "$scratch/page.md") == $'A\t1\nB c\t1\nB c\t2' ]] || { echo "self-test: $(page_boxes "$scratch/page.md")" >&2; exit 1; }
[[ $(page_block "$scratch/page.md" "B c" 2) == two ]] || { echo "self-test: the second box" >&2; exit 1; }
if page_block "$scratch/page.md" "B c" 3 2>/dev/null; then echo "self-test: a box that is not there" >&2; exit 1; fi

# True if a test runs box $2 below heading $1.
taken() { grep -qE "(box|page_block \"\\\$page\") \"?$1\"? $2([^0-9]|\$)" deploy/test_*.sh; }
if ! taken Containers 1 || taken Containers 99 || taken "Exit codes of luthierd" 1; then
  echo "self-test: which boxes are run" >&2
  exit 1
fi

missing=0
while IFS=$'\t' read -r page heading number; do
  if taken "$heading" "$number"; then continue; fi
  echo "$page: no test runs box $number below '$heading'; add it to one of deploy/test_*.sh" >&2
  missing=1
done < <(page_boxes docs/guide/operations.md | sed 's|^|docs/guide/operations.md\t|'
  page_boxes docs/guide/security.md | sed -n 's|^A coordinator for a team|docs/guide/security.md\t&|p')
((missing == 0)) || exit 1
echo "every box of the pages is run by a test"
