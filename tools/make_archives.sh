#!/usr/bin/env bash
# Makes static archives of the two libraries that Debian has none of, prometheus-cpp's core and fmt, from Debian's own sources of the
# versions whose headers are installed. For -DLUTHIER_PORTABLE=DIR (cmake/LuthierPortable.cmake).
#
#   tools/make_archives.sh DIR        with $CXX and $AR, for another architecture
#
# Archives that are there are kept. Needs dpkg-dev and a Debian mirror with sources; nothing outside of DIR is changed.
# Exit: 0 both are in DIR, 1 something failed, 2 wrong arguments.
set -euo pipefail
program=$(basename "$0")
die() {
  printf '%s: %s\n' "$program" "${*:2}" >&2
  exit "$1"
}
(($# == 1)) || die 2 "say which folder the archives go to"
mkdir -p "$1"
to=$(cd "$1" && pwd)
compiler=${CXX:-g++} archiver=${AR:-ar}
[[ -r $to/libprometheus-cpp-core.a && -r $to/libfmt.a ]] && exit 0
command -v dpkg-source >/dev/null || die 1 "dpkg-dev is missing, which unpacks sources: apt-get install dpkg-dev"

# The system's own mirrors, asked for sources, with lists of our own.
work=$to/sources
rm -rf "$work"
mkdir -p "$work/parts" "$work/lists/partial"
for file in /etc/apt/sources.list.d/*.sources; do
  [[ ! -r $file ]] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [[ ! -r $file ]] || sed -n 's/^deb /deb-src /p' "$file" >"$work/parts/from-${file##*/}"
done
options=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
  -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o APT::Sandbox::User=root)
apt-get "${options[@]}" update >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2 && die 1 "apt-get update failed for sources"; }

# Unpacks the sources of which package $1 was built, and prints their folder.
sources_of() {
  local wanted
  # shellcheck disable=SC2016  # The format is dpkg's.
  wanted=$(dpkg-query -W -f '${source:Package}=${source:Version}' "$1" 2>/dev/null) || die 1 "$1 is not installed (tools/install_packages.sh build)"
  (cd "$work" && apt-get "${options[@]}" source "$wanted" >>log 2>&1) || { tail -n 5 "$work/log" >&2 && die 1 "no sources of $wanted"; }
  find "$work" -mindepth 1 -maxdepth 1 -type d -name "${wanted%%=*}-*"
}

# make NAME FLAG... SOURCE...
make_archive() {
  local name=$1 word flags=() objects=()
  shift
  for word; do
    [[ $word == *.cc ]] && continue
    flags+=("$word")
  done
  for word; do
    [[ $word == *.cc ]] || continue
    objects+=("$work/$name-$(basename "$word").o")
    "$compiler" -std=c++17 -O2 -fPIC -D_FORTIFY_SOURCE=2 -fstack-protector-strong -ffp-contract=off "${flags[@]}" -c "$word" -o "${objects[-1]}"
  done
  rm -f "$to/lib$name.a"
  "$archiver" rcs "$to/lib$name.a" "${objects[@]}"
}

fmt=$(sources_of libfmt-dev)
make_archive fmt -I"$fmt/include" "$fmt"/src/{format,os}.cc
core=$(sources_of prometheus-cpp-dev)/core
mkdir -p "$work/made/prometheus/detail"
printf '#define PROMETHEUS_CPP_CORE_EXPORT\n#define PROMETHEUS_CPP_CORE_NO_EXPORT\n' >"$work/made/prometheus/detail/core_export.h"
make_archive prometheus-cpp-core -I"$work/made" -I"$core/include" "$core"/src/*.cc "$core"/src/detail/*.cc
rm -rf "$work"
