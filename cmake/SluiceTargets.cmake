# sluice_library(NAME SRCS ... DEPS ...): a static library whose dependencies are declared by name.
# sluice_test(NAME SRCS ... DEPS ... [LABELS ...] [ARGS ...] [TIMEOUT ...]): a GoogleTest program, registered with
# CTest.
# sluice_program(NAME SRCS ... DEPS ...): an executable.
function(sluice_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_link_libraries(${name} PUBLIC sluice_flags Threads::Threads ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    sluice_use_precompiled(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE sluice_flags ${ARG_DEPS})
  endif()
endfunction()

function(sluice_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE sluice_flags Threads::Threads ${ARG_DEPS})
endfunction()

function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE sluice_flags Threads::Threads ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  sluice_use_precompiled(${name})
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "SLUICE_GOLDEN_DIR=${CMAKE_SOURCE_DIR}/tests/golden")
  # What has threads of its own, as the labels "threads" and "model" tell, gets two processors.
  if(ARG_LABELS MATCHES "threads|model")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()
