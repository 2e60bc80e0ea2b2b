#!/bin/sh
# Makes data/digits_train.csv and data/digits_test.csv again from the Debian package they came from, and says whether they
# are the committed files.
#
#   tools/make_digits.sh [DIRECTORY]        default: data
#
# Needs a Debian 12 with its package lists (apt-get update); installs nothing. data/ORIGIN.md tells the licence.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
output=${1:-$root/data}
inner=usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
unpacked_sha256=6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8
train_sha256=d6fd6a28613983a9a58723b7782fc2caac20842b43335ca996269e4681ee881e
test_sha256=3ceca74d5abb7d6ac5cd8034962b29df8fac050f8b2ca45c540f273a8c947ec6

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && apt-get -q -o APT::Sandbox::User=root download python3-sklearn)
dpkg-deb --fsys-tarfile "$work"/python3-sklearn_*.deb | tar -x -C "$work" "./$inner"
zcat "$work/$inner" >"$work/digits.csv"
printf '%s  %s\n' "$unpacked_sha256" "$work/digits.csv" | sha256sum --check --quiet -

# 64 pixels of 0 to 16, row by row, and the digit. Ours: names; every fourth line goes to the test set. Numbers are copied.
awk -F, -v OFS=, -v train="$work/digits_train.csv" -v test="$work/digits_test.csv" '
  BEGIN {
    for (r = 1; r <= 8; r++) for (c = 1; c <= 8; c++) header = header "r" r "c" c ","
    print header "digit" >train
    print header "digit" >test
  }
  NF != 65 { print "line " NR ": " NF " fields" >"/dev/stderr"; exit 1 }
  { for (i = 1; i <= 65; i++) $i = $i + 0
    if (NR % 4 == 0) print >test
    else print >train }
  END { if (NR != 1797) { print NR " rows, not 1797" >"/dev/stderr"; exit 1 } }
' "$work/digits.csv"
printf '%s  %s\n' "$train_sha256" "$work/digits_train.csv" "$test_sha256" "$work/digits_test.csv" |
  sha256sum --check --quiet -
cp "$work/digits_train.csv" "$work/digits_test.csv" "$output"
echo "wrote $output/digits_train.csv and $output/digits_test.csv"
