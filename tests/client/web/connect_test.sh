#!/usr/bin/env bash
# Every call of the API by a Connect client that is not ours, and by curl: connect_test.mjs.
#   connect_test.sh BIN_DIR PROTO_DIR
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/client/web/packages.sh
. "$here/packages.sh"
exec "$node" "$here/connect_test.mjs" "$1" "$packages" "$2"
