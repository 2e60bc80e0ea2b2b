#!/usr/bin/env bash
# The committed data are what data/ORIGIN.md says they are.
#   data_test.sh SOURCE_DIR
set -euo pipefail
cd "$1/data"
for file in *.csv; do
  sum=$(sha256sum "$file" | cut -d' ' -f1)
  grep -q "$sum" ORIGIN.md || { echo "$file has SHA-256 $sum, which ORIGIN.md does not name" >&2; exit 1; }
  grep -q "^## .*$file" ORIGIN.md || { echo "ORIGIN.md has no section for $file" >&2; exit 1; }
done
# 569 rows of 30 finite numbers and a label; counts as published.
awk -F, 'NR == 1 { if (NF != 31 || $31 != "diagnosis") { print "bad header"; exit 1 } next }
  { if (NF != 31) { print "line " NR ": " NF " fields"; exit 1 }
    for (i = 1; i < 31; i++) if ($i !~ /^[0-9.]+(e-?[0-9]+)?$/) { print "line " NR ": " $i; exit 1 }
    count[$31]++ }
  END { if (NR != 570 || count["malignant"] != 212 || count["benign"] != 357) { print "counts"; exit 1 } }' breast_cancer.csv >&2
# 1348 and 449 digits of 64 pixels of 0 to 16, none in both files.
for part in train:1348 test:449; do
  awk -F, -v rows="${part#*:}" 'NF != 65 { print FILENAME " line " NR ": " NF " fields"; exit 1 }
    NR == 1 { if ($1 != "r1c1" || $64 != "r8c8" || $65 != "digit") { print "bad header"; exit 1 } next }
    { for (i = 1; i < 65; i++) if ($i !~ /^([0-9]|1[0-6])$/) { print FILENAME " line " NR ": " $i; exit 1 }
      if ($65 !~ /^[0-9]$/) { print FILENAME " line " NR ": digit " $65; exit 1 } }
    END { if (NR != rows + 1) { print FILENAME ": " NR - 1 " rows"; exit 1 } }' "digits_${part%%:*}.csv" >&2
done
both=$(tail -q -n +2 digits_train.csv digits_test.csv | LC_ALL=C sort | uniq -d)
[[ -z $both ]] || { echo "digits are in both files: $both" >&2; exit 1; }
echo "data and ORIGIN.md agree"
