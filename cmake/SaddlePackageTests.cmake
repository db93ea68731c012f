# What a user of the package relies on: headers that stand alone, clean exports, and projects that find and link saddle.

get_target_property(core_type saddle_core TYPE)
if(core_type STREQUAL "SHARED_LIBRARY")
  add_test(NAME package.exports
    COMMAND ${PROJECT_SOURCE_DIR}/tests/consumer/exports.sh ${CMAKE_NM} $<TARGET_FILE:saddle_core>)
  set_tests_properties(package.exports PROPERTIES LABELS package)
endif()

if(SADDLE_INSTALL)
  # Each public header compiles alone and brings in none of the private dependencies.
  set(header_units "")
  foreach(header IN LISTS saddle_public_headers ITEMS saddle/version.hpp)
    set(unit ${PROJECT_BINARY_DIR}/testing/headers/${header}.cpp)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/header_unit.cpp.in ${unit} @ONLY)
    list(APPEND header_units ${unit})
  endforeach()
  list(REMOVE_DUPLICATES header_units)
  add_library(saddle_headers OBJECT EXCLUDE_FROM_ALL ${header_units})
  saddle_target_settings(saddle_headers)
  target_compile_options(saddle_headers PRIVATE -O0)
  target_link_libraries(saddle_headers PRIVATE saddle::core)
  add_test(NAME package.headers COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target saddle_headers --parallel 2)
  set_tests_properties(package.headers PROPERTIES LABELS package PROCESSORS 2 TIMEOUT 600)

  # tests/consumer/run.sh <mode> builds the consumer project in one of the ways a user would.
  foreach(mode install build_tree subdirectory pkg_config)
    add_test(NAME consumer.${mode} COMMAND ${PROJECT_SOURCE_DIR}/tests/consumer/run.sh ${mode})
    set_tests_properties(consumer.${mode} PROPERTIES LABELS consumer PROCESSORS 2 TIMEOUT 1200
      ENVIRONMENT "SOURCE_DIR=${PROJECT_SOURCE_DIR};BUILD_DIR=${PROJECT_BINARY_DIR};VERSION=${PROJECT_VERSION};\
CMAKE=${CMAKE_COMMAND};GENERATOR=${CMAKE_GENERATOR};CXX=${CMAKE_CXX_COMPILER};CXXFLAGS=${CMAKE_CXX_FLAGS};\
BUILD_TYPE=${CMAKE_BUILD_TYPE};SHARED=${BUILD_SHARED_LIBS};WERROR=${SADDLE_WERROR};\
DEBUG_FLAGS=${CMAKE_CXX_FLAGS_DEBUG}")
  endforeach()
  # pkg_config uses the prefix that the first one makes.
  set_tests_properties(consumer.install PROPERTIES FIXTURES_SETUP saddle_prefix)
  set_tests_properties(consumer.pkg_config PROPERTIES FIXTURES_REQUIRED saddle_prefix)
endif()

# A made-up mechanism, tests/extra/<name>: the objects of the library with a list that knows it as well. The programs
# that are there already, unchanged, must show it and pass the battery with it.
file(GLOB extra_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/extra/*/*.hpp)
if(extra_headers AND core_type STREQUAL "SHARED_LIBRARY" AND EXISTS ${PROJECT_SOURCE_DIR}/saddle/mechanisms/registry.hpp)
  add_library(saddle_extra SHARED
    $<FILTER:$<TARGET_OBJECTS:saddle_core>,EXCLUDE,/mechanisms_list|/saddle/mechanisms/[^/]*/[^/]*$>)
  saddle_library_settings(saddle_extra)
  set_target_properties(saddle_extra PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/extra)
  saddle_register_mechanisms(saddle_extra
    ${PROJECT_SOURCE_DIR}/saddle/mechanisms ${PROJECT_SOURCE_DIR}/tests/extra ${SADDLE_EXTRA_MECHANISMS})
  foreach(header IN LISTS extra_headers)
    cmake_path(GET header STEM name)
    if(TARGET saddle_cli)
      add_test(NAME extra.${name}.list COMMAND saddle_cli list)
      set_tests_properties(extra.${name}.list PROPERTIES LABELS extra PASS_REGULAR_EXPRESSION ${name})
      set_property(TEST extra.${name}.list PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/extra)
    endif()
    if(TARGET battery_test)
      add_test(NAME extra.${name}.battery COMMAND battery_test --gtest_filter=*${name}*)
      set_tests_properties(extra.${name}.battery PROPERTIES LABELS extra TIMEOUT 600 PASS_REGULAR_EXPRESSION "PASSED")
      set_property(TEST extra.${name}.battery PROPERTY FAIL_REGULAR_EXPRESSION "FAILED|Running 0 tests")
      set_property(TEST extra.${name}.battery PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/extra)
    endif()
  endforeach()
endif()
