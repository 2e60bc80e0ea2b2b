#!/usr/bin/env bash
# Every relative link of the Markdown pages leads to a file of the tree, and to a heading where it names one. docs/README.md
# links to every page of docs/, and bench/README.md to every page of a folder pages/ below bench/.
#   links_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# Prints "page: target" for each dead link below $1: no such file or folder, or no such heading on the page that it leads to. A heading's
# anchor is that of the forges: small letters, without punctuation, a hyphen for each blank, and -1 at the second of its name.
dead_links() {
  (cd "$1" && find . \( -name build -o -name .git -o -name node_modules -o -name demo-output \) -prune -o -print |
    LC_ALL=C sort | LC_ALL=C awk '
    function plain(path,   i, n, m, part, out) {  # Without ./ and folder/..
      n = split(path, part, "/")
      m = 0
      for (i = 1; i <= n; ++i) {
        if (part[i] == "" || part[i] == ".") continue
        if (part[i] == ".." && m > 0 && out[m] != "..") --m
        else out[++m] = part[i]
      }
      path = m ? out[1] : "."
      for (i = 2; i <= m; ++i) path = path "/" out[i]
      return path
    }
    function heading(page, text,   name) {
      while (match(text, /\]\([^)]*\)/)) text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
      text = tolower(text)
      gsub(/[ \t]+$/, "", text)
      gsub(/[!-,.\/:-@\[-^`{-~]|\342\200\246|\342\200\223|\303\227/, "", text)
      gsub(/ /, "-", text)
      name = text
      if (times[page, text]++) name = text "-" (times[page, text] - 1)
      anchor[page "#" name] = 1
    }
    function link(page, target,   path, part, folder) {
      if (target ~ /^(https?|mailto):/ || target == "") return
      folder = page
      if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
      path = target
      part = ""
      if (match(path, /#.*/)) {
        part = substr(path, RSTART + 1)
        path = substr(path, 1, RSTART - 1)
      }
      path = path == "" ? page : plain(folder "/" path)
      ++links
      from[links] = page
      said[links] = target
      to[links] = path
      if (part != "" && path ~ /\.md$/) to[links] = path "#" part
    }
    function read(page,   line, code, rest) {
      while ((getline line < page) > 0) {
        if (line ~ /^ *```/) { code = !code; continue }
        if (code) continue
        if (line ~ /^#+ /) { rest = line; sub(/^#+ +/, "", rest); heading(page, rest) }
        # Code is no link; [text](target) and src="target" are.
        gsub(/`[^`]*`/, "", line)
        while (match(line, /\]\([^) ]+\)|(src|href)="[^"]+"/)) {
          rest = substr(line, RSTART, RLENGTH)
          line = substr(line, RSTART + RLENGTH)
          if (rest ~ /^\]/) rest = substr(rest, 3, length(rest) - 3)
          else { sub(/^[a-z]*="/, "", rest); sub(/"$/, "", rest) }
          link(page, rest)
        }
      }
      close(page)
    }
    { path = plain($0); there[path] = 1; if (path ~ /\.md$/) read(path) }
    END {
      for (i = 1; i <= links; ++i) {
        path = to[i]
        sub(/#.*/, "", path)
        if (!(path in there) || (to[i] ~ /#/ && !(to[i] in anchor))) print from[i] ": " said[i]
      }
    }')
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/docs"
touch "$scratch/LICENSE"
# shellcheck disable=SC2016  # Backquotes of Markdown.
{
  printf '[a](docs/b.md#a-part-pis-x_1) [b](docs/b.md#twice-1) [c](https://x.example/) <img src="LICENSE"> [d](docs/)\n`[e](code.md)`\n'
  printf '```\n# Code\n[f](code.md)\n```\n[g](#code) [h](docs/b.md#twice-2) [i](LICENSE#x)\n'
} >"$scratch/README.md"
# shellcheck disable=SC2016  # Backquotes of Markdown.
printf '# A [part](../README.md): `PI`\047s x_1\n## Twice\n## Twice \n[up](../README.md) [gone](gone.md)\n' >"$scratch/docs/b.md"
found=$(dead_links "$scratch" | tr '\n' ',')
[[ $found == "README.md: #code,README.md: docs/b.md#twice-2,docs/b.md: gone.md," ]] || { echo "self-test: found '$found'" >&2; exit 1; }

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
