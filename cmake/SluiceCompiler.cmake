# Compiler flags common to every target, ccache, and the sanitizer switch.
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  # False alarms of g++ 12 on std::string operator+ (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # An answer must not depend on which function computed it: the compiler may not fuse a*b+c on its own.
  -ffp-contract=off
  # Some libraries ask for it: for all alike, since a precompiled header is for one set of definitions.
  -pthread)
target_include_directories(sluice_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Third-party warnings that we cannot fix (Abseil, Boost) are silenced by including them as system headers.

if(SLUICE_SANITIZE)
  # Line numbers are all that a report needs. The optimisation is the folder's: sluice_sanitized_speed().
  set(_flags -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -g1)
  if(SLUICE_SANITIZE MATCHES "undefined")
    list(APPEND _flags -fno-sanitize-recover=all -fno-sanitize=null,vptr,alignment)
  endif()
  if(SLUICE_SANITIZE MATCHES "thread")
    list(APPEND _flags -Wno-tsan)
  endif()
  # With a sanitizer's calls between, g++ 12 sees overruns and uninitialised values in the standard library that are
  # not there. The other builds judge these.
  foreach(_warning array-bounds stringop-overflow maybe-uninitialized)
    list(APPEND _flags $<$<CXX_COMPILER_ID:GNU>:-Wno-${_warning}>)
  endforeach()
  set(SLUICE_SANITIZE_FLAGS ${_flags})
  target_compile_options(sluice_flags INTERFACE ${_flags})
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()

# sluice_sanitized_speed(-O0|-O1): how much the sanitizer builds optimise this folder. What computes gets -O1; the
# wire and the tests, whose time is the compiler's, get -O0.
macro(sluice_sanitized_speed level)
  if(SLUICE_SANITIZE)
    add_compile_options(${level})
  endif()
endmacro()

# Precompiled headers of libraries, in the sanitizer builds alone: that each file includes what it uses shows in
# the release build.
option(SLUICE_PRECOMPILE "Precompile the headers of libraries" OFF)

set(SLUICE_COMMON_HEADERS
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <deque> <functional> <map> <memory> <mutex>
  <optional> <random> <span> <string> <string_view> <thread> <unordered_map> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>)

# sluice_precompiled(FOLDER [LIBRARY HEADER...]): for the targets of this folder and of those below it, the common
# headers and a library's. A precompiled header is for one set of flags: all get those of the library.
macro(sluice_precompiled folder)
  if(SLUICE_PRECOMPILE)
    set(_headers ${ARGN})
    list(POP_FRONT _headers _library)
    if(_library)
      add_compile_definitions($<TARGET_PROPERTY:${_library},INTERFACE_COMPILE_DEFINITIONS>)
      add_compile_options($<TARGET_PROPERTY:${_library},INTERFACE_COMPILE_OPTIONS>)
    endif()
    set(SLUICE_PRECOMPILED precompiled_${folder})
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc CONTENT "")
    add_library(${SLUICE_PRECOMPILED} STATIC ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
    target_link_libraries(${SLUICE_PRECOMPILED} PRIVATE sluice_flags Threads::Threads)
    target_precompile_headers(${SLUICE_PRECOMPILED} PRIVATE ${SLUICE_COMMON_HEADERS} ${_headers})
  endif()
endmacro()

function(sluice_use_precompiled target)
  if(SLUICE_PRECOMPILE AND SLUICE_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${SLUICE_PRECOMPILED})
  endif()
endfunction()
