# The CUDA kernels, twice.
#
#   kernels_emu    compiled for the CPU as C++ with KC_EMU, over the emulator; for tests only. Built
#                  where there is a C++ compiler.
#   kernels_cuda   compiled by nvcc for sm_90 (files named *_sm90a.cu: for sm_90a, optional
#                  kernels with wgmma and TMA). Built where there is nvcc.
#   kvcap_emu      the emulator as a module, for tests of what drives a device.
#   kvcap_cuda     the module that `kvcap engine` opens on demand; the program links no CUDA.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

file(GLOB KC_CUDA_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/*.cu")
file(GLOB KC_EMU_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/kernels/emu/*.c")
file(GLOB KC_CUDA_HOST_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/*.c")
set(KC_SM90A_SOURCES ${KC_CUDA_SOURCES})
list(FILTER KC_SM90A_SOURCES INCLUDE REGEX "_sm90a\\.cu$")
# Files with host calls of CUDA (streams, cuBLASLt) have no emulated twin.
set(KC_BOTH_SOURCES ${KC_CUDA_SOURCES})
list(FILTER KC_BOTH_SOURCES EXCLUDE REGEX "(_sm90a|_device)\\.cu$")
set(KC_GPU_SOURCES ${KC_CUDA_SOURCES})
list(FILTER KC_GPU_SOURCES EXCLUDE REGEX "_sm90a\\.cu$")

# A file can have one language in a folder, so the C++ build goes through one-line wrappers.
set(KC_EMU_FOUND OFF)
if(CMAKE_CXX_COMPILER AND KC_BOTH_SOURCES AND KC_EMU_SOURCES)
  set(KC_EMU_FOUND ON)
  set(wrappers "")
  foreach(source IN LISTS KC_BOTH_SOURCES)
    get_filename_component(name "${source}" NAME_WE)
    set(wrapper "${CMAKE_CURRENT_BINARY_DIR}/emu/${name}.cc")
    file(CONFIGURE OUTPUT "${wrapper}" CONTENT "#include \"kernels/cuda/${name}.cu\"\n")
    list(APPEND wrappers "${wrapper}")
  endforeach()
  add_library(kernels_emu STATIC ${KC_EMU_SOURCES} ${KC_CUDA_HOST_SOURCES} ${wrappers})
  target_link_libraries(kernels_emu PUBLIC kernels_ref engine_base)
  target_compile_definitions(kernels_emu PRIVATE KC_EMU)
  # Unoptimised, an emulated product takes five times as long, and nothing is easier to find.
  target_compile_options(kernels_emu PRIVATE $<$<CONFIG:Debug>:-O1>)
  set_target_properties(kernels_emu kernels_formats kernels_ops kernels_ref PROPERTIES
    POSITION_INDEPENDENT_CODE ON)
  # Whole: nothing in the module calls kernels_emu; the program asks for its one symbol.
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/emu/module.c" CONTENT
    "/* The module consists of the library below. */\ntypedef int kc_emu_module_is_linked;\n")
  add_library(kvcap_emu MODULE "${CMAKE_CURRENT_BINARY_DIR}/emu/module.c")
  set_target_properties(kvcap_emu PROPERTIES PREFIX "" LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(kvcap_emu PRIVATE -Wl,--whole-archive kernels_emu -Wl,--no-whole-archive)
endif()

set(KC_CUDA_FOUND OFF)
if(KC_CUDA AND KC_CUDA_SOURCES AND CMAKE_CXX_COMPILER)
  find_program(KC_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(KC_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${KC_NVCC}")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit)
    set(KC_CUDA_FOUND ON)
  endif()
endif()

function(kc_cuda_objects target architecture)
  add_library(${target} OBJECT ${ARGN})
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES ${architecture}
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE -Xcompiler=-Wall,-Wextra)
  if(KC_WARNINGS)
    target_compile_options(${target} PRIVATE -Werror=all-warnings)
  endif()
endfunction()

if(KC_CUDA_FOUND)
  set_target_properties(kernels_formats kernels_ops PROPERTIES POSITION_INDEPENDENT_CODE ON)
  kc_cuda_objects(kernels_cuda 90 ${KC_GPU_SOURCES})
  set(objects $<TARGET_OBJECTS:kernels_cuda>)
  if(KC_SM90A_SOURCES)
    kc_cuda_objects(kernels_cuda_sm90a 90a ${KC_SM90A_SOURCES})
    list(APPEND objects $<TARGET_OBJECTS:kernels_cuda_sm90a>)
  endif()
  add_library(kvcap_cuda MODULE ${objects} ${KC_CUDA_HOST_SOURCES})
  set_target_properties(kvcap_cuda PROPERTIES PREFIX "" LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  target_link_libraries(kvcap_cuda PRIVATE kc_flags kernels_ops CUDA::cudart_static)
  if(TARGET CUDA::cublasLt)
    target_link_libraries(kvcap_cuda PRIVATE CUDA::cublasLt)
  endif()
  install(TARGETS kvcap_cuda LIBRARY DESTINATION lib/kvcap)
endif()
