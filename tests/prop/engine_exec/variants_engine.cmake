# The engine against the simulator: needs the random runs of sim_scenario beside engine_exec.
foreach(name engine_decisions engine_trace engine_faults)
  add_executable(${name} "${CMAKE_CURRENT_LIST_DIR}/${name}.c"
    "${CMAKE_CURRENT_LIST_DIR}/engine_twin.c"
    "${CMAKE_CURRENT_LIST_DIR}/../sim_scenario/random_run.c"
    "${CMAKE_CURRENT_LIST_DIR}/../sim_scenario/run_support.c")
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_LIST_DIR}/../sim_scenario")
  target_link_libraries(${name} PRIVATE engine_exec sim_scenario)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME prop.${name} COMMAND ${name})
  kc_test_properties(prop.${name} prop "${CMAKE_CURRENT_LIST_DIR}/${name}.c")
endforeach()

# The trace's first minutes in every full run.
add_test(NAME prop.engine_trace_few COMMAND engine_trace --limit 300)
set_tests_properties(prop.engine_trace_few PROPERTIES LABELS "prop;ci" TIMEOUT 300
  SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")

# A few of them in the quick run as well.
add_test(NAME prop.engine_decisions_few COMMAND engine_decisions --runs 20)
set_tests_properties(prop.engine_decisions_few PROPERTIES LABELS prop TIMEOUT 120
  ENVIRONMENT "${test_environment}")

add_test(NAME prop.engine_faults_few COMMAND engine_faults --runs 20)
set_tests_properties(prop.engine_faults_few PROPERTIES LABELS prop TIMEOUT 120
  ENVIRONMENT "${test_environment}")
add_test(NAME prop.engine_faults_long COMMAND engine_faults --runs 1000 --steps 1000000)
set_tests_properties(prop.engine_faults_long PROPERTIES LABELS "prop;soak" TIMEOUT 7200
  ENVIRONMENT "${test_environment}")

# A device, emulated: the module is opened, so nothing of it is linked.
if(KC_EMU_FOUND)
  set(unit "${CMAKE_CURRENT_LIST_DIR}/../../unit/engine_exec")
  add_executable(engine_emulated "${CMAKE_CURRENT_LIST_DIR}/engine_emulated.c"
    "${unit}/tiny_models.c" "${unit}/naive_model.c")
  target_include_directories(engine_emulated PRIVATE "${unit}")
  target_link_libraries(engine_emulated PRIVATE engine_exec cmocka)
  set_target_properties(engine_emulated PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_dependencies(engine_emulated kvcap_emu)
  add_test(NAME prop.engine_emulated COMMAND engine_emulated)
  kc_test_properties(prop.engine_emulated prop "${CMAKE_CURRENT_LIST_DIR}/engine_emulated.c")

  add_test(NAME prop.engine_faults_emulated COMMAND engine_faults --runs 30 --requests 6
    --module "$<TARGET_FILE:kvcap_emu>")
  set_tests_properties(prop.engine_faults_emulated PROPERTIES LABELS "prop;ci" TIMEOUT 600
    ENVIRONMENT "${test_environment}")
  add_test(NAME prop.engine_decisions_emulated COMMAND engine_decisions --runs 40 --requests 12
    --module "$<TARGET_FILE:kvcap_emu>")
  set_tests_properties(prop.engine_decisions_emulated PROPERTIES LABELS "prop;soak" TIMEOUT 1800
    ENVIRONMENT "${test_environment}")
  add_dependencies(engine_faults kvcap_emu)
  add_dependencies(engine_decisions kvcap_emu)
endif()
