# Compiler settings, all of them per target: a parent project is left as it was.

# The three that are off report ordinary uses of std::string under GCC 12 (GCC bug 105651).
add_library(saddle_warnings INTERFACE)
target_compile_options(saddle_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wold-style-cast -Wcast-align -Wextra-semi
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>
  $<$<BOOL:${SADDLE_WERROR}>:-Werror>)

# Object files depend neither on the build folder nor on where the sources lie, so builds and clones may share the cache;
# pch_defines and time_macros are what ccache asks for before it caches units that use a precompiled header.
find_program(SADDLE_CCACHE ccache)
mark_as_advanced(SADDLE_CCACHE)
set(saddle_launcher "")
if(SADDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(saddle_launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                      CCACHE_SLOPPINESS=pch_defines,time_macros ${SADDLE_CCACHE})
endif()

# What every target of this project is compiled with.
function(saddle_target_settings target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:saddle_warnings,INTERFACE_COMPILE_OPTIONS>)
  if(saddle_launcher)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${saddle_launcher}")
  endif()
endfunction()

# Headers that most sources of a target include, read once. The options are what ccache needs to cache units that use them.
function(saddle_precompile target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

# A build of libsaddle: only what is marked SADDLE_API leaves it, and consumers need none of its dependencies.
function(saddle_library_settings target)
  saddle_target_settings(${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME saddle EXPORT_NAME core VERSION ${PROJECT_VERSION} SOVERSION 0
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE
    fmt::fmt tomlplusplus::tomlplusplus OpenMP::OpenMP_CXX Threads::Threads)
  # Only the headers: nothing of these is left to link, so a static package must not ask for them.
  foreach(library nlohmann_json::nlohmann_json Eigen3::Eigen)
    target_include_directories(${target} SYSTEM PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
  saddle_precompile(${target}
    <algorithm> <cmath> <functional> <map> <memory> <optional> <string> <variant> <vector> <fmt/format.h>)
  # Eigen's own OpenMP loops would compete with ours.
  target_compile_definitions(${target} PRIVATE EIGEN_DONT_PARALLELIZE)
  # Hidden visibility does not reach instantiations of std templates; the version script does.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(script ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${script})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
  endif()
endfunction()
