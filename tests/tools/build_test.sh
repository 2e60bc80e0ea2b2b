#!/usr/bin/env bash
# tools/build.sh: ./check compiles nothing again that ./demo has compiled, and warnings end a build of everything.
#
#   build_test.sh ROOT
set -euo pipefail
root=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir -p "$here/checkout/tools" "$here/checkout/build/release/lib" "$here/bin"
cp "$root/tools/build.sh" "$here/checkout/tools"

# A CMake that writes down how it is called, and "compiles" what it is told.
cat >"$here/bin/cmake" <<'CMAKE'
#!/usr/bin/env bash
echo "$@" >>"$CALLS"
[[ $1 == --build ]] && cat "$OUTPUT"
exit 0
CMAKE
chmod +x "$here/bin/cmake"
export PATH=$here/bin:$PATH OUTPUT=$here/output
build() { CALLS=$here/$1 LUTHIER_JOBS=2 bash "$here/checkout/tools/build.sh" "${@:2}" >"$here/said" 2>&1; }
die() {
  echo "build_test.sh: $*" >&2
  cat "$here/said" >&2
  exit 1
}

# Configured the same, so that no command line differs.
: >"$OUTPUT"
build demo luthierd luthier || die "a build of two programs failed"
build check || die "a build of everything failed"
[[ $(head -1 "$here/demo") == $(head -1 "$here/check") ]] || die "./demo and ./check configure differently"
[[ $(sed -n 2p "$here/demo") == "$(sed -n 2p "$here/check") --target luthierd luthier" ]] || die "they build differently"

# Warnings: told to users, an error for whoever builds everything, also the next time.
cat >"$OUTPUT" <<'OUT'
[1/3] Building CXX object lib/good.cc.o
[2/3] Building CXX object lib/bad.cc.o
lib/bad.cc:7:3: warning: unused variable 'x' [-Wunused-variable]
[3/3] Linking CXX executable bin/luthier
OUT
touch "$here"/checkout/build/release/lib/{good,bad}.cc.o
build demo luthier || die "a warning ended a user's build"
[[ -e $here/checkout/build/release/lib/bad.cc.o ]] || die "a user's build begins anew"
if build check; then die "a warning did not end a build of everything"; fi
grep -q "the compiler warned, in 1 of the objects" "$here/said" || die "it does not say why it ended"
[[ ! -e $here/checkout/build/release/lib/bad.cc.o ]] || die "the next build would not see the warning"
[[ -e $here/checkout/build/release/lib/good.cc.o ]] || die "objects without a warning are gone"
