# loft_room(NAME [USES room...] [LINK library...]): the static library of one folder under src/ and, with LOFT_TESTS, one
# test program made of the *_test.cc files in it. Sources are found by name, so adding a file needs no edit here.
function(loft_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "(_(test|bench)|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  # A file of one instruction set carries its name at the end.
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_avx[0-9a-z]+\\.cc$")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(FILTER sources EXCLUDE REGEX "_neon[0-9a-z]*\\.cc$")
  endif()
  if(sources)
    add_library(loft_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(loft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(loft_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  foreach(room ${ROOM_USES})
    target_link_libraries(loft_${name} ${scope} loft_${room})
  endforeach()
  target_link_libraries(loft_${name} ${scope} ${ROOM_LINK})
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/${name}/flags.cmake)
    include(${PROJECT_SOURCE_DIR}/src/${name}/flags.cmake)
  endif()
  if(LOFT_TESTS AND tests)
    loft_test(loft_${name}_test SOURCES ${tests} LINK loft_${name})
  endif()
  if(LOFT_TESTS AND benches AND NOT LOFT_SANITIZE AND NOT LOFT_FUZZ AND NOT CMAKE_CROSSCOMPILING)
    find_package(benchmark REQUIRED)
    add_executable(loft_${name}_bench ${benches})
    target_link_libraries(loft_${name}_bench PRIVATE loft_${name} benchmark::benchmark_main)
  endif()
endfunction()

# loft_test(NAME SOURCES file... LINK library... [LABELS label]): one GoogleTest program; each of its tests is a ctest of
# its own.
function(loft_test name)
  cmake_parse_arguments(TEST "" "LABELS" "SOURCES;LINK" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # test code is compiled often and timed never
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS "${TEST_LABELS}")
endfunction()

# loft_app(NAME ROOM): the program, main.cc of a room.
function(loft_app name room)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/src/${room}/main.cc)
  target_link_libraries(${name} PRIVATE loft_${room})
  # Looked at in every build; BYPRODUCTS makes ninja stop there when the header stays as it was.
  set(facts ${CMAKE_CURRENT_BINARY_DIR}/build_facts/build_facts.h)
  add_custom_target(${name}_build_facts BYPRODUCTS ${facts} VERBATIM COMMENT ""
                    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DTARGET=${facts}
                            -P ${PROJECT_SOURCE_DIR}/cmake/build_facts.cmake)
  add_dependencies(loft_${room} ${name}_build_facts)
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/${room}/build_info.cc APPEND PROPERTY OBJECT_DEPENDS ${facts})
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/${room}/build_info.cc PROPERTY INCLUDE_DIRECTORIES
               ${CMAKE_CURRENT_BINARY_DIR}/build_facts)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(build_flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  string(STRIP "${build_flags}" build_flags)
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/${room}/build_info.cc PROPERTY COMPILE_DEFINITIONS
               LOFT_VERSION="${PROJECT_VERSION}" LOFT_BUILD_TYPE="${CMAKE_BUILD_TYPE}" "LOFT_BUILD_FLAGS=\"${build_flags}\"")
  # The program writes its own manual page and completion script.
  add_custom_command(OUTPUT ${name}.1 ${name}.bash
                     COMMAND ${name} --help-man > ${name}.1
                     COMMAND ${name} completion bash > ${name}.bash
                     DEPENDS ${name} VERBATIM)
  add_custom_target(${name}_manual ALL DEPENDS ${name}.1 ${name}.bash)
  include(GNUInstallDirs)
  install(TARGETS ${name} RUNTIME)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.bash RENAME ${name}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endfunction()
