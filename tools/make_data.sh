#!/bin/sh
# Makes data/breast_cancer.csv again from the Debian package it came from, and says whether it is the committed file.
#
#   tools/make_data.sh [OUTPUT]        default: data/breast_cancer.csv
#
# Needs a Debian 12 with its package lists (apt-get update); installs nothing. data/ORIGIN.md tells the licence.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
output=${1:-$root/data/breast_cancer.csv}
inner=usr/lib/python3/dist-packages/sklearn/datasets/data/breast_cancer.csv
inner_sha256=fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed
output_sha256=557d6f6bc4c63f3b4691ae6570fbfd5c1ae0a13f5ff51dca673fb4b38ff55e01

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && apt-get -q -o APT::Sandbox::User=root download python3-sklearn)
dpkg-deb --fsys-tarfile "$work"/python3-sklearn_*.deb | tar -x -C "$work" "./$inner"
printf '%s  %s\n' "$inner_sha256" "$work/$inner" | sha256sum --check --quiet -

# The package's first line is "rows,features,class 0,class 1"; its rows end in 0 or 1. Ours: names, and labels as words.
# The numbers are copied as they stand.
awk -F, -v OFS=, '
  NR == 1 {
    rows = $1; class[0] = $3; class[1] = $4
    n = split("radius texture perimeter area smoothness compactness concavity concave_points symmetry fractal_dimension", f, " ")
    m = split("mean error worst", part, " ")
    for (j = 1; j <= m; j++) for (i = 1; i <= n; i++) printf "%s_%s,", f[i], part[j]
    print "diagnosis"
    next
  }
  { if (NF != n * m + 1) { print "line " NR ": " NF " fields" > "/dev/stderr"; exit 1 }
    $NF = class[$NF]; print }
  END { if (NR - 1 != rows) { print NR - 1 " rows, not " rows > "/dev/stderr"; exit 1 } }
' "$work/$inner" >"$work/breast_cancer.csv"
printf '%s  %s\n' "$output_sha256" "$work/breast_cancer.csv" | sha256sum --check --quiet -
cp "$work/breast_cancer.csv" "$output"
echo "wrote $output"
