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
  -ffp-contract=off)
target_include_directories(sluice_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Third-party warnings that we cannot fix (Abseil, Boost) are silenced by including them as system headers.

if(SLUICE_SANITIZE)
  set(_flags -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -g -O1)
  if(SLUICE_SANITIZE MATCHES "undefined")
    list(APPEND _flags -fno-sanitize-recover=all -fno-sanitize=null,vptr,alignment)
  endif()
  if(SLUICE_SANITIZE MATCHES "thread")
    list(APPEND _flags -Wno-tsan)
  endif()
  set(SLUICE_SANITIZE_FLAGS ${_flags})
  target_compile_options(sluice_flags INTERFACE ${_flags})
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
