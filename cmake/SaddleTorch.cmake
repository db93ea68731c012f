# libsaddle_torch: operators, modules and models over libtorch. The only sources that include torch headers.
find_package(Torch REQUIRED CONFIG)
find_path(SADDLE_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(SADDLE_DNNL_LIBRARY dnnl REQUIRED)
mark_as_advanced(SADDLE_DNNL_INCLUDE SADDLE_DNNL_LIBRARY)

file(GLOB_RECURSE torch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/nn/*.cpp)
list(FILTER torch_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(saddle_torch SHARED ${torch_sources})
add_library(saddle::torch ALIAS saddle_torch)
saddle_target_settings(saddle_torch)
set_target_properties(saddle_torch PROPERTIES
  OUTPUT_NAME saddle_torch EXPORT_NAME torch VERSION ${PROJECT_VERSION} SOVERSION 0
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_features(saddle_torch PUBLIC cxx_std_20)
target_link_libraries(saddle_torch PUBLIC saddle::core ${TORCH_LIBRARIES} PRIVATE fmt::fmt ${SADDLE_DNNL_LIBRARY})
target_include_directories(saddle_torch SYSTEM PRIVATE ${SADDLE_DNNL_INCLUDE})
# 12 s and 1 GB per unit without.
saddle_precompile(saddle_torch <torch/torch.h> <fmt/format.h>)
