# libsaddle_torch: operators, modules and models over libtorch. The only sources that include torch headers.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # a project that takes saddle as a subproject sees them too
find_package(Torch REQUIRED CONFIG)
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)

file(GLOB_RECURSE torch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/nn/*.cpp)
list(FILTER torch_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(saddle_torch SHARED ${torch_sources})
add_library(saddle::torch ALIAS saddle_torch)
saddle_target_settings(saddle_torch)
set_target_properties(saddle_torch PROPERTIES
  OUTPUT_NAME saddle_torch EXPORT_NAME torch VERSION ${PROJECT_VERSION} SOVERSION 0
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_features(saddle_torch PUBLIC cxx_std_20)
# The target and not TORCH_LIBRARIES, which names files: an exported package must not remember where they were.
target_link_libraries(saddle_torch PUBLIC saddle::core torch PRIVATE fmt::fmt)
# 12 s and 1 GB per unit without.
saddle_precompile(saddle_torch <torch/torch.h> <fmt/format.h>)
include(${CMAKE_CURRENT_LIST_DIR}/SaddleOnnx.cmake)

# Public headers of this layer, in whatever folder: those that export something without showing an internal header of
# the core, and those of this layer that they include. saddle/torch.hpp includes them all.
file(GLOB_RECURSE pending CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/saddle/nn/*.hpp)
list(FILTER pending EXCLUDE REGEX "_internal\\.hpp$")
foreach(header IN LISTS pending)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} exports REGEX "SADDLE_TORCH_API")
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} internals
    REGEX "^#include \"saddle/(base|primal|kernels|mechanisms|io)/.+/")
  if(internals OR NOT exports)
    list(REMOVE_ITEM pending ${header})
  endif()
endforeach()
set(saddle_torch_public_headers "")
while(pending)
  list(POP_FRONT pending header)
  list(APPEND saddle_torch_public_headers ${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} included REGEX "^#include \"saddle/nn/")
  list(TRANSFORM included REPLACE "^#include \"(.*)\".*" "\\1")
  list(APPEND pending ${included})
  list(REMOVE_DUPLICATES pending)
  list(REMOVE_ITEM pending ${saddle_torch_public_headers})
endwhile()
list(SORT saddle_torch_public_headers)
list(JOIN saddle_torch_public_headers "\"\n#include \"" torch_includes)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/saddle/torch.hpp @ONLY CONTENT
"// Everything public of saddle::torch in one include; the headers below also stand alone.
#pragma once

#include \"@torch_includes@\"
")
