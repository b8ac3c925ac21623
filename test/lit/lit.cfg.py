"""Tests by FileCheck. A test is a .mlir, .onnxtxt (ONNX's text form) or .test file with RUN lines.

Features that a test may REQUIRE: qemu-aarch64 (an emulator that knows SME2), x86-v3, x86-v4 (of this machine).
"""
import os
import shutil

import lit.formats
from lit.llvm import llvm_config

config.name = "tessera"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".onnxtxt", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.tessera_test_root

llvm_config.with_system_environment(["HOME", "TMPDIR", "TESSERA_CACHE", "ASAN_OPTIONS"])
llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)  # not, split-file
tools = [t for t in ("tessera", "tessera-opt", "tsr-run") if os.path.exists(os.path.join(config.tessera_bin_dir, t))]
# Longest first: "tessera" is a prefix of the others.
llvm_config.add_tool_substitutions(sorted(tools, key=len, reverse=True), [config.tessera_bin_dir, config.llvm_tools_dir])
config.substitutions.append(("%src", config.tessera_src_root))
config.substitutions.append(("%python", config.python))

if shutil.which("qemu-aarch64"):
    config.available_features.add("qemu-aarch64")
with open("/proc/cpuinfo") as f:
    flags = set(next((line.split(":")[1].split() for line in f if line.startswith("flags")), []))
if {"avx2", "fma"} <= flags:
    config.available_features.add("x86-v3")
if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= flags:
    config.available_features.add("x86-v4")
