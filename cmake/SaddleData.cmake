# Data, statistics, reports and settings of runs, for the programs of this project: none of it needs torch, and none of it is installed.
find_package(ZLIB REQUIRED)
file(GLOB_RECURSE data_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/saddle/data/*.cpp ${PROJECT_SOURCE_DIR}/saddle/eval/*.cpp ${PROJECT_SOURCE_DIR}/saddle/report/*.cpp
  ${PROJECT_SOURCE_DIR}/saddle/run/*.cpp ${PROJECT_SOURCE_DIR}/saddle/experiment/*.cpp)
list(FILTER data_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(saddle_data STATIC ${data_sources})
saddle_target_settings(saddle_data)
set_target_properties(saddle_data PROPERTIES POSITION_INDEPENDENT_CODE ON)
# GCC 12 takes iterators of nlohmann/json for uninitialised at -O1.
target_compile_options(saddle_data PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
target_include_directories(saddle_data PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(saddle_data PUBLIC saddle::core
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus Eigen3::Eigen ZLIB::ZLIB Threads::Threads)
saddle_precompile(saddle_data <algorithm> <cmath> <functional> <map> <memory> <optional> <string> <vector> <fmt/format.h>)
include(${CMAKE_CURRENT_LIST_DIR}/SaddleReport.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/SaddleExperiments.cmake)
