# tests/fuzz/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput. Under SADDLE_FUZZ libFuzzer drives it; otherwise our own driver
# feeds it the corpus and a fixed sequence of mutated inputs, as an ordinary test.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)

foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "_fuzz$" "" name ${name})
  add_executable(fuzz_${name} ${source})
  saddle_target_settings(fuzz_${name})
  target_link_libraries(fuzz_${name} PRIVATE saddle::core)
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(SADDLE_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/driver.cpp)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${corpus})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600)
  endif()
endforeach()
