#!/usr/bin/env bash
# Workflows and issue forms are as the forges' schemas say, each job has an end in time, and each script that a workflow calls is there.
#   workflows_test.sh SOURCE_DIR
# The schemas come with check-jsonschema, beside the interpreter that LUTHIER_PYTHON_PEERS names. Exit 77: skipped, with the reason.
set -euo pipefail
cd "$1"

# Scripts of the project that file $1 calls, one a line.
scripts() { grep -vE '^ *#' "$1" | grep -oE '(^|[ "=])(\./)?(\.ci/run|(tools|deploy)/[a-z_]+\.sh)' | tr -d ' "=' | sed 's|^\./||' | LC_ALL=C sort -u; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%s\n' '# tools/comment.sh' '  - run: tools/one.sh "A" && .ci/run' '    - ./deploy/two.sh' >"$scratch/planted.yml"
[[ $(scripts "$scratch/planted.yml" | tr '\n' ' ') == ".ci/run deploy/two.sh tools/one.sh " ]] || { echo "self-test: $(scripts "$scratch/planted.yml")" >&2; exit 1; }

workflows=(.github/workflows/*.yml)
forms=(.github/ISSUE_TEMPLATE/[!c]*.yml)
for file in "${workflows[@]}" .gitlab-ci.yml; do
  called=$(scripts "$file")
  [[ -n $called ]] || { echo "$file calls none of the project's scripts" >&2; exit 1; }
  while IFS= read -r script; do
    [[ -x $script ]] || { echo "$file calls $script, which can't be executed here" >&2; exit 1; }
  done <<<"$called"
done

python=${LUTHIER_PYTHON_PEERS:-}
check=$(dirname "${python:-/nowhere/python}")/check-jsonschema
if [[ ! -x $check ]]; then
  echo "skipped: no check-jsonschema: LUTHIER_PEERS=1 ./check installs it, where PyPI is reached; the scripts that workflows call are there"
  exit 77
fi
# A planted mistake of each kind is found: otherwise the schemas say nothing.
sed 's/runs-on:/run-on:/' .github/workflows/ci.yml >"$scratch/workflow.yml"
sed '/timeout-minutes:/d' .github/workflows/ci.yml >"$scratch/endless.yml"
sed 's/script:/scripts:/' .gitlab-ci.yml >"$scratch/gitlab.yml"
sed 's/type: textarea/type: text/' .github/ISSUE_TEMPLATE/fault.yml >"$scratch/form.yml"
found() {
  if "$check" "${@:2}" "$scratch/$1" >/dev/null 2>&1; then
    echo "self-test: the mistake in $1 is not found" >&2
    exit 1
  fi
}
found workflow.yml --builtin-schema vendor.github-workflows
found endless.yml --builtin-schema custom.github-workflows-require-timeout
found gitlab.yml --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci
found form.yml --builtin-schema vendor.github-issue-forms

"$check" --builtin-schema vendor.github-workflows "${workflows[@]}"
"$check" --builtin-schema custom.github-workflows-require-timeout "${workflows[@]}"
"$check" --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci .gitlab-ci.yml
"$check" --builtin-schema vendor.github-issue-forms "${forms[@]}"
"$check" --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
"$check" --builtin-schema vendor.compose-spec docker-compose.yml
echo "${#workflows[@]} workflows, those of GitLab and ${#forms[@]} forms are as their schemas say"
