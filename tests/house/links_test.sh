#!/usr/bin/env bash
# Every relative link of the Markdown pages leads to a file of the tree, and docs/README.md links to every page of docs/.
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

dead=$(dead_links "$source_dir")
if [[ -n $dead ]]; then
  printf 'dead link in %s\n' "$dead" >&2
  exit 1
fi
missing=0
while IFS= read -r page; do
  grep -qF "]($page" "$source_dir/docs/README.md" || { echo "docs/README.md has no link to $page" >&2; missing=1; }
done < <(cd "$source_dir/docs" && find . -name '*.md' ! -path ./README.md | sed 's#^\./##' | LC_ALL=C sort)
((missing == 0))
echo "all relative links lead somewhere"
