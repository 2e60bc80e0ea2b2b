#!/usr/bin/env bash
# The page in Debian's Chromium, against the built luthierd: page_test.mjs.
#   page_test.sh BIN_DIR
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/client/web/packages.sh
. "$here/packages.sh"
[[ -x /usr/bin/chromium ]] || { echo "skipped: chromium is not installed (tools/install_packages.sh peers)"; exit 77; }
exec "$node" "$here/page_test.mjs" "$1" "$packages"
