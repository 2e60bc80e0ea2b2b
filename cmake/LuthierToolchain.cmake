# Compiler-wide settings that must be equal in every translation unit.

# One instruction-set level for the whole build: Eigen's alignment is part of the ABI, and bit-equal replay
# is promised for one level only. x86-64-v3 (AVX2, FMA) where this machine runs it.
if(NOT DEFINED LUTHIER_MARCH)
  set(march "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(march "x86-64-v2")
    if(EXISTS /proc/cpuinfo)
      file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
      if(cpu_flags MATCHES " avx2 " AND cpu_flags MATCHES " fma " AND cpu_flags MATCHES " bmi2 ")
        set(march "x86-64-v3")
      endif()
    endif()
  endif()
  set(LUTHIER_MARCH "${march}" CACHE STRING "-march for the whole build; empty: the compiler's default")
endif()
message(STATUS "Instruction set: ${LUTHIER_MARCH}")
if(LUTHIER_MARCH)
  add_compile_options(-march=${LUTHIER_MARCH})
endif()
# Results must not depend on which products the compiler happens to fuse.
add_compile_options(-ffp-contract=off)

if(LUTHIER_SANITIZE)
  list(JOIN LUTHIER_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
endif()

find_program(LUTHIER_CCACHE ccache)
if(LUTHIER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${LUTHIER_CCACHE})
endif()
find_program(LUTHIER_LLD NAMES ld.lld ld.lld-19)
if(LUTHIER_LLD)
  add_link_options(-fuse-ld=lld)
endif()
add_link_options(LINKER:-z,relro,-z,now)
