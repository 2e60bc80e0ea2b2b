#!/usr/bin/env bash
# The committed data are what data/ORIGIN.md says they are.
#   data_test.sh SOURCE_DIR
set -euo pipefail
cd "$1/data"
for file in *.csv; do
  sum=$(sha256sum "$file" | cut -d' ' -f1)
  grep -q "$sum" ORIGIN.md || { echo "$file has SHA-256 $sum, which ORIGIN.md does not name" >&2; exit 1; }
  grep -q "^## $file" ORIGIN.md || { echo "ORIGIN.md has no section for $file" >&2; exit 1; }
done
# 569 rows of 30 finite numbers and a label; counts as published.
awk -F, 'NR == 1 { if (NF != 31 || $31 != "diagnosis") { print "bad header"; exit 1 } next }
  { if (NF != 31) { print "line " NR ": " NF " fields"; exit 1 }
    for (i = 1; i < 31; i++) if ($i !~ /^[0-9.]+(e-?[0-9]+)?$/) { print "line " NR ": " $i; exit 1 }
    count[$31]++ }
  END { if (NR != 570 || count["malignant"] != 212 || count["benign"] != 357) { print "counts"; exit 1 } }' breast_cancer.csv >&2
echo "data and ORIGIN.md agree"
