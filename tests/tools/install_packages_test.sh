#!/usr/bin/env bash
# tools/install_packages.sh against a pretended Debian: stubs of dpkg-query, apt-get, id and sudo that keep a record.
#   install_packages_test.sh SOURCE_DIR
set -euo pipefail
script=$1/tools/install_packages.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/bin" "$scratch/sudo-bin"
# The tools the script may use, and nothing else: no real apt-get, no real sudo.
for tool in sh awk sed tr grep cat tail mktemp rm basename dirname env printf; do
  ln -s "$(command -v "$tool")" "$scratch/bin/$tool"
done
cat >"$scratch/bin/dpkg-query" <<'STUB'
#!/bin/sh
for last; do :; done
if grep -qx "$last" "$STATE/installed"; then echo installed
elif grep -qx "$last" "$STATE/removed"; then echo config-files
else echo "dpkg-query: no packages found matching $last" >&2; exit 1
fi
STUB
cat >"$scratch/bin/apt-get" <<'STUB'
#!/bin/sh
echo "apt-get $*" >>"$STATE/calls"
for word; do
  case $word in
    update) [ ! -e "$STATE/no-network" ] || { echo "E: no network"; exit 100; } ;;
    install) installing=yes ;;
    -*) ;;
    *) [ -z "${installing:-}" ] || echo "$word" >>"$STATE/installed" ;;
  esac
done
STUB
# Of the names with a choice this system knows two.
cat >"$scratch/bin/apt-cache" <<'STUB'
#!/bin/sh
case $2 in
  new-name | newer-name) printf '%s:\n  Installed: (none)\n  Candidate: 1.0\n' "$2" ;;
  old-name) printf '%s:\n  Installed: (none)\n  Candidate: (none)\n' "$2" ;;
esac
STUB
# shellcheck disable=SC2016  # Expanded by the stubs.
printf '#!/bin/sh\necho "$UID_OF_TEST"\n' >"$scratch/bin/id"
# shellcheck disable=SC2016  # Expanded by the stubs.
printf '#!/bin/sh\necho sudo >>"$STATE/calls"\nexec "$@"\n' >"$scratch/sudo-bin/sudo"
chmod +x "$scratch/bin/dpkg-query" "$scratch/bin/apt-get" "$scratch/bin/apt-cache" "$scratch/bin/id" "$scratch/sudo-bin/sudo"

cat >"$scratch/packages.txt" <<'LIST'
# A comment
[build]
alpha
beta   # with a remark
[other]
gamma
[choice]
old-name | new-name | newer-name
[plan9]
alpha-devel
gamma-devel
[peers]
delta
one==1.0
two==2.0.1
LIST

# A Python whose `-m venv DIR` makes a DIR/bin/python that keeps a record, too.
cat >"$scratch/bin/python-stub" <<'STUB'
#!/bin/sh
echo "python $*" >>"$STATE/calls"
[ ! -e "$STATE/no-pypi" ] || { echo "ERROR: no network"; exit 1; }
[ "$2" != venv ] || { "$MKDIR" -p "$3/bin" && "$LN" -s "$0" "$3/bin/python"; }
STUB
chmod +x "$scratch/bin/python-stub"

fail() { echo "FAILED: $case_name: $*" >&2; cat "$scratch/out" "$scratch/state/calls" >&2; exit 1; }
# run UID WITH_SUDO ARGUMENTS...: sets status; output in $scratch/out.
run() {
  local uid=$1 path=$scratch/bin
  [[ $2 == sudo ]] && path=$path:$scratch/sudo-bin
  shift 2
  status=0
  env -i PATH="$path" STATE="$scratch/state" UID_OF_TEST="$uid" TMPDIR="$scratch" MKDIR="$(command -v mkdir)" \
    LN="$(command -v ln)" LUTHIER_OS_RELEASE="$scratch/state/os-release" LUTHIER_PYTHON="$scratch/bin/python-stub" LUTHIER_PEERS_DIR="$scratch/state/venv" \
    "$scratch/bin/sh" "$script" --file "$scratch/packages.txt" "$@" >"$scratch/out" 2>&1 || status=$?
}
begin() {
  case_name=$1
  rm -rf "$scratch/state"
  mkdir "$scratch/state"
  : >"$scratch/state/installed"
  : >"$scratch/state/removed"
  : >"$scratch/state/calls"
}
installed() { printf '%s\n' "$@" >>"$scratch/state/installed"; }
calls() { cat "$scratch/state/calls"; }

begin "nothing missing: silent, no rights needed, apt not called"
installed alpha beta
run 1000 none build
[[ $status == 0 && ! -s $scratch/out && -z $(calls) ]] || fail "status $status"

