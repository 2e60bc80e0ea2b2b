#!/usr/bin/env bash
# No finding of shellcheck in any shell script of the tree; every script can be executed.
#   shell_scripts_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
if ! command -v shellcheck >/dev/null; then
  echo "skipped: shellcheck is not installed (tools/install_packages.sh check)"
  exit 77
fi
scripts=()
while IFS= read -r -d '' file; do
  read -r first <"$file" || true
  case ${first:-} in
    '#!'*sh) scripts+=("$file") ;;
  esac
done < <(find . \( -name build -o -name .git -o -name demo-output -o -name node_modules -o -name golden \) -prune -o -type f -size -200k -print0 2>/dev/null | LC_ALL=C sort -z)
((${#scripts[@]} >= 5)) || { echo "found only ${#scripts[@]} scripts: the search is broken" >&2; exit 1; }
shellcheck -x "${scripts[@]}"
for file in demo check .ci/run tools/*.sh deploy/*.sh examples/*.sh; do
  [[ -x $file ]] || { echo "$file is not executable" >&2; exit 1; }
done
echo "${#scripts[@]} scripts are clean"
