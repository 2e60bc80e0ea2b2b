#!/usr/bin/env bash
# ./demo --wheel with a wheel of the built programs, where there is no compiler, no gnuplot and no jq: it ends well, with the
# numbers of ./demo, and says what it leaves out. What is no wheel is refused by name.
#   demo_wheel_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$scratch/log" >&2; exit 1; }

# A checkout of its own: its build folder is the test's.
mkdir "$scratch/checkout" "$scratch/tools" "$scratch/elsewhere"
cp -r "$source_dir"/{demo,data,examples} "$scratch/checkout"
/usr/bin/python3 -m venv "$scratch/venv" >/dev/null 2>&1 || { echo "skipped: python3 makes no virtual environment (python3-venv)"; exit 77; }
wheel=$(/usr/bin/python3 "$source_dir/tests/tools/make_wheel.py" "$source_dir" "$bin" "$scratch/elsewhere")
# What a bare system has, Python, and nothing that the build or the picture needs.
for tool in awk bash basename cat cp dirname env grep head id kill ls mkdir printf python3 realpath rm sed sleep sort tail uname; do
  ln -s "$(command -v "$tool")" "$scratch/tools/$tool"
done
demo=(env -i "HOME=$scratch" "PATH=$scratch/tools" LANG=C.UTF-8 LUTHIER_PYTHON=/usr/bin/python3 PIP_NO_INDEX=1 "$scratch/checkout/demo")

cd "$scratch/elsewhere" # A relative name is one of the caller's folder.
"${demo[@]}" --wheel "$(basename "$wheel")" --output "$scratch/out" >"$scratch/log" 2>&1 </dev/null || fail "status $?"
[[ $(wc -l <"$scratch/out/trials.tsv") == 20 ]] || fail "not 20 trials with a value"
awk -F'\t' '{ loss[$1] = $2 } END { exit !(NR == 3 && loss["tuned"] > 0 && loss["tuned"] <= 0.9 * loss["plain"]) }' "$scratch/out/test.tsv" ||
  fail "the tuned model is not better"
grep -q 'gnuplot is not installed, so there are no pictures' "$scratch/log" || fail "does not say that there is no picture"
grep -q 'build/demo-wheel/bin/luthier trial explain digits' "$scratch/log" || fail "does not go on with the wheel's programs"
[[ $(ls "$scratch/checkout/build") == demo-wheel ]] || fail "left in build: $(ls "$scratch/checkout/build")"

refused() {
  local status=0
  "${demo[@]}" "${@:2}" >"$scratch/log" 2>&1 </dev/null || status=$?
  [[ $status != 0 ]] || fail "$* is not refused"
  grep -q "$1" "$scratch/log" || fail "does not say: $1"
}
refused 'demo: there is no file .*/gone.whl' --wheel gone.whl
refused 'exclude each other' --wheel "$wheel" --bin "$bin"
# A wheel for every platform has no programs.
mkdir "$scratch/pure"
PYTHONPATH='' /usr/bin/python3 - "$wheel" "$scratch/pure/luthier-0.0.1-py3-none-any.whl" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for name in old.namelist():
        if "/_bin/" not in name:
            new.writestr(name, old.read(name).decode() if name.endswith("WHEEL") else old.read(name))
PYTHON
refused 'has no programs for this machine' --wheel "$scratch/pure/luthier-0.0.1-py3-none-any.whl"
echo "the demo works from a wheel"
