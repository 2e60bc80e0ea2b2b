#!/usr/bin/env bash
# What examples/README.md tells people to run works as written there.
#   examples_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
scratch=$(mktemp -d)
server=
cleanup() {
  [[ -z $server ]] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  rm -rf "$scratch"
}
trap cleanup EXIT
export XDG_STATE_HOME=$scratch/state PATH=$bin:$PATH

cd "$source_dir"
# Each study file of examples/ is accepted by a server, and `luthier run` ends well where nothing but Luthier is needed.
luthier run examples/branin.yaml --workers 2 --db "$scratch/branin" -o json >"$scratch/branin.json"
best=$(luthier trial best branin --db "$scratch/branin" -o json | tr -d ' \n' | sed -n 's/.*"metrics":{"value":\([-0-9.e]*\).*/\1/p')
awk -v best="$best" 'BEGIN { exit !(best != "" && best < 1.0 && best > 0.39788) }' ||
  { echo "branin: the best value is '$best', expected 0.3979 … 1" >&2; exit 1; }

if command -v python3 >/dev/null; then
  luthier run examples/command/study.yaml --workers 2 --db "$scratch/command" -o json >/dev/null
  [[ $(luthier trial list study --db "$scratch/command" --state COMPLETE -o csv | tail -n +2 | wc -l) == 24 ]] ||
    { luthier trial list study --db "$scratch/command" >&2; exit 1; }
fi

: >"$scratch/server.log"
luthierd --listen 127.0.0.1:0 --data-dir "$scratch/data" >"$scratch/server.log" 2>&1 &
server=$!
for ((i = 0; i < 300; i++)); do
  LUTHIER_SERVER=$(sed -n 's/^luthierd: serving on //p' "$scratch/server.log")
  [[ -z $LUTHIER_SERVER ]] || break
  sleep 0.1
done
[[ -n $LUTHIER_SERVER ]] || { cat "$scratch/server.log" >&2; exit 1; }
export LUTHIER_SERVER LUTHIER_TOKEN_FILE=$scratch/data/admin.token
while IFS= read -r -d '' file; do
  [[ $file == examples/external_loop.yaml ]] || luthier study create -f "$file" >/dev/null
done < <(find examples -name '*.yaml' -print0)

examples/external_loop.sh >"$scratch/loop.log" || { cat "$scratch/loop.log" >&2; exit 1; }
[[ $(grep -c '^trial .*: f(' "$scratch/loop.log") == 30 ]] || { cat "$scratch/loop.log" >&2; exit 1; }
echo "the examples work"
