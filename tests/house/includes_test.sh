#!/usr/bin/env bash
# lib/ is usable without a server: nothing in it but lib/wire includes gRPC, SQLite or generated code, and nothing in it
# includes server/, worker/ or client/. Tests of it may.
#   includes_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# Prints the lines of the files named on standard input (ended by NUL) below $1 that match $2, as path:line:text.
matches() {
  (cd "$1" && LC_ALL=C xargs -0 -r grep -nE "$2" /dev/null) || [[ $? == 123 ]]  # 123: no match in some batch.
}
include='^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]'

# Prints the offending lines below $1/lib.
offenders_of() {
  # What lib/ other than lib/wire must not include.
  (cd "$1" && find lib -path lib/wire -prune -o -type f \( -name '*.h' -o -name '*.cc' -o -name '*.inc' \) -print0) |
    matches "$1" "$include"'(grpc|google/protobuf/|sqlite3|SQLiteCpp/|luthier/v1/|[^>"]*\.pb\.h)'
  # What nothing in lib/ may include.
  (cd "$1" && find lib -type f \( -name '*.h' -o -name '*.cc' -o -name '*.inc' \) -print0) |
    matches "$1" "$include"'(server|worker|client|tests)/'
  # The same by way of CMake: linking one of them.
  (cd "$1" && find lib -path lib/wire -prune -o -type f -name CMakeLists.txt -print0) |
    matches "$1" '^[^#]*(gRPC::|protobuf::|SQLite|luthier_(service_)?proto|luthier::wire)'
}

# The check must find what is planted, and let pass what is allowed.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
plant() {  # verdict (good or bad), path, line
  rm -rf "${scratch:?}/lib"
  mkdir -p "$scratch/$(dirname "$2")"
  printf '// A comment about grpcpp.\n#include <vector>\n%s\n' "$3" >"$scratch/$2"
  if [[ -z $(offenders_of "$scratch") ]]; then verdict=good; else verdict=bad; fi
  if [[ $verdict != "$1" ]]; then
    echo "self-test: '$3' in $2 was judged $verdict" >&2
    exit 1
  fi
}
plant bad lib/gp/x.cc '#include <grpcpp/grpcpp.h>'
plant bad lib/gp/x.cc '#include <grpc/grpc.h>'
plant bad lib/gp/x.h '#include <sqlite3.h>'
plant bad lib/study/x.h '  #  include "SQLiteCpp/Database.h"'
plant bad lib/search/deep/x.cc '#include "luthier/v1/study.pb.h"'
plant bad lib/search/x.cc '#include "other.grpc.pb.h"'
plant bad lib/search/x.cc '#include <google/protobuf/struct.pb.h>'
plant bad lib/math/x.inc '#include "server/storage/storage.h"'
plant bad lib/wire/x.cc '#include "server/storage/storage.h"'
plant bad lib/study/CMakeLists.txt 'target_link_libraries(luthier_study PUBLIC luthier_proto)'
plant good lib/wire/x.cc '#include "luthier/v1/study.pb.h"'
plant good lib/wire/x.cc '#include <grpcpp/grpcpp.h>'
plant good lib/gp/x.cc '#include "lib/math/cholesky.h"'
plant good lib/gp/x.cc '// #include <grpcpp/grpcpp.h>'
plant good lib/gp/CMakeLists.txt 'target_link_libraries(luthier_gp PUBLIC luthier::math)'

offenders=$(offenders_of "$source_dir")
if [[ -n $offenders ]]; then
  printf '%s\n' "$offenders" >&2
  echo "These lines tie lib/ to gRPC, SQLite, generated code or a program; move them to lib/wire or above (docs/libraries.md)." >&2
  exit 1
fi
echo "lib/ includes no gRPC, SQLite or generated code outside lib/wire"
