#!/usr/bin/env bash
# Commands of a page of the manual, for tests that run them as they stand there. Source it:
#   page_block FILE HEADING N     prints the N-th box (```) below that heading, up to the next heading of any level
#   page_boxes FILE               prints "HEADING<tab>N" for every box

# shellcheck disable=SC2016  # Fields of awk, and a fence.
page_awk='
  /^```/ { if (!inside) ++n; if (!inside && list) print heading "\t" n; inside = !inside; next }
  !inside && /^#+ / { heading = $0; sub(/^#+ /, "", heading); n = 0; next }
  inside && !list && heading == want && n == number { print; found = 1 }
  END { if (!list && !found) exit 1 }'

page_block() {
  awk -v want="$2" -v number="$3" -v list=0 "$page_awk" "$1" ||
    { echo "page.sh: $1 has no box $3 below '$2'" >&2; return 1; }
}

page_boxes() { awk -v list=1 "$page_awk" "$1"; }
