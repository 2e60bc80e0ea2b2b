# Compiles on Debian for its arm64: cmake --toolchain cmake/aarch64.cmake, with g++-aarch64-linux-gnu and libraries of arm64
# (tools/release.sh makes a root folder that has them).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Programs of this machine, libraries of the other.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# No strip of this machine knows them.
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)
