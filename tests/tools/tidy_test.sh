#!/usr/bin/env bash
# tools/tidy.sh in a small repository: it finds what is planted in what changed, looks at nothing else, takes a header's source in its
# place, and says what its time did not suffice for.
#   tidy_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
command -v clang-tidy-19 >/dev/null || { echo "skipped: clang-tidy-19 is not installed (tools/install_packages.sh dev)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$scratch/log" >&2; exit 1; }

cd "$scratch"
mkdir -p repository/{tools,lib,build/release}
cd repository
cp "$source_dir/tools/tidy.sh" tools
cp "$source_dir/.clang-tidy" .
save() { git add -A && git -c user.name=test -c user.email=test@localhost commit -q -m "$1"; }
# Runs it with arguments $2...; its status must be $1.
tidy() {
  local status=0
  tools/tidy.sh "${@:2}" >"$scratch/log" 2>&1 || status=$?
  [[ $status == "$1" ]] || fail "tools/tidy.sh ${*:2} ends with $status, not $1"
}
git init -q .
git symbolic-ref HEAD refs/heads/main
echo build/ >.gitignore
printf 'int Old(int a) {\n  if (a > 1) {\n    return 2;\n  } else {\n    return 2;\n  }\n}\n' >lib/old.cc # Not to be looked at.
printf 'int Twice(int a);\n' >lib/twice.h
printf '#include "lib/twice.h"\n\nint Twice(int a) { return 2 * a; }\n' >lib/twice.cc
commands=
for file in old twice new; do
  commands+="{\"directory\": \"$PWD\", \"command\": \"c++ -I. -c lib/$file.cc\", \"file\": \"$PWD/lib/$file.cc\"},"
done
echo "[${commands%,}]" >build/release/compile_commands.json
save first
tidy 77 # There is no commit to compare with.

echo text >README
save second
tidy 0
grep -q 'no source changed' "$scratch/log" || fail "does not say that no source changed"

sed 's/Old/New/' lib/old.cc >lib/new.cc
save third
tidy 1
grep -q 'lib/new.cc:.*\[bugprone-branch-clone' "$scratch/log" || fail "the planted finding is not named"
if grep -q 'lib/old.cc' "$scratch/log"; then fail "it looks at what did not change"; fi
LUTHIER_TIDY_SECONDS=0.001 tidy 0
grep -q '0 of 1 sources looked at in 0.001 s; the others were not' "$scratch/log" || fail "does not say what was not looked at"

printf 'int New(int a) { return a; }\n' >lib/new.cc
printf 'int Twice(int a);\n#define TWICE(a) Twice(a)\n' >lib/twice.h
save fourth
tidy 0 HEAD~2
grep -q 'no finding in 2 sources' "$scratch/log" || fail "the header's source is not looked at"
tidy 1 --all
tidy 2 no-such-commit
tidy 2 --nonsense
echo "tidy.sh finds what it should"
