#!/bin/bash
# run.sh PROGRAMS FOLDER [repeats]: the rows of all methods on the problems of the paper's tables 1 to 3,
# FOLDER/elastic_net.csv, sparse_group_lasso.csv and matrix_completion.csv. PROGRAMS: the folder of vf_idca_experiment
# and matrix_experiment. judge.py makes tables of them. A run that does not end within its seconds, or fails, has no row;
# it is named on standard error with its status, 124 if the time was up.
set -eu
program=$1/vf_idca_experiment matrix=$1/matrix_experiment folder=$2 repeats=${3:-30}
run() { timeout "$@" || echo "status $?: ${*:2}" >&2; }
mkdir -p "$folder"
: > "$folder/elastic_net.csv"
: > "$folder/sparse_group_lasso.csv"
: > "$folder/matrix_completion.csv"
for seed in $(seq 1 "$repeats"); do
  for validation in 20 100; do
    for method in vf_idca vf_starts wide_grid ifdm igjo grid random tpe; do
      run 100 "$program" --method=$method --validation=$validation --seed="$seed" >> "$folder/elastic_net.csv"
    done
  done
  for groups in 30 300; do
    for method in vf_idca vf_starts wide_grid igjo grid; do
      run 300 "$program" --problem=sparse_group_lasso --method=$method --columns=600 --groups=$groups --test=100 \
        --seed="$seed" >> "$folder/sparse_group_lasso.csv"
    done
  done
  for method in vf_idca vf_best wide_grid grid random tpe; do
    run 300 "$matrix" --method=$method --seed="$seed" >> "$folder/matrix_completion.csv"
  done
done
