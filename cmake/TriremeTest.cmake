find_package(GTest REQUIRED)
include(GoogleTest)

# trireme_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS label ...])
# One GoogleTest program; each of its tests is a ctest test. Label a program `no_tsan` if gRPC or oneDNN's
# OpenMP runs in it: those libraries are not instrumented, so ThreadSanitizer's word on it is worth nothing.
function(trireme_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE trireme_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TRIREME_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures"
                             TRIREME_BIN="${CMAKE_BINARY_DIR}/bin")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
