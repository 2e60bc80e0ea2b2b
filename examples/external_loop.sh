#!/bin/sh
# Ask and tell: Luthier proposes settings, this loop evaluates them. No worker runs; the function lives in the shell.
#
#   luthierd &                                     # a coordinator; its socket is in ./luthier-data
#   examples/external_loop.sh                      # luthier on PATH, or LUTHIER=build/release/bin/luthier
#
# Any language can do the same: run `luthier ask -o json`, evaluate, run `luthier tell`.
set -eu
luthier=${LUTHIER:-luthier}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

"$luthier" study create -f "$here/external_loop.yaml"
while :; do
  answer=$("$luthier" ask external_loop -o json | tr -d ' \n')
  # Enough JSON for two numbers; take jq or a real language for more.
  number=$(printf '%s' "$answer" | sed -n 's/.*"number":\([0-9]*\).*/\1/p')
  [ -n "$number" ] || break # The study's budget is used up.
  x=$(printf '%s' "$answer" | sed -n 's/.*"x":\([-+0-9.eE]*\).*/\1/p')
  y=$(printf '%s' "$answer" | sed -n 's/.*"y":\([-+0-9.eE]*\).*/\1/p')

  # Himmelblau's function: four minima of 0.
  f=$(awk -v x="$x" -v y="$y" 'BEGIN { printf "%.17g", (x^2 + y - 11)^2 + (x + y^2 - 7)^2 }')

  "$luthier" tell external_loop "$number" --metric "f=$f" >/dev/null
  printf 'trial %2d: f(%7.4f, %7.4f) = %.6g\n' "$number" "$x" "$y" "$f"
done
echo
"$luthier" trial best external_loop
