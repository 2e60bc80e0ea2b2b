#!/usr/bin/env bash
# Rooms (docs/libraries.md): where a CMakeLists.txt lists the files of one library by folder, a file includes only from
# its own room and from those listed before it.
#   rooms_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# Prints the includes below $1/$2 that lead up, as "file includes header". A room is a folder, or a file beside the
# CMakeLists.txt; headers there without a source file are the lowest.
upward() {
  local files
  mapfile -t files < <(cd "$1" && find "$2" -name '*.h' -o -name '*.cc')
  (cd "$1" && awk -v base="$2/" '
    function room(path) {
      path = substr(path, length(base) + 1)
      if (path ~ /\//) sub(/\/[^\/]*$/, "", path); else sub(/\.(h|cc|inc)$/, "", path)
      return path
    }
    FILENAME ~ /CMakeLists.txt$/ {
      sub(/#.*/, "")
      for (i = 1; i <= NF; ++i) if ($i ~ /\.cc\)?$/) {
        name = room(base $i)
        if (!(name in floor)) floor[name] = ++floors
      }
      next
    }
    /^#include "/ {
      split($0, quoted, "\"")
      if (index(quoted[2], base) != 1) next
      if (floor[room(quoted[2])] + 0 > floor[room(FILENAME)] + 0) print FILENAME " includes " quoted[2]
    }' "$2/CMakeLists.txt" "${files[@]}")
}

# The check must find what is planted, and let pass what is allowed.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/lib/{low,high}
printf 'set(sources\n  low/a.cc  # Lowest.\n  middle.cc high/b.cc)\n' >"$scratch/lib/CMakeLists.txt"
plant() {  # verdict (good or bad), file, header
  rm -f "$scratch"/lib/*.{h,cc} "$scratch"/lib/*/*
  printf '#include <set>\n#include "%s"\n' "$3" >"$scratch/$2"
  if [[ -z $(upward "$scratch" lib) ]]; then verdict=good; else verdict=bad; fi
  [[ $verdict == "$1" ]] || { echo "self-test: $3 in $2 was judged $verdict" >&2; exit 1; }
}
plant bad lib/low/a.h lib/high/b.h
plant bad lib/low/a.cc lib/middle.h
plant bad lib/middle.cc lib/high/b.h
plant bad lib/facts.h lib/low/a.h
plant good lib/high/b.cc lib/low/a.h
plant good lib/high/b.cc lib/high/c.h
plant good lib/high/b.cc lib/facts.h
plant good lib/low/a.cc other/high/b.h

for library in lib/search lib/crf server/coordinator worker; do
  offenders=$(upward "$source_dir" "$library")
  if [[ -n $offenders ]]; then
    printf '%s\n' "$offenders" >&2
    echo "Move what they share to a lower room, or the file to a higher one ($library/CMakeLists.txt)." >&2
    exit 1
  fi
done
echo "no room includes from one above it"
