#!/usr/bin/env bash
# The pictures of the page in the manual can be made, from a study in a browser, and have the size of those that are committed.
#   screenshots_test.sh BIN_DIR SOURCE_DIR
set -euo pipefail
# shellcheck source=tests/client/web/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
[[ -x /usr/bin/chromium ]] || { echo "skipped: chromium is not installed (tools/install_packages.sh peers)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$node" "$2/client/web/screenshots.mjs" "$1" "$packages/node_modules" "$scratch"
# Width and height of a PNG file.
size() { od -An -tx1 -j16 -N8 "$1"; }
pictures=("$2"/docs/img/page_*.png)
[[ ${#pictures[@]} -ge 4 && ${#pictures[@]} -eq $(find "$scratch" -name '*.png' | wc -l) ]] || { echo "other pictures are made than docs/img has" >&2; exit 1; }
for picture in "${pictures[@]}"; do
  made=$scratch/$(basename "$picture")
  [[ $(size "$made") == "$(size "$picture")" ]] || { echo "$made has not the size of $picture" >&2; exit 1; }
  # A page that shows nothing is a tenth of that.
  [[ $(stat -c %s "$made") -gt $(($(stat -c %s "$picture") / 2)) ]] || { echo "$made shows much less than $picture" >&2; exit 1; }
done
echo "${#pictures[@]} pictures are made as the manual has them"
