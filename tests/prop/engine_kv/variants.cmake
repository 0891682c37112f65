# The property tests of pages once more with 8-bit tags, so that wrapping is part of every quick
# run. They compile engine/kv themselves, with KC_TAG_BITS=8, instead of linking engine_kv.
file(GLOB narrow_engine CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/engine/kv/*.c")
file(GLOB narrow_twins CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.c")
list(FILTER narrow_twins EXCLUDE REGEX "/test_[^/]*$")
foreach(name pool_random pool_inject pool_alias cache_random cache_inject)
  add_executable(test_${name}_narrow "${CMAKE_CURRENT_LIST_DIR}/test_${name}.c"
    ${narrow_twins} ${narrow_engine})
  target_compile_definitions(test_${name}_narrow PRIVATE KC_TAG_BITS=8)
  target_link_libraries(test_${name}_narrow PRIVATE engine_base)
  set_target_properties(test_${name}_narrow PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME prop.${name}_narrow COMMAND test_${name}_narrow)
  kc_test_properties(prop.${name}_narrow prop "${CMAKE_CURRENT_LIST_DIR}/test_${name}.c")
endforeach()
