# The helpers every folder uses, so that flags and conventions stand in one place.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(GTest QUIET)
find_package(benchmark QUIET)

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(sluice_flags INTERFACE -Wall -Wextra $<$<BOOL:${SLUICE_WERROR}>:-Werror> -Wno-missing-field-initializers)

# What a test itself consists of is compiled alike in every preset but `tsan`: without sanitizers,
# so that the compiler's cache has for `dev` what `release` compiled. Its property is SLUICE_PLAIN.
set(product $<NOT:$<BOOL:$<TARGET_PROPERTY:SLUICE_PLAIN>>>)
if(SLUICE_OPTIMIZE)
  add_compile_options($<IF:${product},${SLUICE_OPTIMIZE},-O2>)
endif()
function(sluice_plain target)
  set_target_properties(${target} PROPERTIES SLUICE_PLAIN $<NOT:$<STREQUAL:${SLUICE_SANITIZE},thread>>)
endfunction()

# GCC collects its garbage when its heap has grown beyond 128 MiB, and again and again; beyond 1 GiB
# it seldom does: a tenth to a fifth of a batch's time (docs/design/building.md).
if(SLUICE_BATCHES)
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=1048576 --param ggc-min-expand=50>")
endif()

# GCC 12 takes a coroutine frame's operator new and delete, inlined apart, for a mismatch.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
if(SLUICE_SANITIZE STREQUAL "address")
  # Without the checks that ASan makes as well in its own way (a null pointer traps, what lies
  # outside of an object is poisoned), and without that of alignment, which every access through a
  # pointer would pay: they are more than half of a translation unit's time.
  set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,object-size,vptr,alignment -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_compile_options(sluice_flags INTERFACE "$<${product}:${sanitizers}>")
  target_link_options(sluice_flags INTERFACE -fsanitize=address,undefined)
elseif(SLUICE_SANITIZE STREQUAL "thread")
  # GCC warns that it does not model fences under TSan; ours stand only between processes.
  target_compile_options(sluice_flags INTERFACE -fsanitize=thread -Wno-tsan)
  target_link_options(sluice_flags INTERFACE -fsanitize=thread)
