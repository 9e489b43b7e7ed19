# Fails if an object compiled with an instruction set's flags defines a symbol that other objects may define
# too (weak): the linker keeps one copy of those for all, and could keep one that older processors cannot run.
# Arguments: NM, OBJECTS (separated by commas).
string(REPLACE "," ";" _objects "${OBJECTS}")
list(LENGTH _objects _count)
if(_count EQUAL 0)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(_object IN LISTS _objects)
  execute_process(COMMAND ${NM} -C ${_object} OUTPUT_VARIABLE _symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]*" _shared "${_symbols}")
  if(_shared)
    message(FATAL_ERROR "${_object} defines shared symbols: ${_shared}")
  endif()
endforeach()
message(STATUS "${_count} objects share nothing")
