# Install rules, the CMake package (for the install prefix and for this build folder), pkg-config, Debian packages.
include(CMakePackageConfigHelpers)

install(TARGETS saddle_core EXPORT saddleTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
if(TARGET saddle_cli)
  install(TARGETS saddle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  # The installed program finds the library beside it, wherever the prefix is moved.
  file(RELATIVE_PATH to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(saddle_cli PROPERTIES INSTALL_RPATH $ORIGIN/${to_lib})
endif()
foreach(header IN LISTS saddle_public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT dev)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/include/saddle/version.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/saddle COMPONENT dev)
foreach(document README.md CHANGELOG.md LICENSE)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${document})
    install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
  endif()
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/saddle)
install(EXPORT saddleTargets NAMESPACE saddle:: DESTINATION ${package_dir} COMPONENT dev)
export(EXPORT saddleTargets NAMESPACE saddle:: FILE ${PROJECT_BINARY_DIR}/saddleTargets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/saddleConfig.cmake.in ${PROJECT_BINARY_DIR}/saddleConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/saddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/saddleConfig.cmake ${PROJECT_BINARY_DIR}/saddleConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT dev)

# ${pcfiledir} keeps saddle.pc true when the prefix is moved.
file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/saddle.pc.in ${PROJECT_BINARY_DIR}/saddle.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/saddle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMENT "Removing the installed files"
    COMMAND ${CMAKE_COMMAND} -D MANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
            -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake)

  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME saddle)
  set(CPACK_PACKAGE_CONTACT "saddle developers")
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "saddle developers <saddle@localhost>")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL runtime dev doc)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME saddle)
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libsaddle-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "saddle (= ${PROJECT_VERSION}), libfmt-dev, libtomlplusplus-dev")
  set(CPACK_DEBIAN_DOC_PACKAGE_NAME saddle-doc)
  include(CPack)
endif()
