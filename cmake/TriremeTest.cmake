find_package(GTest REQUIRED)
include(GoogleTest)

# With sanitizers a test may take so many times as long (tests/support/sanitizers.h), and a report in its output fails
# it: that may come from a child whose exit status nobody looks at.
set(TRIREME_SLOWDOWN 1)
set(TRIREME_FAIL_ON_REPORT)
if(TRIREME_SANITIZE)
  set(TRIREME_SLOWDOWN 5)
  set(TRIREME_FAIL_ON_REPORT FAIL_REGULAR_EXPRESSION "Sanitizer: |: runtime error: ")
endif()

# trireme_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS label] [TIMEOUT seconds])
# One GoogleTest program; each of its tests is a ctest test. Label a program `no_tsan` if gRPC or oneDNN's
# OpenMP runs in it: those libraries are not instrumented, so ThreadSanitizer's word on it is worth nothing.
# One label at most: gtest_discover_tests loses what comes after the first.
function(trireme_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;LABELS" "SOURCES;DEPS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "trireme_test(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(ARG_LABELS)
    list(PREPEND ARG_LABELS LABELS)  # an empty value would shift what follows it
  endif()
  math(EXPR timeout "${ARG_TIMEOUT} * ${TRIREME_SLOWDOWN}")
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE trireme_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TRIREME_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures"
                             TRIREME_BIN="${CMAKE_BINARY_DIR}/bin")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${timeout} ${ARG_LABELS} ${TRIREME_FAIL_ON_REPORT})
endfunction()

option(TRIREME_FUZZ "Build libFuzzer programs (needs Clang)" OFF)

# trireme_fuzz_target(NAME SOURCES a_fuzz.cc ... CORPUS dir [DEPS target ...] [LABELS label ...])
# A test NAME_test that runs the target over its corpus and mutations of it; with -DTRIREME_FUZZ=ON (Clang, preset
# `fuzz`) a libFuzzer program NAME too:
#   cmake --preset fuzz && ninja -C build/fuzz gguf_fuzz
#   mkdir -p /tmp/gguf && build/fuzz/fuzz/gguf_fuzz -max_total_time=300 /tmp/gguf tests/fixtures/fuzz/gguf
function(trireme_fuzz_target name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPS;LABELS" ${ARGN})
  trireme_test(${name}_test SOURCES ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/fuzz_corpus_test.cc
               DEPS ${ARG_DEPS} LABELS ${ARG_LABELS})
  target_compile_definitions(${name}_test PRIVATE TRIREME_FUZZ_CORPUS="${ARG_CORPUS}")
  if(TRIREME_FUZZ)
    trireme_program(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
    target_compile_definitions(${name} PRIVATE TRIREME_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
endfunction()
