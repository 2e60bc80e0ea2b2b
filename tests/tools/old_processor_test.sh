#!/usr/bin/env bash
# On a processor that lacks what a program was compiled to use, it ends with a message instead of SIGILL, on --help, too; on
# one that has it, it runs. The wheel's launcher starts the programs of the highest level that the processor has. The
# processors are emulated.
#   old_processor_test.sh SOURCE_DIR BIN_DIR LUTHIER_MARCH
set -euo pipefail
bin=$2
march=$3
emulator=$(command -v qemu-x86_64) || { echo "skipped: qemu-x86_64 is not installed (tools/install_packages.sh check)"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }

wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
cp "$bin/luthier-launcher" "$wheel/luthierd"
# Runs it on processor $1 with LUTHIER_PROCESSOR=$2, and expects it to start the programs in $wheel/$3.
expect_level() {
  local said
  said=$(LUTHIER_PROCESSOR=$2 "$emulator" -cpu "$1" "$wheel/luthierd" one "two words" 2>&1) || true
  [[ $said == "$3 one,two words," ]] || fail "the launcher on $1, asked for '$2', says: $said (not $3)"
}
# A script has no name of its own but that of its file; what else it is given must arrive.
for level in x86-64-v2 x86-64-v3; do
  mkdir "$wheel/$level"
  printf '#!/bin/sh\nprintf "%%s " %s\nprintf "%%s," "$@"\n' "$level" >"$wheel/$level/luthier-programs"
  chmod +x "$wheel/$level/luthier-programs"
done
expect_level max "" x86-64-v3
expect_level max x86-64-v2 x86-64-v2
expect_level Nehalem "" x86-64-v2
expect_level Nehalem x86-64-v3 x86-64-v2
expect_level core2duo "" x86-64-v2 # There is no lower one: the program says what the processor lacks.
rm -r "$wheel/x86-64-v2"
expect_level Nehalem "" x86-64-v3
rm -r "$wheel/x86-64-v3"
said=$("$wheel/luthierd" 2>&1) && fail "the launcher starts what is not there"
[[ $said == "luthierd: there is no $wheel/LEVEL/luthier-programs that can be started: No such file or directory" ]] || fail "$said"

case $march in
  x86-64-v3) old=Nehalem advice=x86-64-v2 missing=AVX2 new=max ;;
  x86-64-v2) old=core2duo advice=x86-64 missing=SSE4.2 new=Nehalem ;;
  *) echo "skipped: there is no older processor than '$march' to try"; exit 77 ;;
esac
for program in luthierd luthier-worker luthier; do
  status=0
  said=$("$emulator" -cpu "$old" "$bin/$program" --help 2>&1) || status=$?
  [[ $status == 1 ]] || fail "$program on $old exits with $status: $said"
  [[ $said == "$program: this processor lacks "*"$missing"*"LUTHIER_MARCH=$advice "* ]] || fail "$program on $old says: $said"
  said=$("$emulator" -cpu "$new" "$bin/$program" --version 2>/dev/null) || fail "$program does not run on $new"
  [[ $said == "$program "[0-9]* ]] || fail "$program on $new says: $said"
done
echo "three programs name what an older processor lacks; the launcher chooses right"
