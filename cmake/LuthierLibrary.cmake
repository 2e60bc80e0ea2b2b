# Targets: luthier_library(luthier_gp SRCS ... DEPS ...), luthier_program, luthier_test. No global flags here.

set(LUTHIER_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # std::stable_sort of GCC 12 uses what it deprecates.
  list(APPEND LUTHIER_WARNINGS -Wthread-safety -Wno-unused-command-line-argument -Wno-deprecated-declarations)
endif()
option(LUTHIER_WERROR "Warnings are errors of the compiler: for the presets of developers" OFF)
if(LUTHIER_WERROR)
  list(APPEND LUTHIER_WARNINGS -Werror)
endif()

# So many sources of a target are compiled as one file: headers are read once for all of them, which halves a build. Names
# in anonymous namespaces of one target differ therefore.
option(LUTHIER_UNITY "Compile sources in batches; OFF: one by one, as editors and clang-tidy want it" ON)
set(LUTHIER_BATCH 12)

function(luthier_batch target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LUTHIER_UNITY} UNITY_BUILD_BATCH_SIZE ${LUTHIER_BATCH})
endfunction()

function(luthier_configure target)
  target_compile_options(${target} PRIVATE ${LUTHIER_WARNINGS})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>")
endfunction()

# A static library; luthier_x is also luthier::x. Without SRCS: a header-only library.
function(luthier_library target)
  cmake_parse_arguments(A "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  string(REGEX REPLACE "^luthier_" "" short "${target}")
  if(A_SRCS)
    add_library(${target} STATIC ${A_SRCS})
    luthier_configure(${target})
    luthier_batch(${target})
    target_link_libraries(${target} PUBLIC ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${target} INTERFACE ${A_DEPS})
  endif()
  add_library(luthier::${short} ALIAS ${target})
endfunction()

# GCC 12 sees overlapping copies and uninitialized members in std::string and std::variant where there are none, once it
# inlines enough (bugs 105651 and 105562). Targets that trip over it say so.
function(luthier_no_false_alarms target)
  if(TARGET ${target} AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-maybe-uninitialized)
  endif()
endfunction()

# What programs with the thread sanitizer tell it about libraries.
if("thread" IN_LIST LUTHIER_SANITIZE)
  add_library(luthier_thread_sanitizer OBJECT "${CMAKE_SOURCE_DIR}/tests/testing/thread_sanitizer.cc")
  luthier_configure(luthier_thread_sanitizer)
endif()

function(luthier_program name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${A_SRCS})
  luthier_configure(${name})
  target_link_libraries(${name} PRIVATE ${A_DEPS} luthier_processor_check $<TARGET_NAME_IF_EXISTS:luthier_thread_sanitizer>)
endfunction()

# luthier_test(name SRCS ... DEPS ... [LABELS unit|contract|property|e2e|tsan|slow] [SERIAL] [ALONE] [ENV A=b] [TIMEOUT s])
# SERIAL: the test uses both cores itself. ALONE: its sources are compiled one by one, as they have names in common. TIMEOUT: seconds of wall time, default 240; sanitizers get
# ten times that. Label `tsan`: it has threads; the target `tsan_tests` builds all of these. Each test gets the label `cpp`, too.
function(luthier_test name)
  cmake_parse_arguments(A "SERIAL;ALONE" "TIMEOUT" "SRCS;DEPS;LABELS;ENV" ${ARGN})
  if(NOT LUTHIER_BUILD_TESTS)
    return()
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 240)
  endif()
  if(LUTHIER_SANITIZE)
    math(EXPR A_TIMEOUT "10 * ${A_TIMEOUT}")
  endif()
  add_executable(${name} ${A_SRCS})
  luthier_configure(${name})
  if(NOT A_ALONE)
    luthier_batch(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest_main $<TARGET_NAME_IF_EXISTS:luthier_thread_sanitizer>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if("tsan" IN_LIST A_LABELS)
    if(NOT TARGET tsan_tests)
      add_custom_target(tsan_tests)
    endif()
    add_dependencies(tsan_tests ${name})
  endif()
  set(props TIMEOUT ${A_TIMEOUT})
  # Nothing a test starts may write into the home of who runs it.
  set(env "LUTHIER_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "LUTHIER_BIN_DIR=${CMAKE_BINARY_DIR}/bin"
          "XDG_STATE_HOME=${CMAKE_BINARY_DIR}/tests/state" ${A_ENV})
  if(A_SERIAL)
    list(APPEND props RUN_SERIAL TRUE)
  endif()
  # One process per test program, not per case: starting a process that links gRPC costs more than most cases.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ${props} LABELS "cpp;${A_LABELS}" ENVIRONMENT "${env}")
endfunction()
