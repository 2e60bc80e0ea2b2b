#!/usr/bin/env bash
# Each question of questions.tsv ("where is … decided?") still has its answer: the path exists and holds the symbol.
#   questions_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
here=$(dirname "${BASH_SOURCE[0]}")

# Prints what is wrong with the lines of $2, whose paths are below $1.
wrong_answers() {
  local question path symbol rest
  while IFS=$'\t' read -r question path symbol rest; do
    [[ -n $question && $question != '#'* ]] || continue
    if [[ -z $symbol || -n $rest ]]; then
      echo "'$question' needs three columns with tabs between them: question, path, symbol"
    elif [[ ! -f $1/$path ]]; then
      echo "'$question': there is no $path"
    elif ! grep -qF -e "$symbol" "$1/$path"; then
      echo "'$question': $path does not hold '$symbol'"
    fi
  done <"$2"
}

# The check must see each kind of wrong line, and let pass what is right.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo 'int Sum(int a, int b);' >"$scratch/a.h"
printf '# note\nright\ta.h\tSum(\ngone\tb.h\tSum(\nrenamed\ta.h\tTotal(\nshort\ta.h\nlong\ta.h\tSum(\tmore\n' >"$scratch/q.tsv"
found=$(wrong_answers "$scratch" "$scratch/q.tsv" | cut -d"'" -f2 | tr '\n' ' ')
[[ $found == "gone renamed short long " ]] || { echo "self-test: found '$found'" >&2; exit 1; }

wrong=$(wrong_answers "$source_dir" "$here/questions.tsv")
if [[ -n $wrong ]]; then
  printf '%s\n' "$wrong" >&2
  echo "where the code has moved to, belongs into tests/house/questions.tsv" >&2
  exit 1
fi
echo "$(grep -c '^[^#]' "$here/questions.tsv") questions lead to the code that answers them"
