# Training over libtorch: a library for the programs of this project, and the program that `saddle` hands its training
# commands to. Loading libtorch takes most of a second, which no other command should pay.
find_package(ZLIB REQUIRED)
file(GLOB_RECURSE training_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/saddle/train/*.cpp)
list(FILTER training_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(saddle_training STATIC ${training_sources})
saddle_target_settings(saddle_training)
set_target_properties(saddle_training PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(saddle_training PUBLIC saddle::torch saddle_data
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json ZLIB::ZLIB)
saddle_precompile(saddle_training <torch/torch.h> <fmt/format.h>)

file(GLOB program_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/torch/*.cpp)
add_executable(saddle_torch_cli ${program_sources})
set_target_properties(saddle_torch_cli PROPERTIES OUTPUT_NAME saddle-torch)
saddle_target_settings(saddle_torch_cli)
target_include_directories(saddle_torch_cli PRIVATE ${PROJECT_SOURCE_DIR}/cli)
target_link_libraries(saddle_torch_cli PRIVATE saddle_cli_objects saddle_training)
add_dependencies(saddle_cli saddle_torch_cli)
