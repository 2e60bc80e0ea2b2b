#!/usr/bin/env bash
# Writes a copy of one source of the coordinator with its faults (mutants.tsv) in it.
#   mutate.sh SOURCE_DIR PATH OUT
set -euo pipefail
content=$(cat "$1/$2"; echo x)
while IFS=$'\t' read -r _ path from to _; do
  [[ $path == "$2" ]] || continue
  [[ $content == *"$from"* ]] || { echo "$2 does not hold '$from'; mend mutants.tsv" >&2; exit 1; }
  content=${content/"$from"/"$to"}
done <"$(dirname "${BASH_SOURCE[0]}")/mutants.tsv"
printf '#include <algorithm>\n#include "tests/server/coordinator/mutants.h"\n%s' "${content%x}" >"$3"
