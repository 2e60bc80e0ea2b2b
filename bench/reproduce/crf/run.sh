#!/bin/sh
# Runs all of it, two programs at a time at most: about fifteen CPU-minutes. run.sh DATA_DIR
set -eu
cd "$(dirname "$0")/../../.."
out=build/release/reproduce_crf
run() { build/release/bin/reproduce_crf --data="$data" "$@"; }
data=$1
for part in 0 1 2; do run --what=grid --part=$part > $out.grid$part.part & done
for problem in letters chunking names tags; do run --what=race --problem=$problem --long_passes=80 > $out.race.$problem.part || true; done
cells=u:lmean,pl:lmean,pl:hedge,ms:lmean,ms:hedge
run --what=grid --problem=names --part=2 --cells=$cells > $out.grid.names.part || true
for problem in letters chunking; do
  run --what=dual --problem=$problem > $out.dual.$problem.part
  run --what=start --problem=$problem > $out.start.$problem.part
done
wait
cat $out.*.part > $out.csv
rm $out.*.part
