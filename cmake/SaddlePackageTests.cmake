# What a user of the package relies on: headers that stand alone, clean exports, and projects that find and link saddle.

get_target_property(core_type saddle_core TYPE)
if(core_type STREQUAL "SHARED_LIBRARY")
  add_test(NAME package.exports
    COMMAND ${PROJECT_SOURCE_DIR}/tests/consumer/exports.sh ${CMAKE_NM} $<TARGET_FILE:saddle_core>)
  set_tests_properties(package.exports PROPERTIES LABELS package)
endif()

if(SADDLE_INSTALL)
  # Each public header compiles alone and brings in none of the private dependencies.
  function(saddle_test_headers name library)
    set(units "")
    foreach(header IN LISTS ARGN)
      set(unit ${PROJECT_BINARY_DIR}/testing/headers/${header}.cpp)
      configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/header_unit.cpp.in ${unit} @ONLY)
      list(APPEND units ${unit})
    endforeach()
    list(REMOVE_DUPLICATES units)
    add_library(saddle_${name} OBJECT EXCLUDE_FROM_ALL ${units})
    saddle_target_settings(saddle_${name})
    target_compile_options(saddle_${name} PRIVATE -O0 -g0)
    target_link_libraries(saddle_${name} PRIVATE ${library})
    add_test(NAME package.${name}
      COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target saddle_${name} --parallel 2)
    set_tests_properties(package.${name} PROPERTIES LABELS package PROCESSORS 2 TIMEOUT 1200)
  endfunction()
  saddle_test_headers(headers saddle::core ${saddle_public_headers} saddle/version.hpp)
  if(TARGET saddle_torch)
    saddle_test_headers(torch_headers saddle::torch ${saddle_torch_public_headers} saddle/torch.hpp)
    # torch/types.h takes 8 s per unit: it is precompiled for headers that include torch, themselves or through another.
    saddle_precompile(saddle_torch_headers <torch/types.h>)
    foreach(header IN LISTS saddle_torch_public_headers)
      file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include (<torch/|\"saddle/nn/)")
      list(FILTER includes EXCLUDE REGEX "saddle/nn/export\\.hpp")
      if(NOT includes)
        set_source_files_properties(${PROJECT_BINARY_DIR}/testing/headers/${header}.cpp PROPERTIES
          SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endif()

  # tests/consumer/run.sh <mode> uses the package in one of the ways a user would; some need the prefix that the
  # first one makes.
  function(saddle_test_consumer name)
    add_test(NAME consumer.${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/consumer/run.sh ${ARGN})
    set_tests_properties(consumer.${name} PROPERTIES LABELS consumer PROCESSORS 2 TIMEOUT 2400
      ENVIRONMENT "SOURCE_DIR=${PROJECT_SOURCE_DIR};BUILD_DIR=${PROJECT_BINARY_DIR};VERSION=${PROJECT_VERSION};\
CMAKE=${CMAKE_COMMAND};GENERATOR=${CMAKE_GENERATOR};CXX=${CMAKE_CXX_COMPILER};CXXFLAGS=${CMAKE_CXX_FLAGS};\
BUILD_TYPE=${CMAKE_BUILD_TYPE};SHARED=${BUILD_SHARED_LIBS};WERROR=${SADDLE_WERROR};\
DEBUG_FLAGS=${CMAKE_CXX_FLAGS_DEBUG};TORCH=${SADDLE_TORCH};PYTHON=${Python3_EXECUTABLE};\
LAUNCHER=${SADDLE_CCACHE};OMP_WAIT_POLICY=PASSIVE")
    if(name STREQUAL "install")
      set_tests_properties(consumer.install PROPERTIES FIXTURES_SETUP saddle_prefix)
    elseif(NOT name MATCHES "build_tree|subdirectory|core_only")
      set_tests_properties(consumer.${name} PROPERTIES FIXTURES_REQUIRED saddle_prefix)
    endif()
  endfunction()
  foreach(mode install build_tree subdirectory pkg_config)
    saddle_test_consumer(${mode} ${mode})
  endforeach()
  if(TARGET saddle_torch)
    saddle_test_consumer(core_only core_only)
    foreach(example torch_attention own_attention replace_attention)
      saddle_test_consumer(${example} example ${example})
      set_tests_properties(consumer.${example} PROPERTIES PROCESSORS 1)
    endforeach()
  endif()
  if(TARGET saddle_python)
    saddle_test_consumer(python python)
  endif()
endif()

# Made-up mechanisms and analyses, tests/extra/mechanisms/<name> and tests/extra/analyses/<name>: the objects of the library
# with lists that know them as well. The programs that are there already, unchanged, must show them; mechanisms pass the
# battery, analyses run.
file(GLOB extra_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/extra/mechanisms/*/*.hpp)
file(GLOB extra_analyses CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/extra/analyses/*/*.hpp)
if(extra_headers AND core_type STREQUAL "SHARED_LIBRARY" AND EXISTS ${PROJECT_SOURCE_DIR}/saddle/mechanisms/registry.hpp)
  add_library(saddle_extra SHARED
    $<FILTER:$<TARGET_OBJECTS:saddle_core>,EXCLUDE,/mechanisms_list|/analyses_list|/saddle/mechanisms/[^/]*/[^/]*$>)
  saddle_library_settings(saddle_extra)
  set_target_properties(saddle_extra PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/extra)
  saddle_register_mechanisms(saddle_extra
    ${PROJECT_SOURCE_DIR}/saddle/mechanisms ${PROJECT_SOURCE_DIR}/tests/extra/mechanisms ${SADDLE_EXTRA_MECHANISMS})
  saddle_register_analyses(saddle_extra SOURCES tests/extra/analyses LISTED saddle/analysis ${SADDLE_EXTRA_ANALYSES})
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
  foreach(header IN LISTS extra_analyses)
    cmake_path(GET header STEM name)
    if(TARGET saddle_cli)
      add_test(NAME extra.${name}.list COMMAND saddle_cli analyze)
      set_tests_properties(extra.${name}.list PROPERTIES PASS_REGULAR_EXPRESSION "${name} +models, files")
      add_test(NAME extra.${name}.page COMMAND saddle_cli analyze ${name})
      set_tests_properties(extra.${name}.page PROPERTIES PASS_REGULAR_EXPRESSION "Made up for the tests")
      add_test(NAME extra.${name}.example COMMAND saddle_cli analyze ${name} --example)
      set_tests_properties(extra.${name}.example PROPERTIES PASS_REGULAR_EXPRESSION "${name} found a size of 2")
      add_test(NAME extra.${name}.file
        COMMAND saddle_cli analyze ${name} ${PROJECT_SOURCE_DIR}/tests/extra/analyses/${name}/heads.safetensors)
      set_tests_properties(extra.${name}.file PROPERTIES PASS_REGULAR_EXPRESSION "${name} found a size of 5")
      foreach(test list page example file)
        set_property(TEST extra.${name}.${test} PROPERTY LABELS extra)
        set_property(TEST extra.${name}.${test} PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/extra)
      endforeach()
    endif()
  endforeach()
endif()
