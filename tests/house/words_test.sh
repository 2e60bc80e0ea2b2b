#!/usr/bin/env bash
# One word means one thing: no two namespaces define a type of the same name in their headers, but for those named in
# words_shared.txt, which may only become fewer.
#   words_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
here=$(dirname "${BASH_SOURCE[0]}")

# shellcheck disable=SC2016  # Fields of awk.
# Prints the types that headers below $1 define more than once outside of other types, as "Name: header header …".
shared() {
  (cd "$1" && find lib server worker client -name '*.h' -print0 2>/dev/null | LC_ALL=C sort -z |
    LC_ALL=C xargs -0 -r awk '
      sub(/^(enum class|enum|class|struct|using) (ABSL_[A-Z_]+ )?/, "") {
        # A definition goes on with a body, a base, final or, as an alias, with its type; a declaration ends.
        if (!match($0, /^[A-Za-z0-9]+( final)?( :| \{| =)/)) next
        name = $0
        sub(/ .*/, "", name)
        ++times[name]
        where[name] = where[name] " " FILENAME
      }
      END { for (name in times) if (times[name] > 1) print name ":" where[name] }' | LC_ALL=C sort)
}

# The count must see each kind of definition, and let pass what defines nothing.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lib,server,worker,client}
cat >"$scratch/lib/a.h" <<'PLANTED'
class Class {
struct Struct final : public Base {
class ABSL_LOCKABLE Lock {
struct OneLine { int x; };
enum class Enum { kA, kB };
enum Old {
using Alias = std::variant<
class Declared;
class ABSL_LOCKABLE Locked;
using luthier::Used;
class Outer::Inner final {
  struct Nested {
enum class Alone {
PLANTED
sed 's/enum class Alone/class Other/' "$scratch/lib/a.h" >"$scratch/worker/b.h"
printf 'class Declared {\n' >"$scratch/server/c.h"
found=$(shared "$scratch" | cut -d: -f1 | tr '\n' ' ')
[[ $found == "Alias Class Enum Lock Old OneLine Struct " ]] || { echo "self-test: found '$found'" >&2; exit 1; }

found=$(shared "$source_dir")
unknown=$(LC_ALL=C join -t: -v1 <(printf '%s\n' "$found") "$here/words_shared.txt")
if [[ -n $unknown ]]; then
  printf '%s\n' "$unknown" >&2
  echo "these words mean two things; keep each for the meaning that docs/architecture.md gives it, rename the others" >&2
  exit 1
fi
mended=$(LC_ALL=C join -t: -v2 <(printf '%s\n' "$found") "$here/words_shared.txt")
if [[ -n $mended ]]; then
  printf '%s\n' "$mended" >&2
  echo "these words mean one thing; take them out of tests/house/words_shared.txt, so that it stays so" >&2
  exit 1
fi
echo "$(wc -l <"$here/words_shared.txt") words mean two things; all others mean one"
