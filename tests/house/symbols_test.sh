#!/usr/bin/env bash
# The coordinator holds no trainer: it knows which objectives there are (lib/catalogue), and neither reads data nor trains.
#   symbols_test.sh COORDINATOR WORKER     paths of luthierd and luthier-worker, not stripped
set -euo pipefail
coordinator=$1
worker=$2

# Prints the functions and data of the trainers' namespaces that program $1 contains.
trainers_in() {
  nm -C --defined-only "$1" | sed -E 's/^[0-9a-f]* . //' |
    { grep -E '(^|[^[:alnum:]_:])luthier::(bilevel|crf|data|learn|model|objectives|stochastic)::' || true; } | LC_ALL=C sort -u
}

# The same search finds trainers in the worker, which has them: so it can find them.
found=$(trainers_in "$worker" | wc -l)
if ((found < 100)); then
  echo "self-test: only $found symbols of trainers were seen in $worker, which trains; is it stripped?" >&2
  exit 1
fi

offenders=$(trainers_in "$coordinator")
if [[ -n $offenders ]]; then
  printf '%s\n' "$offenders" | head -20 >&2
  echo "$coordinator contains $(wc -l <<<"$offenders") symbols of trainers; what it needs of them belongs into lib/catalogue" >&2
  exit 1
fi
echo "the coordinator has no symbol of the trainers; the worker has $found"
