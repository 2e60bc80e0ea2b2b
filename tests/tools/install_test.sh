#!/usr/bin/env bash
# install_test.sh SOURCE BUILD: the C++ client serves a program outside of this tree, installed by `cmake --install`.
set -euo pipefail
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/prefix" --component dev >"$folder/log" || { cat "$folder/log"; exit 1; }
mkdir "$folder/program"
cat >"$folder/program/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(program CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(luthier REQUIRED)
add_executable(program main.cc)
target_link_libraries(program PRIVATE luthier::client)
END
cat >"$folder/program/main.cc" <<'END'
#include <iostream>

#include "client/cpp/client.h"

int main(int, char** argv) {
  luthier::client::ClientOptions options;
  options.max_attempts = 50;  // The coordinator may yet be starting.
  const auto client = luthier::client::Client::Create(argv[1], options);
  if (!client.ok()) return std::cerr << client.status() << "\n", 1;
  const auto studies = (*client)->ListStudies();
  if (!studies.ok()) return std::cerr << studies.status() << "\n", 1;
  std::cout << studies->size() << " studies\n";
}
END
built() {
  cmake -S "$folder/program" -B "$folder/out" -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_BUILD_TYPE=Debug &&
    cmake --build "$folder/out"
}
if ! built >"$folder/log" 2>&1; then
  cat "$folder/log"
  exit 1
fi
mkfifo "$folder/stdin" "$folder/stderr"
"$build/bin/luthierd" --listen "unix:$folder/socket" --data-dir "$folder/data" --exit-with-stdin <"$folder/stdin" >"$folder/log" 2>"$folder/stderr" &
exec 3>"$folder/stdin" 4<"$folder/stderr"  # Held open: the coordinator ends with its standard input.
while read -r line <&4; do
  if [[ $line == *" serving "* ]]; then break; fi
done
answer=$("$folder/out/program" "unix:$folder/socket")
exec 3>&-
wait
[[ $answer == "0 studies" ]] || { echo "the program printed: $answer"; exit 1; }
