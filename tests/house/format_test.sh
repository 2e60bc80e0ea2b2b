#!/usr/bin/env bash
# The C++ and protocol files are as clang-format 19 with .clang-format leaves them.
#
#   format_test.sh ROOT
#
# To mend: git ls-files '*.cc' '*.h' '*.proto' | xargs clang-format-19 -i
set -euo pipefail
cd "$1"
format=$(command -v clang-format-19 || command -v clang-format || true)
version=$([[ -z $format ]] || "$format" --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
if [[ $version != 19 ]]; then
  echo "skipped: there is no clang-format 19 (package clang-format-19); other versions write other lines"
  exit 77
fi

# The test itself: a planted line is found.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cp .clang-format "$planted"
printf 'int  planted( );\n' >"$planted/planted.cc"
if "$format" --dry-run -Werror "$planted/planted.cc" 2>/dev/null; then
  echo "format_test.sh: a badly formatted line is not found" >&2
  exit 1
fi

files=$(git ls-files '*.cc' '*.h' '*.proto' 2>/dev/null) || files=$(find lib server worker client proto tests bench \
  -name '*.cc' -o -name '*.h' -o -name '*.proto')
if ! xargs -P "$(nproc)" -n 50 "$format" --dry-run -Werror <<<"$files" 2>"$planted/found"; then
  grep -E '(error|warning):' "$planted/found" | cut -d: -f1 | sort | uniq -c | sort -rn | head -20 >&2
  echo "These files are not as $format leaves them; to mend: git ls-files '*.cc' '*.h' '*.proto' | xargs clang-format-19 -i" >&2
  exit 1
fi
echo "formatted: $(wc -l <<<"$files") files"
