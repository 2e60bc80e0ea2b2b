#!/usr/bin/env bash
# What the page's figures say of trials beyond a bound, without a browser: figures_test.mjs.
#   figures_test.sh SOURCE_DIR
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/client/web/packages.sh
. "$here/packages.sh"
exec "$node" "$here/figures_test.mjs" "$1" "$packages"
