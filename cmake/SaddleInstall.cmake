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
if(TARGET saddle_torch_cli)
  install(TARGETS saddle_torch_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT torch)
  set_target_properties(saddle_torch_cli PROPERTIES INSTALL_RPATH $ORIGIN/${to_lib})
endif()
# saddle_install_headers(<component> <header>...): headers below the source folder keep their places.
function(saddle_install_headers component)
  foreach(header IN LISTS ARGN)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT ${component})
  endforeach()
endfunction()
saddle_install_headers(dev ${saddle_public_headers})
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

# A set of its own, so that nobody needs torch to find the core.
if(TARGET saddle_torch)
  install(TARGETS saddle_torch EXPORT saddleTorchTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT torch NAMELINK_COMPONENT torch_dev)
  set_target_properties(saddle_torch PROPERTIES INSTALL_RPATH $ORIGIN)
  saddle_install_headers(torch_dev ${saddle_torch_public_headers})
  install(FILES ${PROJECT_BINARY_DIR}/include/saddle/torch.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/saddle COMPONENT torch_dev)
  install(EXPORT saddleTorchTargets NAMESPACE saddle:: DESTINATION ${package_dir} COMPONENT torch_dev)
  export(EXPORT saddleTorchTargets NAMESPACE saddle:: FILE ${PROJECT_BINARY_DIR}/saddleTorchTargets.cmake)
else()
  file(REMOVE ${PROJECT_BINARY_DIR}/saddleTorchTargets.cmake)  # of an earlier configuration
endif()

# The Python package, for PYTHONPATH=<prefix>/lib/python3/dist-packages; below /usr python3 looks there by itself.
if(TARGET saddle_python)
  set(SADDLE_PYTHON_SITE lib/python3/dist-packages CACHE STRING "Where Python packages go, below the prefix")
  set(python_site ${SADDLE_PYTHON_SITE}/saddle)
  install(TARGETS saddle_python LIBRARY DESTINATION ${python_site} COMPONENT python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/saddle/ DESTINATION ${python_site} COMPONENT python
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  # _core and the operators are found relative to the package, wherever the prefix is moved.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR
    BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${python_site} OUTPUT_VARIABLE to_lib)
  set_target_properties(saddle_python PROPERTIES INSTALL_RPATH $ORIGIN/${to_lib})
  set(link ${PROJECT_BINARY_DIR}/install/libsaddle_torch.so)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/install)
  file(CREATE_LINK ${to_lib}/libsaddle_torch.so.0 ${link} SYMBOLIC)
  install(FILES ${link} DESTINATION ${python_site} COMPONENT python)
endif()

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
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})  # packages here need each other's libraries
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME saddle)
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libsaddle-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "saddle (= ${PROJECT_VERSION}), libfmt-dev, libtomlplusplus-dev")
  set(CPACK_DEBIAN_DOC_PACKAGE_NAME saddle-doc)
  if(TARGET saddle_torch)
    list(APPEND CPACK_COMPONENTS_ALL torch torch_dev)
    set(CPACK_DEBIAN_TORCH_PACKAGE_NAME libsaddle-torch)
    set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "saddle (= ${PROJECT_VERSION})")
    set(CPACK_DEBIAN_TORCH_DEV_PACKAGE_NAME libsaddle-torch-dev)
    set(CPACK_DEBIAN_TORCH_DEV_PACKAGE_DEPENDS
      "libsaddle-torch (= ${PROJECT_VERSION}), libsaddle-dev (= ${PROJECT_VERSION}), libtorch-dev")
  endif()
  if(TARGET saddle_python)
    list(APPEND CPACK_COMPONENTS_ALL python)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-saddle)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "libsaddle-torch (= ${PROJECT_VERSION}), python3-torch, python3-numpy")
  endif()
  include(CPack)
endif()
