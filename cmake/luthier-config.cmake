# find_package(luthier): luthier::client and what it is made of. Needs the packages that building luthier needs
# (tools/packages.txt).
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
find_dependency(absl)
find_dependency(Eigen3)
find_dependency(nlohmann_json)
find_dependency(spdlog)
find_dependency(OpenSSL)
find_dependency(PkgConfig)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
find_dependency(Protobuf MODULE)  # Before gRPC: Debian ships no ProtobufConfig.cmake.
find_dependency(gRPC)
find_dependency(yaml-cpp)
include("${CMAKE_CURRENT_LIST_DIR}/luthier-targets.cmake")
