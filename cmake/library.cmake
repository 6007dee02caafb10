# libgd2fs: the C interface as a shared library that needs no other than the system's own and
# OpenSSL's.
#
# Its files go to two places: under a prefix of one's own (component `library`, `make install
# PREFIX=...`), and into the Python package (component `package`), where links become copies.

file(STRINGS include/xfer/gd2fs.h VERSION_LINE REGEX "define XFER_GD2FS_VERSION ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" GD2FS_LIBRARY_VERSION "${VERSION_LINE}")
set(GD2FS_SOVERSION 0)  # one more whenever a program that was built before would no longer run

file(GLOB LIBRARY_SOURCES CONFIGURE_DEPENDS core/capi/*.cc)
add_library(gd2fs_library SHARED core/capi.cc ${LIBRARY_SOURCES})
set_target_properties(gd2fs_library PROPERTIES
  OUTPUT_NAME gd2fs VERSION ${GD2FS_SOVERSION} SOVERSION ${GD2FS_SOVERSION}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/library
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/library.map)
target_include_directories(gd2fs_library PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_compile_options(gd2fs_library PRIVATE -Wall -Wextra -Wconversion -Werror)
target_link_libraries(gd2fs_library PRIVATE gd2fs_core)
target_link_options(gd2fs_library PRIVATE
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/library.map)
if(NOT GD2FS_SANITIZE)
  target_link_options(gd2fs_library PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs)
endif()

configure_file(cmake/libgd2fs.pc.in library/libgd2fs.pc @ONLY)
foreach(place "library:" "package:gd2fs/")
  string(REPLACE ":" ";" place ${place})
  list(GET place 0 component)
  list(GET place 1 folder)
  install(TARGETS gd2fs_library LIBRARY DESTINATION ${folder}lib COMPONENT ${component})
  install(FILES include/xfer/gd2fs.h DESTINATION ${folder}include/xfer COMPONENT ${component})
  install(FILES ${CMAKE_BINARY_DIR}/library/libgd2fs.pc DESTINATION ${folder}lib/pkgconfig
          COMPONENT ${component})
endforeach()
