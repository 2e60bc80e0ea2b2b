#!/usr/bin/env bash
# Runs hoag_experiment and its peers, one run at a time, and judges the claims.
#
#   bench/reproduce/hoag/run.sh PROGRAM DATA FOLDER [PROBLEMS [SPLITS [REPETITIONS]]]
#
# DATA: what prepare.py wrote. PYTHON names an interpreter with numpy, scipy, scikit-learn and hyperopt.
set -euo pipefail
program=$1 data=$2 folder=$3 problems=${4:-20news a9a parkinsons} splits=${5:-1 2 3 4 5} repetitions=${6:-3}
here=$(dirname "$0")
python=${PYTHON:-python3}
mkdir -p "$folder"
for problem in $problems; do
  : >"$folder/$problem.csv"
  for split in $splits; do
    for ((repetition = 0; repetition < repetitions; ++repetition)); do
      for method in hoag hoag_quadratic hoag_cubic hoag_exact projected_gradient fobo; do
        "$program" --data_root="$data" --problem="$problem" --method="$method" --split="$split" --evaluations=40 \
          --seconds=20 --exact >>"$folder/$problem.csv"
      done
      "$python" "$here/peers.py" "$program" "$data" "$problem" scipy --split "$split" --evaluations 40 --seconds 20 \
        >>"$folder/$problem.csv"
    done
    for method in iterdiff bo grid random; do
      "$program" --data_root="$data" --problem="$problem" --method="$method" --split="$split" --evaluations=30 \
        --seconds=60 --exact >>"$folder/$problem.csv"
    done
    "$python" "$here/peers.py" "$program" "$data" "$problem" hyperopt --split "$split" --evaluations 30 --seconds 60 \
      >>"$folder/$problem.csv"
    "$python" "$here/peers.py" "$program" "$data" "$problem" sklearn --split "$split" >"$folder/$problem.sklearn.txt"
  done
done
"$python" "$here/judge.py" "$folder"
