# Compiler flags, third-party packages and the one precompiled header.
#
# All compiler code is built with one flag set: a precompiled header is refused
# by clang as soon as -fPIC, -std or the exception mode differ between targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHASSERT "-O1")
set(CMAKE_C_FLAGS_RELWITHASSERT "-O1")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
option(TESSERA_SANITIZE "Address and undefined-behaviour sanitizers" OFF)

# The ONNX C++ library is built once into a prefix by tools/setup.
if(DEFINED ENV{TESSERA_PREFIX})
  set(TESSERA_PREFIX "$ENV{TESSERA_PREFIX}" CACHE PATH "Prefix of the ONNX library")
else()
  set(TESSERA_PREFIX "$ENV{HOME}/.cache/tessera/prefix" CACHE PATH "Prefix of the ONNX library")
endif()
list(PREPEND CMAKE_PREFIX_PATH "${TESSERA_PREFIX}" "/usr/lib/llvm-22")

find_program(CCACHE ccache)
if(CCACHE)
  set(launcher "${CMAKE_COMMAND};-E;env"
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "CCACHE_NOHASHDIR=1" "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" "${CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
endif()

find_package(MLIR 22.1 REQUIRED CONFIG)
find_package(LLD 22.1 REQUIRED CONFIG HINTS "${LLVM_DIR}/../lld")
find_package(Protobuf REQUIRED)
find_package(ONNX 1.23 REQUIRED CONFIG)
find_package(Catch2 3 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(FLATC flatc REQUIRED)

add_compile_options(-fPIC -Wall -Wextra -Wno-unused-parameter
  -Werror=return-type -Werror=switch)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  add_link_options(-fuse-ld=lld)
endif()
if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr)
endif()
include_directories("${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

# tablegen() needs these from LLVM's own build system.
set(LLVM_RUNTIME_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/lib")
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Third-party headers only: a project header here would rebuild the world.
add_library(tessera_pch OBJECT "${CMAKE_SOURCE_DIR}/tools/cmake/Pch.cpp")
target_precompile_headers(tessera_pch PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/tools/cmake/Pch.h>")
