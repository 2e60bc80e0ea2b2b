#!/usr/bin/env bash
# Every relative link of the Markdown pages leads to a file of the tree, docs/README.md links to every page of docs/, and
# bench/README.md to every page of a folder pages/ below bench/.
#   links_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# Prints "page: target" for each dead link below $1.
dead_links() {
  (cd "$1" && find . \( -name build -o -name .git -o -name node_modules -o -name demo-output \) -prune -o -name '*.md' -print |
    LC_ALL=C sort | while IFS= read -r page; do
    # Code blocks are no links; [text](target) and src="target" are.
    awk '/^ *```/ { code = !code; next } !code { gsub(/`[^`]*`/, ""); print }' "$page" |
      { grep -oE '\]\([^) ]+\)|(src|href)="[^"]+"' || true; } |
      sed -E 's/^\]\((.*)\)$/\1/; s/^(src|href)="(.*)"$/\2/; s/#.*$//' |
      while IFS= read -r target; do
        case $target in '' | http://* | https://* | mailto:*) continue ;; esac
        [[ -e $(dirname "$page")/$target ]] || printf '%s: %s\n' "${page#./}" "$target"
      done
  done)
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/docs"
touch "$scratch/LICENSE"
# shellcheck disable=SC2016  # Backquotes of Markdown.
printf '[a](docs/b.md#part) [c](https://x.example/) <img src="LICENSE">\n`[d](code.md)`\n' >"$scratch/README.md"
printf '[up](../README.md) [gone](gone.md)\n' >"$scratch/docs/b.md"
found=$(dead_links "$scratch")
[[ $found == "docs/b.md: gone.md" ]] || { echo "self-test: found '$found'" >&2; exit 1; }

# Prints those of the paths read, which are relative to the folder of index $1, to which $1 has no link.
unlisted() {
  while IFS= read -r page; do
    grep -qE "\\]\\(${page//./\\.}[)#]" "$1" || printf '%s\n' "$page"
  done
}
printf '[a](a.md) [b](x/b.md#part) [c](cc.md) [d](dXmd)\n' >"$scratch/index.md"
found=$(printf '%s\n' a.md x/b.md c.md b.md d.md | unlisted "$scratch/index.md" | tr '\n' ' ')
[[ $found == "c.md b.md d.md " ]] || { echo "self-test: unlisted are '$found'" >&2; exit 1; }

dead=$(dead_links "$source_dir")
if [[ -n $dead ]]; then
  printf 'dead link in %s\n' "$dead" >&2
  exit 1
fi
missing=$(
  cd "$source_dir"
  (cd docs && find . -name '*.md' ! -path ./README.md) | sed 's#^\./##' | unlisted docs/README.md | sed 's#^#docs/README.md has no link to #'
  (cd bench && find . -path '*/pages/*.md') | sed 's#^\./##' | unlisted bench/README.md | sed 's#^#bench/README.md has no link to #'
)
if [[ -n $missing ]]; then
  printf '%s\n' "$missing" >&2
  exit 1
fi
echo "all relative links lead somewhere"
