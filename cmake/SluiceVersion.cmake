# The version comes from git: the nearest tag, or 0.1.0 plus the commit.
set(SLUICE_VERSION "0.1.0")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --tags --always --dirty
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE _describe
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _rc)
  if(_rc EQUAL 0 AND _describe)
    if(_describe MATCHES "^v[0-9]")
      string(SUBSTRING "${_describe}" 1 -1 SLUICE_VERSION)
    else()
      set(SLUICE_VERSION "0.1.0+g${_describe}")
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.h.in ${CMAKE_BINARY_DIR}/generated/sluice_version.h @ONLY)
message(STATUS "sluice: version ${SLUICE_VERSION}")
