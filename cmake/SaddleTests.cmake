# Tests: one executable per layer, the fuzz targets, and checks of the headers and the package.
include(${CMAKE_CURRENT_LIST_DIR}/SaddleLibsvm.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/SaddleFuzz.cmake)
if(NOT SADDLE_BUILD_TESTS)
  return()
endif()

find_package(GTest REQUIRED CONFIG)
find_package(rapidcheck REQUIRED CONFIG)
include(GoogleTest)

add_library(saddle_testing INTERFACE)
target_link_libraries(saddle_testing INTERFACE
  saddle::core saddle_libsvm GTest::gmock GTest::gtest GTest::gtest_main rapidcheck rapidcheck_gtest
  fmt::fmt tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json Eigen3::Eigen)
# Where things are, for the tests that ask: in a header, so that all others are the same to the compiler cache in every clone.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/testing/places.hpp CONTENT "#pragma once
#define SADDLE_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\"
#define SADDLE_BINARY_DIR \"${PROJECT_BINARY_DIR}\"
#define SADDLE_CLI \"$<IF:$<TARGET_EXISTS:saddle_cli>,$<TARGET_FILE:$<IF:$<TARGET_EXISTS:saddle_cli>,saddle_cli,saddle_core>>,>\"
")
target_include_directories(saddle_testing INTERFACE ${PROJECT_BINARY_DIR}/testing)
# What is tested is optimised, the tests need not be.
target_compile_options(saddle_testing INTERFACE $<$<CONFIG:Release>:-O1>)

# gtest and rapidcheck take 5 s per unit; precompiled once and shared by all suites they take none.
file(WRITE ${PROJECT_BINARY_DIR}/testing/empty.new "")
file(COPY_FILE ${PROJECT_BINARY_DIR}/testing/empty.new ${PROJECT_BINARY_DIR}/testing/empty.cpp ONLY_IF_DIFFERENT)
add_library(saddle_test_pch OBJECT ${PROJECT_BINARY_DIR}/testing/empty.cpp)
saddle_target_settings(saddle_test_pch)
target_link_libraries(saddle_test_pch PRIVATE saddle_testing)
saddle_precompile(saddle_test_pch <gmock/gmock.h> <gtest/gtest.h> <rapidcheck.h> <rapidcheck/gtest.h>)

# saddle_add_suite(<name> <source>...) builds <name>_test and registers its cases with ctest as <name>.<suite>.<case>.
# Loading torch takes longer than most cases that need it: they are run in a few shares, <name>.1 and so on.
function(saddle_add_suite name)
  if(NOT ARGN)
    return()
  endif()
  add_executable(${name}_test ${ARGN})
  saddle_target_settings(${name}_test)
  target_link_libraries(${name}_test PRIVATE saddle_testing)
  # Tests run side by side, so threads that wait must not spin.
  set(environment OMP_WAIT_POLICY=PASSIVE)
  if(name MATCHES "^(nn|train)$")
    target_link_libraries(${name}_test PRIVATE saddle::torch)
    saddle_precompile(${name}_test <torch/torch.h> <gtest/gtest.h>)
    set(shares 8)
    foreach(share RANGE 1 ${shares})
      math(EXPR index "${share} - 1")
      add_test(NAME ${name}.${share} COMMAND ${name}_test --gtest_brief=1)
      set_tests_properties(${name}.${share} PROPERTIES LABELS ${name} TIMEOUT 1200
        ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${shares};GTEST_SHARD_INDEX=${index}")
    endforeach()
    return()
  endif()
  saddle_precompile(${name}_test)
  target_precompile_headers(${name}_test REUSE_FROM saddle_test_pch)
  # Discovered when ctest starts, so that the environment of a test preset holds for that too.
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS ${name} TIMEOUT 600 ENVIRONMENT ${environment})
endfunction()

foreach(layer base primal kernels io mechanisms analysis)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/${layer}/*_test.cpp)
  if(layer STREQUAL "mechanisms")
    foreach(folder IN LISTS SADDLE_EXTRA_MECHANISMS)
      file(GLOB extra CONFIGURE_DEPENDS ${folder}/*_test.cpp)
      list(APPEND sources ${extra})
    endforeach()
  endif()
  list(FILTER sources EXCLUDE REGEX "/module_test\\.cpp$")  # of the torch layer
  saddle_add_suite(${layer} ${sources})
endforeach()

if(TARGET saddle_data)
  foreach(layer data eval report run experiment)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/${layer}/*_test.cpp)
    saddle_add_suite(${layer} ${sources})
    if(TARGET ${layer}_test)
      target_link_libraries(${layer}_test PRIVATE saddle_data)
    endif()
  endforeach()
endif()

if(TARGET saddle_torch)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/nn/*_test.cpp)
  file(GLOB modules CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/mechanisms/*/module_test.cpp)
  saddle_add_suite(nn ${sources} ${modules})
endif()

if(TARGET saddle_training)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/train/*_test.cpp)
  saddle_add_suite(train ${sources})
  target_link_libraries(train_test PRIVATE saddle_training)
endif()

if(TARGET saddle_python)
  add_test(NAME python COMMAND ${Python3_EXECUTABLE} -B -m pytest -q -p no:cacheprovider ${PROJECT_SOURCE_DIR}/python/tests)
  set_tests_properties(python PROPERTIES LABELS python TIMEOUT 1800
    ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;OMP_WAIT_POLICY=PASSIVE")
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*_test.cpp)
if(TARGET saddle_cli_objects)
  saddle_add_suite(cli ${sources})
  if(TARGET cli_test)
    target_link_libraries(cli_test PRIVATE saddle_cli_objects saddle_hand_over)
  endif()
endif()

if(TARGET saddle_bench)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/harness/*_test.cpp)
  saddle_add_suite(bench ${sources})
  if(TARGET bench_test)
    target_link_libraries(bench_test PRIVATE saddle_bench)
  endif()
endif()

# tests/<suite>/: a folder with *_test.cpp is a suite; its other sources are helpers of that suite.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
list(FILTER sources EXCLUDE REGEX "^(consumer|extra|fuzz)/")
set(suites ${sources})
list(FILTER suites INCLUDE REGEX "/")
list(TRANSFORM suites REPLACE "/.*" "")
list(REMOVE_DUPLICATES suites)
foreach(suite IN LISTS suites)
  file(GLOB_RECURSE members CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${suite}/*.cpp)
  saddle_add_suite(${suite} ${members})
endforeach()
foreach(suite cli e2e)
  if(TARGET ${suite}_test AND TARGET saddle_cli)
    add_dependencies(${suite}_test saddle_cli)
  endif()
endforeach()

# Points of the battery that do not try every instruction set themselves, once for each of them.
if(TARGET battery_test)
  foreach(isa scalar avx2 avx512)
    add_test(NAME battery.on_${isa} COMMAND battery_test
      --gtest_filter=*Strides*:*SameBits*:*NothingIsVisible*:*ColumnSums*:*Golden.In*)
    set_tests_properties(battery.on_${isa} PROPERTIES LABELS battery TIMEOUT 600
      ENVIRONMENT "SADDLE_MAX_ISA=${isa};OMP_WAIT_POLICY=PASSIVE")
  endforeach()
endif()

# Every example builds and runs.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  saddle_target_settings(example_${name})
  target_link_libraries(example_${name} PRIVATE saddle::core)
  add_test(NAME example.${name} COMMAND example_${name})
  set_tests_properties(example.${name} PROPERTIES LABELS example)
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/SaddlePackageTests.cmake)
