# The macro layer: one shared library for all compiler code, tools on top.

# Adds every .cpp below the calling folder (minus EXCLUDE patterns) to the
# compiler library. Folders with their own CMakeLists call it themselves.
#   tessera_compiler_sources([RECURSE] [EXCLUDE regex] [NO_PCH])
function(tessera_compiler_sources)
  cmake_parse_arguments(A "RECURSE;NO_PCH" "EXCLUDE" "LINK;DEPENDS;OPTIONS" ${ARGN})
  if(A_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  else()
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  endif()
  if(A_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${A_EXCLUDE}")
  endif()
  list(APPEND sources ${A_UNPARSED_ARGUMENTS})
  if(NOT sources)
    return()
  endif()
  file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REPLACE "/" "_" name "obj_${name}")
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE ONNX::onnx ${A_LINK})
  target_compile_options(${name} PRIVATE ${A_OPTIONS})
  if(NOT A_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM tessera_pch)
  endif()
  # Generated headers come first.
  set_property(GLOBAL APPEND PROPERTY TESSERA_OBJECTS ${name})
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
endfunction()

# Names a target that makes generated headers; all compiler objects wait for it.
function(tessera_generated_headers)
  set_property(GLOBAL APPEND PROPERTY TESSERA_HEADERS ${ARGN})
endfunction()

# mlir-tblgen in the calling folder: tessera_tablegen(TARGET TD OUT ARGS...)...
macro(tessera_tablegen td out)
  set(LLVM_TARGET_DEFINITIONS "${td}")
  mlir_tablegen("${out}" ${ARGN} EXTRA_INCLUDES "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
endmacro()

# A program over the compiler library.
function(tessera_tool name)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE tessera_compiler MLIR LLVM CLI11::CLI11
    nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} REUSE_FROM tessera_pch)
  set_target_properties(${name} PROPERTIES BUILD_RPATH "${CMAKE_BINARY_DIR}/lib;/usr/lib/llvm-22/lib"
    INSTALL_RPATH "$ORIGIN/../lib;/usr/lib/llvm-22/lib")
endfunction()

# Called last: the library itself.
function(tessera_compiler_library)
  get_property(objects GLOBAL PROPERTY TESSERA_OBJECTS)
  get_property(headers GLOBAL PROPERTY TESSERA_HEADERS)
  get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES)
  set(files)
  foreach(o IN LISTS objects)
    list(APPEND files "$<TARGET_OBJECTS:${o}>")
    if(headers)
      add_dependencies(${o} ${headers})
    endif()
  endforeach()
  add_library(tessera_compiler SHARED ${files} "${CMAKE_SOURCE_DIR}/tools/cmake/Pch.cpp")
  set_target_properties(tessera_compiler PROPERTIES OUTPUT_NAME tessera LINKER_LANGUAGE CXX
    BUILD_RPATH "/usr/lib/llvm-22/lib" INSTALL_RPATH "/usr/lib/llvm-22/lib")
  target_link_libraries(tessera_compiler PRIVATE lldELF lldCommon MLIR LLVM ONNX::onnx
    nlohmann_json::nlohmann_json ${libraries})
  # What caches tell builds apart by (compiler/Driver/BuildId.h).
  target_link_options(tessera_compiler PRIVATE LINKER:--build-id=fast)
  if(headers)
    add_dependencies(tessera_compiler ${headers})
  endif()
endfunction()
