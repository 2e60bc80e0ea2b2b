#!/usr/bin/env bash
# Builds the wheels, installs each into a fresh virtual environment, and uses it as somebody does who has nothing else.
#   wheel_test.sh SOURCE_DIR PROGRAMS_DIR...
# Dependencies come from PyPI. LUTHIER_PYTHON names an interpreter that has what tools/build_wheel.sh needs. Exit 77:
# skipped, with the reason.
set -euo pipefail
source_dir=$1
shift # The rest: programs of one level of instructions or of more.
python=${LUTHIER_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'wheel_test: %s\n' "$*" >&2
  exit 1
}

LUTHIER_PYTHON=$python "$source_dir/tools/build_wheel.sh" --out "$work/dist" "$@" >"$work/log" 2>&1 || {
  code=$?
  cat "$work/log" >&2
  ((code != 77)) || echo "skipped: the tools that build wheels are missing"
  exit "$code"
}
cat "$work/log"
carrying=$(ls "$work"/dist/luthier-*-py3-none-manylinux_2_*_x86_64.whl)
pure=$(ls "$work"/dist/luthier-*-py3-none-any.whl)
tag=${carrying##*manylinux_2_}
((${tag%%_*} <= 35)) || fail "$(basename "$carrying") needs a newer system than manylinux_2_35"

# A fresh environment with wheel $2 in folder $1.
environment() {
  "$python" -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check "$2" >"$work/log" 2>&1 || {
    grep -qE 'Could not find a version|No matching distribution|connection' "$work/log" && {
      echo "skipped: no registry answers, or it has no grpcio for this Python"
      exit 77
    }
    cat "$work/log" >&2
    fail "pip install failed"
  }
}

cat >"$work/quickstart.py" <<'PYTHON'
import luthier
def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    return (x - 2) ** 2
study = luthier.study("quickstart"); study.optimize(objective, n_trials=25)
print(study.best_value)
PYTHON

environment "$work/full" "$carrying"
mkdir "$work/home"
# Nothing of this machine's environment: the wheel's programs must find all by themselves.
clean=(env -i "HOME=$work/home" "PATH=/usr/bin:/bin" "LANG=C.UTF-8")
cd "$work/home"
version=$(basename "$pure" | cut -d- -f2)
for name in luthier luthierd luthier-worker; do
  [[ $("${clean[@]}" "$work/full/bin/$name" --version) == "$name $version ("* ]] || fail "$name --version does not say $version"
  "${clean[@]}" "$work/full/bin/$name" --help | grep -q Usage || fail "$name --help fails"
done
site=$("$work/full/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
for library in libgrpc libssl libprotobuf; do
  compgen -G "$site/luthier/_bin/licenses/$library*.txt" >/dev/null || fail "the copyright of $library is missing"
done
ls "$site/luthier-$version".dist-info/licenses/{LICENSE,NOTICE} >/dev/null || fail "our own licence is missing"
levels=("$site"/luthier/_bin/x86-64*)
for level in "${levels[@]}"; do
  if ldd "$level/luthier-programs" | grep -q 'not found'; then fail "$level/luthier-programs lacks libraries"; fi
done
# A lower level than the processor's, where it is there; another name is refused.
"${clean[@]}" "LUTHIER_PROCESSOR=$(basename "${levels[0]}")" "$work/full/bin/luthierd" --version >/dev/null
if "${clean[@]}" LUTHIER_PROCESSOR=pentium "$work/full/bin/luthierd" --version 2>"$work/log"; then fail "there is a level pentium"; fi
grep -qx 'luthierd: LUTHIER_PROCESSOR=pentium is not x86-64-v3, x86-64-v2 or x86-64' "$work/log" || fail "$(<"$work/log")"
# The command line finds the worker beside it.
cat >"$work/home/two.yaml" <<'YAML'
space: [{name: x1, float: {min: -5.0, max: 10.0}}, {name: x2, float: {min: 0.0, max: 15.0}}]
objective: {builtin: {model: "function:branin"}}
metric: {name: value, goal: MINIMIZE}
budget: {max_trials: 2}
YAML
"${clean[@]}" "$work/full/bin/luthier" run two.yaml --db two >"$work/log" 2>&1 || fail "luthier run says: $(<"$work/log")"

began=$(date +%s%N)
best=$("${clean[@]}" "$work/full/bin/python" "$work/quickstart.py")
echo "quickstart: best value $best after $((($(date +%s%N) - began) / 1000000)) ms"
awk -v best="$best" 'BEGIN { exit !(best >= 0 && best < 1) }' || fail "the quickstart found only $best"

# The worker of the wheel, and the package from an event loop.
cat >"$work/home/rest.py" <<'PYTHON'
import asyncio
import luthier, luthier.aio
@luthier.objective(space={"x": (-5.0, 5.0)}, algorithm="random", max_trials=4)
def train(trial):
    return (trial["x"] - 1) ** 2
async def main():
    study = await luthier.aio.load("train")
    print(await study.state, [trial.state.name for trial in await study.trials])
if __name__ == "__main__":
    train.tune(processes=2)
    asyncio.run(main())
PYTHON
said=$("${clean[@]}" "$work/full/bin/python" rest.py)
[[ $said == "COMPLETED ['COMPLETE', 'COMPLETE', 'COMPLETE', 'COMPLETE']" ]] || fail "tune and luthier.aio say: $said"

"$source_dir/demo" --wheel "$carrying" --output "$work/demo" >"$work/log" 2>&1 || fail "./demo --wheel says: $(tail -n 5 "$work/log")"

environment "$work/pure" "$pure"
if "${clean[@]}" "$work/pure/bin/luthierd" --version >"$work/log" 2>&1; then fail "a pure wheel has luthierd"; fi
grep -q "carries no program" "$work/log" || fail "luthierd of the pure wheel does not say why there is none"
mkdir "$work/elsewhere"
cd "$work/elsewhere"
if "${clean[@]}" "$work/pure/bin/python" "$work/quickstart.py" >"$work/log" 2>&1; then
  fail "a pure wheel started a coordinator"
fi
tail -n 1 "$work/log"
grep -qiE "server|program|luthierd" <(tail -n 3 "$work/log") || fail "it does not say what is missing"
echo "both wheels work"
