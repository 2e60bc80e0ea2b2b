#!/usr/bin/env bash
# Runs tests of the Python package with pytest.
#   run.sh PYTHON PROGRAMS_DIR MODULES FILE...
# PYTHON "peers": the interpreter that LUTHIER_PYTHON_PEERS names. MODULES: what it must be able to import, with commas
# between. Exit 77: skipped, with the reason.
set -euo pipefail
python=$1
programs=$2
modules=$3
shift 3
[[ $python != peers ]] || python=${LUTHIER_PYTHON_PEERS:-}
if [[ -z $python ]]; then
  echo "skipped: no packages of PyPI: LUTHIER_PEERS=1 ./check installs them, where PyPI is reached"
  exit 77
fi
if ! why=$("$python" -c "import ${modules//,/, }" 2>&1); then
  echo "skipped: $python lacks a package (tools/install_packages.sh check, or peers): ${why##*$'\n'}"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LUTHIER_BIN_DIR=$programs PYTHONDONTWRITEBYTECODE=1 XDG_STATE_HOME=$folder/state
"$python" -m pytest -q -p no:cacheprovider --basetemp="$folder/pytest" "$@"
