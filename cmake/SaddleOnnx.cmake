# ONNX files of saddle_torch. One source alone includes headers of onnx, and none of torch.
find_path(SADDLE_ONNX_INCLUDE onnx/onnx_pb.h REQUIRED)
find_library(SADDLE_ONNX_LIBRARY onnx REQUIRED)
find_library(SADDLE_ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
find_library(SADDLE_PROTOBUF_LIBRARY protobuf REQUIRED)
mark_as_advanced(SADDLE_ONNX_INCLUDE SADDLE_ONNX_LIBRARY SADDLE_ONNX_PROTO_LIBRARY SADDLE_PROTOBUF_LIBRARY)
set_source_files_properties(${PROJECT_SOURCE_DIR}/saddle/nn/onnx/model_file.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx")
target_include_directories(saddle_torch SYSTEM PRIVATE ${SADDLE_ONNX_INCLUDE})
target_link_libraries(saddle_torch PRIVATE
  ${SADDLE_ONNX_LIBRARY} ${SADDLE_ONNX_PROTO_LIBRARY} ${SADDLE_PROTOBUF_LIBRARY})

# onnx.runtime: what is exported gives the same in another runtime.
if(SADDLE_BUILD_TESTS)
  file(GLOB onnx_case_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/onnx/*.cpp)
  add_executable(onnx_cases ${onnx_case_sources})
  saddle_target_settings(onnx_cases)
  target_link_libraries(onnx_cases PRIVATE
    saddle::torch fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus)
  saddle_precompile(onnx_cases <torch/torch.h>)
  add_test(NAME onnx.runtime COMMAND ${PROJECT_SOURCE_DIR}/tests/onnx/run.sh
    $<TARGET_FILE:onnx_cases> ${PROJECT_BINARY_DIR}/testing/onnx ${PROJECT_SOURCE_DIR}/build/peers)
  set_tests_properties(onnx.runtime PROPERTIES LABELS onnx SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
endif()
