#!/usr/bin/env bash
# Runs a folder of cases against the built programs and the Python package of this checkout.
#
#   tools/run_cases.sh [--bin DIR] [--python PYTHON] [--only WORD] DIR
#
# A case is a folder in DIR with run.sh or run.py, which ends with 0 where all is well. run.sh runs in the root of this
# checkout, as what the manual says does, run.py in an empty folder. luthier, luthierd and luthier-worker of --bin
# (default: build/release/bin) are first on the PATH, python3 is PYTHON (default: the first of build/peers/bin/python,
# python3 and /usr/bin/python3 that has grpc) and imports the package; pip installs into a virtual environment of the
# run's own. A folder without either file is named and not counted. Prints a line for each case, of one that fails with
# the end of what it said, and a summary.
#
# --only WORD runs those whose name has WORD. LUTHIER_CASE_SECONDS ends a case after so long (default: 300).
# Exit: 0 all cases ended with 0, 1 some did not, or there is none, 2 wrong arguments.
set -euo pipefail

program=$(basename "$0")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/build/release/bin
python=
for candidate in "$root/build/peers/bin/python" python3 /usr/bin/python3; do
  if "$candidate" -c 'import grpc, google.protobuf' 2>/dev/null; then
    python=$(command -v "$candidate")
    break
  fi
done
only=
seconds=${LUTHIER_CASE_SECONDS:-300}

die() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 2
}

while (($# > 0)); do
  case $1 in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
      exit 0
      ;;
    --bin | --python | --only)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --bin) bin=$2 ;;
        --python) python=$2 ;;
        --only) only=$2 ;;
      esac
      shift
      ;;
    -*) die "unknown option '$1'" ;;
    *) break ;;
  esac
  shift
done
(($# == 1)) || die "name one folder of cases"
[[ -d $1 ]] || die "there is no folder $1"
cases=$(cd "$1" && pwd)
bin=$(cd "$bin" 2>/dev/null && pwd) ||
  die "there is no folder with the programs; build them (tools/build.sh), or name it with --bin"
for name in luthier luthierd luthier-worker; do
  [[ -x $bin/$name ]] || die "$bin has no program $name; build it (tools/build.sh $name)"
done
[[ -n $python ]] || die "no python3 has grpc; tools/install_packages.sh check installs it, or name one with --python"
[[ -f $root/client/python/luthier/luthier.pb ]] || "$root/client/python/make_descriptors.sh" >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/first"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$work/first/python3"
cat >"$work/first/pip" <<END
#!/bin/sh
[ -x "$work/venv/bin/pip" ] || "$python" -m venv "$work/venv" || exit
exec "$work/venv/bin/pip" "\$@"
END
chmod +x "$work/first"/*
for name in $(compgen -e | grep '^LUTHIER_'); do unset "$name"; done
export PATH=$work/first:$bin:$PATH LUTHIER_BIN_DIR=$bin PYTHONPATH=$root/client/python PYTHONDONTWRITEBYTECODE=1

# Runs case $1; its output is in $work/said.
run_case() {
  local folder=$cases/$1 place=$work/$1
  mkdir -p "$place/empty" "$place/tmp"
  export TMPDIR=$place/tmp XDG_STATE_HOME=$place/state
  if [[ -f $folder/run.sh ]]; then
    (cd "$root" && exec timeout --kill-after=10 "$seconds" bash "$folder/run.sh")
  else
    (cd "$place/empty" && exec timeout --kill-after=10 "$seconds" python3 "$folder/run.py")
  fi >"$work/said" 2>&1 </dev/null
}

passed=0
failed=()
for folder in "$cases"/*/; do
  name=$(basename "$folder")
  [[ $name == *"$only"* ]] || continue
  if [[ ! -f $folder/run.sh && ! -f $folder/run.py ]]; then
    printf '%-34s -     has neither run.sh nor run.py\n' "$name"
    continue
  fi
  begin=$SECONDS
  code=0
  run_case "$name" || code=$?
  if ((code == 0)); then
    passed=$((passed + 1))
    printf '%-34s ok    %3d s\n' "$name" $((SECONDS - begin))
  else
    failed+=("$name")
    printf '%-34s %-5s %3d s\n' "$name" "$code" $((SECONDS - begin))
    tail -n 5 "$work/said" | sed 's/^/    /'
  fi
done
printf '%d of %d cases ended with 0%s\n' "$passed" $((passed + ${#failed[@]})) "${failed[*]:+; not: ${failed[*]}}"
((passed > 0 && ${#failed[@]} == 0))
