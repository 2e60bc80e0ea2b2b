#!/bin/sh
# Runs all of it, one program at a time: about fifteen CPU-minutes for each seed. run.sh DATA_DIR [SEEDS [PROGRAM]]
# What is there is not run again: stop it whenever you like.
set -eu
cd "$(dirname "$0")/../../.."
data=$1
seeds=${2:-1}
program=${3:-build/release/bin/reproduce_crf}
parts=build/release/reproduce_crf.parts
mkdir -p $parts
# run NAME OPTION...
run() {
  file=$parts/$1.$seed
  shift
  [ -e "$file" ] && return
  # A problem whose data are not there is left out.
  if "$program" --data="$data" --seed="$seed" "$@" > "$file.part"; then mv "$file.part" "$file"; else rm "$file.part"; fi
}
cells=u:lmean,pl:lmean,pl:hedge,ms:lmean,ms:hedge
for seed in $(seq "$seeds"); do
  # L-BFGS draws nothing.
  methods=sag-ms,sag-ms-checked,sag-pl,sag,hybrid,oeg,sg,asg,pegasos,adagrad,smd
  [ "$seed" = 1 ] && methods=$methods,lbfgs
  run race.letters --what=race --problem=letters --methods=$methods --long_passes=100
  for part in 0 1 2; do run grid$part --what=grid --part=$part; done
  run dual.letters --what=dual --problem=letters
  run start.letters --what=start --problem=letters
  run race.chunking --what=race --problem=chunking --methods=$methods --long_passes=80
  run start.chunking --what=start --problem=chunking
  run grid.names --what=grid --problem=names --part=2 --cells=$cells
  run race.names --what=race --problem=names --methods=$methods --long_passes=70
  run race.tags --what=race --problem=tags --methods=sag-ms,sag,asg,sg --long_passes=70
  run dual.chunking --what=dual --problem=chunking
done
cat $parts/*.[0-9]* > build/release/reproduce_crf.csv
