# One executable per bench/*_bench.cpp, and the peers of `saddle bench` that are programs; nothing here runs in the tests.
include(${CMAKE_CURRENT_LIST_DIR}/SaddleLibsvm.cmake)
find_package(benchmark QUIET CONFIG)
file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*_bench.cpp)

foreach(source IN LISTS bench_sources)
  if(NOT benchmark_FOUND)
    message(STATUS "Google Benchmark was not found: the benchmarks are not built")
    break()
  endif()
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  saddle_target_settings(${name})
  target_link_libraries(${name} PRIVATE saddle::core saddle_libsvm fmt::fmt benchmark::benchmark benchmark::benchmark_main)
endforeach()

# Not its CMake package: that asks for the OpenCL it was built with.
find_path(SADDLE_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(SADDLE_DNNL_LIBRARY dnnl)
mark_as_advanced(SADDLE_DNNL_INCLUDE SADDLE_DNNL_LIBRARY)
if(SADDLE_DNNL_INCLUDE AND SADDLE_DNNL_LIBRARY AND TARGET saddle_bench)
  add_executable(saddle_onednn_peer ${PROJECT_SOURCE_DIR}/bench/peers/onednn_peer.cpp)
  set_target_properties(saddle_onednn_peer PROPERTIES OUTPUT_NAME saddle-onednn-peer)
  saddle_target_settings(saddle_onednn_peer)
  target_include_directories(saddle_onednn_peer SYSTEM PRIVATE ${SADDLE_DNNL_INCLUDE})
  target_link_libraries(saddle_onednn_peer PRIVATE ${SADDLE_DNNL_LIBRARY} nlohmann_json::nlohmann_json)
endif()

if(TARGET saddle_bench AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_library(saddle_tile_palette MODULE ${PROJECT_SOURCE_DIR}/bench/peers/tile_palette.cpp)
  set_target_properties(saddle_tile_palette PROPERTIES PREFIX "" OUTPUT_NAME saddle-tile-palette)
  saddle_target_settings(saddle_tile_palette)
endif()

# Our side of a training step; the other one is peers/training_peer.py.
if(TARGET saddle_bench AND TARGET saddle_torch)
  add_executable(saddle_training_contender ${PROJECT_SOURCE_DIR}/bench/training/training_contender.cpp)
  set_target_properties(saddle_training_contender PROPERTIES OUTPUT_NAME saddle-training-contender)
  saddle_target_settings(saddle_training_contender)
  target_link_libraries(saddle_training_contender PRIVATE
    saddle_bench saddle::torch fmt::fmt nlohmann_json::nlohmann_json)
endif()

# What `saddle bench` starts, as far as it can be built here, and the program itself.
add_custom_target(saddle_bench_programs)
foreach(target saddle_cli saddle_onednn_peer saddle_tile_palette saddle_training_contender)
  if(TARGET ${target})
    add_dependencies(saddle_bench_programs ${target})
  endif()
endforeach()
