# The Python package: python/saddle with _core beside it, laid out in <build>/python so that PYTHONPATH finds it. Built for
# Debian's own python3, the one that has torch.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
set(PYTHON_EXECUTABLE ${Python3_EXECUTABLE})
find_package(pybind11 REQUIRED CONFIG)

pybind11_add_module(saddle_python NO_EXTRAS ${PROJECT_SOURCE_DIR}/python/bindings.cpp ${PROJECT_SOURCE_DIR}/python/analysis_bindings.cpp)
saddle_target_settings(saddle_python)
set(python_build ${PROJECT_BINARY_DIR}/python/saddle)
set_target_properties(saddle_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${python_build})
target_link_libraries(saddle_python PRIVATE saddle::core)

# Sources are linked, not copied: an edit is there at once.
file(GLOB python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/saddle/*)
list(FILTER python_sources EXCLUDE REGEX "__pycache__")
file(MAKE_DIRECTORY ${python_build})
foreach(source IN LISTS python_sources)
  cmake_path(GET source FILENAME name)
  file(CREATE_LINK ${source} ${python_build}/${name} SYMBOLIC)
endforeach()
