# The command line: cli/main.cpp and one file per subcommand. All but main.cpp is also linked into its tests.
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.cpp)
list(FILTER cli_sources EXCLUDE REGEX "_test\\.cpp$|/(main|hand_over)\\.cpp$")

if(EXISTS ${PROJECT_SOURCE_DIR}/cli/main.cpp)
  find_package(CLI11 REQUIRED CONFIG)
  include(${CMAKE_CURRENT_LIST_DIR}/SaddleBenchHarness.cmake)
  set(cli_libraries saddle::core saddle_data saddle_bench CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus)

  add_executable(saddle_cli ${PROJECT_SOURCE_DIR}/cli/main.cpp)
  set_target_properties(saddle_cli PROPERTIES OUTPUT_NAME saddle)
  saddle_target_settings(saddle_cli)
  target_link_libraries(saddle_cli PRIVATE ${cli_libraries})

  if(cli_sources)
    add_library(saddle_cli_objects OBJECT ${cli_sources})
    saddle_target_settings(saddle_cli_objects)
    target_link_libraries(saddle_cli_objects PUBLIC ${cli_libraries})
    # The training commands as they are without libtorch: handed over to saddle-torch.
    add_library(saddle_hand_over OBJECT ${PROJECT_SOURCE_DIR}/cli/hand_over.cpp)
    saddle_target_settings(saddle_hand_over)
    target_link_libraries(saddle_hand_over PUBLIC saddle_data PRIVATE fmt::fmt)
    target_link_libraries(saddle_cli PRIVATE saddle_cli_objects saddle_hand_over)
  endif()
endif()
