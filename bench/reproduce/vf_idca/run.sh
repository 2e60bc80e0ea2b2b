#!/bin/bash
# run.sh VF_IDCA_EXPERIMENT FOLDER [repeats]: the rows of all methods on the problems of the paper's tables 1 and 2,
# FOLDER/elastic_net.csv and FOLDER/sparse_group_lasso.csv. judge.py makes tables of them.
set -eu
program=$1 folder=$2 repeats=${3:-30}
mkdir -p "$folder"
: > "$folder/elastic_net.csv"
: > "$folder/sparse_group_lasso.csv"
for seed in $(seq 1 "$repeats"); do
  for validation in 20 100; do
    for method in vf_idca vf_starts wide_grid ifdm igjo grid random tpe; do
      timeout 100 "$program" --method=$method --validation=$validation --seed="$seed" >> "$folder/elastic_net.csv" || true
    done
  done
  for groups in 30 300; do
    for method in vf_idca vf_starts wide_grid igjo grid; do
      timeout 100 "$program" --problem=sparse_group_lasso --method=$method --columns=600 --groups=$groups --test=100 \
        --seed="$seed" >> "$folder/sparse_group_lasso.csv" || true
    done
  done
done