begin "root installs what is missing and nothing else, after one update"
installed alpha
run 0 none build other
[[ $status == 0 ]] || fail "status $status"
[[ $(calls) == *" update"*$'\n'*" install --no-install-recommends beta gamma" ]] || fail "calls"
[[ $(calls | wc -l) == 2 ]] || fail "number of calls"

begin "the second run has nothing to do"
run 0 none build
run 0 none build
[[ $status == 0 && ! -s $scratch/out && $(calls | wc -l) == 2 ]] || fail "status $status"

begin "removed with its configuration left is missing"
installed alpha
echo beta >>"$scratch/state/removed"
run 0 none build
[[ $status == 0 && $(calls) == *"install"*" beta" ]] || fail "status $status"

begin "a user goes through sudo"
run 1000 sudo other
[[ $status == 0 && $(calls) == sudo$'\n'*update*$'\n'sudo$'\n'*install*gamma ]] || fail "status $status"

begin "without root and sudo: says what to run"
run 1000 none other
[[ $status == 1 && -z $(calls) ]] || fail "status $status"
grep -q "apt-get install -y --no-install-recommends gamma" "$scratch/out" || fail "message"

begin "a failing apt-get shows its last lines"
: >"$scratch/state/no-network"
run 0 none other
[[ $status == 1 ]] || fail "status $status"
grep -q "E: no network" "$scratch/out" || fail "message"

begin "an unknown section is a usage error and names the known ones"
run 0 none biuld
[[ $status == 2 && -z $(calls) ]] || fail "status $status"
grep -q "build other" "$scratch/out" || fail "message"

begin "no section is a usage error"
run 0 none
[[ $status == 2 ]] || fail "status $status"

begin "--list prints names and installs nothing"
run 0 none --list build other
[[ $status == 0 && -z $(calls) && $(tr '\n' ' ' <"$scratch/out") == "alpha beta gamma " ]] || fail "status $status"

begin "of alternatives, the first that apt knows is installed"
run 0 none choice
[[ $status == 0 && $(calls) == *" install --no-install-recommends new-name" ]] || fail "status $status"

begin "an alternative that is installed is enough, silently"
installed newer-name
run 1000 none choice
[[ $status == 0 && ! -s $scratch/out && -z $(calls) ]] || fail "status $status"

begin "a system without dpkg is told what it needs in its own names, and goes on"
mv "$scratch/bin/dpkg-query" "$scratch/dpkg-query"
printf 'NAME="Plan"\nID="plan9"\n' >"$scratch/state/os-release"
run 1000 none build other
[[ $status == 0 && -z $(calls) ]] || fail "status $status"
grep -q "on plan9 these packages are needed.*: alpha-devel gamma-devel$" "$scratch/out" || fail "message"

begin "a system without dpkg that no section is for is told Debian's names, and goes on"
printf 'ID=other-bsd\n' >"$scratch/state/os-release"
run 1000 none build choice
[[ $status == 0 && -z $(calls) ]] || fail "status $status"
grep -q "packages of Debian is needed: alpha beta old-name|new-name|newer-name$" "$scratch/out" || fail "message"
mv "$scratch/dpkg-query" "$scratch/bin/dpkg-query"

begin "packages of PyPI go into a virtual environment, all of them at once, Debian's first"
run 0 none peers
[[ $status == 0 && $(calls | wc -l) == 4 ]] || fail "status $status"
[[ $(calls | sed -n 2p) == *install*delta && $(calls | sed -n 3p) == "python -m venv $scratch/state/venv" ]] || fail "calls"
[[ $(calls | sed -n 4p) == "python -m pip "*"--no-deps"*" one==1.0 two==2.0.1" ]] || fail "calls"

begin "an environment with these versions is kept, silently"
run 0 none peers
run 0 none peers
[[ $status == 0 && ! -s $scratch/out && $(calls | wc -l) == 4 ]] || fail "status $status"

begin "another version makes it anew"
run 0 none peers
echo " one==0.9 two==2.0.1" >"$scratch/state/venv/packages"
run 0 none peers
[[ $status == 0 && $(calls | grep -c "pip ") == 2 && $(cat "$scratch/state/venv/packages") == " one==1.0 two==2.0.1" ]] ||
  fail "status $status"

begin "where PyPI is not reached it fails, and the next run tries again"
installed delta
: >"$scratch/state/no-pypi"
run 0 none peers
[[ $status == 1 && ! -e $scratch/state/venv/packages ]] || fail "status $status"
grep -q "ERROR: no network" "$scratch/out" || fail "message"
rm "$scratch/state/no-pypi"
run 0 none peers
[[ $status == 0 && -e $scratch/state/venv/packages ]] || fail "status $status"

echo "install_packages.sh: all cases passed"