endif()
if(SLUICE_FUZZ)
  # What is fuzzed counts the branches it takes, not only the entry point.
  target_compile_options(sluice_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# sluice_in_batches(target): several of its files are compiled as one (CMake's unity build), since
# most of a file's time are its headers. A name in an anonymous namespace is then seen by its
# neighbours: files of a library do not call two things by one name.
function(sluice_in_batches target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SLUICE_BATCHES} UNITY_BUILD_BATCH_SIZE 8)
  if(SLUICE_BATCHES AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes a file that is included for a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# sluice_library(name SOURCES a.cc … LINKS x y): one folder's library.
function(sluice_library name)
  cmake_parse_arguments(L "" "" "SOURCES;LINKS" ${ARGN})
  if(L_SOURCES)
    add_library(${name} STATIC ${L_SOURCES})
    target_link_libraries(${name} PUBLIC sluice_flags ${L_LINKS})
    sluice_in_batches(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE sluice_flags ${L_LINKS})
  endif()
endfunction()

# sluice_linked_fast(target): by mold, if it is there: a second instead of two to six. For programs
# of tests.
find_program(MOLD mold)
function(sluice_linked_fast target)
  if(MOLD)
    target_link_options(${target} PRIVATE -fuse-ld=mold)
  endif()
endfunction()

# Tests compile without optimization and with a precompiled header: a third of their time. What they
# test is compiled as its preset says.
set(SLUICE_TESTS OFF)
if(GTest_FOUND AND NOT SLUICE_FUZZ)
  set(SLUICE_TESTS ON)
  add_executable(sluice_test_header EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/precompiled.cc)
  target_link_libraries(sluice_test_header PRIVATE sluice_flags GTest::gmock)
  target_compile_options(sluice_test_header PRIVATE -O0)
  sluice_plain(sluice_test_header)
  target_precompile_headers(sluice_test_header PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <chrono> <filesystem>
    <fstream> <map> <optional> <set> <string> <thread> <vector>)
  add_library(sluice_test_signals OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/signals.cc)
  target_link_libraries(sluice_test_signals PRIVATE sluice_flags)
endif()

# sluice_test(name [ALONE] [PLAIN] [TSAN] [OPTIMIZED] [TIMEOUT s] [SHARDS n] SOURCES a_test.cc …
# LINKS x): a GoogleTest program, run by ctest as one test. Programs link and run slower than they
# compile here, so a folder keeps its tests in one program. `release` runs them all.
#   ALONE     no other test runs beside it: it judges by the clock, or by what a device did by it
#   PLAIN     `dev` leaves it out: it judges by time what sanitizers slow down, or takes long where
#             others have the same code under them
#   TSAN      preset `tsan` builds (target `threads`) and runs it too
#   SHARDS    its cases run in so many processes at once: they wait rather than work
#   OPTIMIZED compiled like what it tests: it simulates for long, or has sources of the product
add_custom_target(tests ALL)
add_custom_target(threads)
function(sluice_test name)
  cmake_parse_arguments(T "ALONE;PLAIN;TSAN;OPTIMIZED" "TIMEOUT;SHARDS" "SOURCES;LINKS" ${ARGN})
  if(NOT SLUICE_TESTS)
    return()
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})  # "tests/support/…"
  target_link_libraries(${name} PRIVATE ${T_LINKS} sluice_test_signals GTest::gmock GTest::gtest_main)
  sluice_linked_fast(${name})
  if(NOT T_OPTIMIZED)
    sluice_plain(${name})
    target_compile_options(${name} PRIVATE -O0)
    target_precompile_headers(${name} REUSE_FROM sluice_test_header)
    set(in_c ${T_SOURCES})
    list(FILTER in_c INCLUDE REGEX "\\.c$")
    set_source_files_properties(${in_c} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(NOT SLUICE_EVERY_TEST OR (SLUICE_SANITIZE AND T_PLAIN))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_dependencies(tests ${name})
  if(T_SHARDS)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/shards ${T_SHARDS} $<TARGET_FILE:${name}>)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(SLUICE_SANITIZE)  # it ends a test that hangs; what is only slow shall pass
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT})
  if(T_ALONE)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(T_TSAN)
    add_dependencies(threads ${name})
    set_property(TEST ${name} APPEND PROPERTY LABELS tsan)
  endif()
endfunction()

# sluice_fuzzer(name SOURCES f.cc LINKS x CORPUS dir): a libFuzzer entry point. Built as a fuzzer
# with clang (preset `fuzz`, target `fuzzers`; clang 14 cannot compile coroutines under ASan, so
# fuzzed code stands apart from them), and everywhere else as a test that replays the committed
# corpus.
add_custom_target(fuzzers)
function(sluice_fuzzer name)
  cmake_parse_arguments(F "" "CORPUS" "SOURCES;LINKS" ${ARGN})
  if(SLUICE_FUZZ)
    add_executable(${name} EXCLUDE_FROM_ALL ${F_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE ${F_LINKS})
    add_dependencies(fuzzers ${name})
    # The same inputs every time, so many runs and not so many seconds: a test. To look for more,
    # run it longer with another seed. What it finds anew stays in the build folder; a crash leaves
    # its input there.
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus-${name})
    add_test(NAME ${name} COMMAND ${name} -seed=1 -runs=100000 -max_total_time=10 -timeout=5 -rss_limit_mb=2048
             ${CMAKE_BINARY_DIR}/corpus-${name} ${F_CORPUS})
  else()
    add_executable(${name} EXCLUDE_FROM_ALL ${F_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/replay_corpus.cc)
    target_link_libraries(${name} PRIVATE ${F_LINKS})
    if(SLUICE_EVERY_TEST)
      add_dependencies(tests ${name})
      add_test(NAME ${name} COMMAND ${name} ${F_CORPUS})
    endif()
  endif()
endfunction()

# sluice_portable(target): the program finds its libraries in the folder lib beside it, where
# tools/portable puts them. An rpath, no runpath, for the libraries that those need lie there too.
function(sluice_portable target)
  set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/lib")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()
