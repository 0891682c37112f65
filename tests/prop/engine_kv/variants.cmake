# The pool's property tests once more with 8-bit tags, so that wrapping is part of every quick run.
# They compile the pool and the table themselves, with KC_TAG_BITS=8, instead of linking engine_kv.
foreach(name pool_random pool_inject pool_alias)
  add_executable(test_${name}_narrow "${CMAKE_CURRENT_LIST_DIR}/test_${name}.c"
    "${CMAKE_CURRENT_LIST_DIR}/naive_pool.c"
    "${CMAKE_SOURCE_DIR}/engine/kv/pool.c" "${CMAKE_SOURCE_DIR}/engine/kv/table.c")
  target_compile_definitions(test_${name}_narrow PRIVATE KC_TAG_BITS=8)
  target_link_libraries(test_${name}_narrow PRIVATE engine_base)
  set_target_properties(test_${name}_narrow PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME prop.${name}_narrow COMMAND test_${name}_narrow)
  kc_test_properties(prop.${name}_narrow prop "${CMAKE_CURRENT_LIST_DIR}/test_${name}.c")
endforeach()
