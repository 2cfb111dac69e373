# sluice_without_unused(target library): spares the target's processes the libraries that `library`
# names and uses nothing of. Debian's libtorch names OpenCV and FFmpeg, which bring 180 more: half
# of what the dynamic loader does at each start. An empty library stands in place of each, in the
# folder `unused` beside the program. Without that folder the loader finds the real ones.
function(sluice_without_unused target library)
  # Others that libtorch loads do use its other unused ones, such as OpenCL.
  set(spared "lib(opencv_|av|sw|leveldb|lmdb|snappy|zmq)[^/]*$")
  get_target_property(file ${library} LOCATION)
  execute_process(COMMAND ldd -u ${file} OUTPUT_VARIABLE unused)
  string(REGEX MATCHALL "[^\n\t /]+\n" unused "${unused}")
  set(folder ${CMAKE_BINARY_DIR}/unused)
  file(MAKE_DIRECTORY ${folder})
  foreach(name ${unused})
    string(STRIP ${name} name)
    if(NOT name MATCHES "${spared}")
      continue()
    endif()
    if(NOT EXISTS ${folder}/${name})
      execute_process(COMMAND_ERROR_IS_FATAL ANY
        COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -s -Wl,-soname,${name} -o ${folder}/${name} -x c /dev/null)
    endif()
    list(APPEND empty ${folder}/${name})
  endforeach()
  if(empty)
    target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed ${empty} -Wl,--pop-state)
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/unused")
  endif()
endfunction()
