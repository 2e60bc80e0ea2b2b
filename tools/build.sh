#!/usr/bin/env bash
# Configures and builds build/release, the build that ./demo and ./check share. Quiet when nothing is to do.
#
#   tools/build.sh [TARGET...]        default: everything
#
# LUTHIER_JOBS sets how many compilers run at once (default: one a core, as memory allows). Whoever has a compiler cache or
# has configured one goes on using it; for all others it is made in build/ccache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${LUTHIER_JOBS:-}
if [[ -z $jobs ]]; then
  jobs=$(nproc)
  # A compiler takes up to 0.6 GiB here; leave some for the rest of the machine.
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / 800000) }' /proc/meminfo)
  if [[ -n $by_memory ]] && ((by_memory < jobs)); then
    jobs=$((by_memory > 0 ? by_memory : 1))
  fi
fi

mkdir -p build

# ccache would make its default folder in the home directory, outside this checkout.
if command -v ccache >/dev/null; then
  unconfigured=$(ccache --show-config | sed -n 's/^(default) cache_dir = //p') || unconfigured=
  if [[ -n $unconfigured && ! -d $unconfigured ]]; then
    export CCACHE_DIR=$PWD/build/ccache
  fi
fi

# Two builds in one folder would step on each other: ./demo waits for a ./check that is building, and the other way round.
exec 9>build/release.lock
flock --nonblock 9 || { echo "Waiting for another build in build/release"; flock 9; }

log=build/release-configure.log
if ! cmake --preset release >"$log" 2>&1; then
  cat "$log" >&2
  echo "build.sh: CMake failed; its output is above and in $log" >&2
  exit 1
fi
# Only this shell holds the lock: a process that the build leaves behind must not.
if (($# > 0)); then
  exec cmake --build build/release -j "$jobs" --target "$@" 9>&-
fi

# Who builds everything, tests included, develops: warnings are errors then. They are no flag of the compiler, which would
# compile all sources of the programs again after ./demo. What was warned of is compiled again the next time.
log=build/release-build.log
status=0
cmake --build build/release -j "$jobs" 9>&- | tee "$log" || status=$?
warned=$(awk '/^\[[0-9]+\/[0-9]+\] Building CXX object / { object = $NF } /: warning: / { print object }' "$log" | sort -u)
if ((status == 0)) && [[ -n $warned ]]; then
  (cd build/release && xargs rm -f) <<<"$warned"
  echo "build.sh: the compiler warned, in $(wc -l <<<"$warned") of the objects above: mend what it says" >&2
  exit 1
fi
exit "$status"
