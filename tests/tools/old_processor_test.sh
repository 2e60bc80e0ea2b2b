#!/usr/bin/env bash
# On a processor that lacks what a program was compiled to use, it ends with a message instead of SIGILL, on --help, too; on
# one that has it, it runs. Both processors are emulated.
#   old_processor_test.sh SOURCE_DIR BIN_DIR LUTHIER_MARCH
set -euo pipefail
bin=$2
march=$3
case $march in
  x86-64-v3) old=Nehalem advice=x86-64-v2 missing=AVX2 new=max ;;
  x86-64-v2) old=core2duo advice=x86-64 missing=SSE4.2 new=Nehalem ;;
  *) echo "skipped: there is no older processor than '$march' to try"; exit 77 ;;
esac
emulator=$(command -v qemu-x86_64) || { echo "skipped: qemu-x86_64 is not installed (tools/install_packages.sh check)"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }

for program in luthierd luthier-worker luthier; do
  status=0
  said=$("$emulator" -cpu "$old" "$bin/$program" --help 2>&1) || status=$?
  [[ $status == 1 ]] || fail "$program on $old exits with $status: $said"
  [[ $said == "$program: this processor lacks "*"$missing"*"LUTHIER_MARCH=$advice "* ]] || fail "$program on $old says: $said"
  said=$("$emulator" -cpu "$new" "$bin/$program" --version 2>/dev/null) || fail "$program does not run on $new"
  [[ $said == "$program "[0-9]* ]] || fail "$program on $new says: $said"
done
echo "three programs name what an older processor lacks"
