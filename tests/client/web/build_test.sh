#!/usr/bin/env bash
# The committed files of client/web/dist are what its sources give, to the byte.
#   build_test.sh SOURCE_DIR
set -euo pipefail
# shellcheck source=tests/client/web/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
source_dir=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$source_dir"/client/web/{src,build.mjs,package.json,tsconfig.json} "$scratch"
ln -s "$packages/node_modules" "$scratch/node_modules"
cd "$scratch"
"$node" node_modules/typescript/bin/tsc --noEmit
"$node" build.mjs >/dev/null
diff -r "$source_dir/client/web/dist" dist || { echo "client/web/dist is not what npm run build makes of client/web/src" >&2; exit 1; }
echo "the files of the page are what their sources give"
