# Removes what the last `cmake --install` of this build folder wrote.
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "Nothing to remove: ${MANIFEST} does not exist, so nothing was installed from this build folder")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file IN LISTS files)
  message(STATUS "Removing $ENV{DESTDIR}${file}")
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()
