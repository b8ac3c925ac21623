#include "tools/tsr-run/Tensor.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace runner {

const char *typeName(int32_t elementType) {
  static const char *const names[] = {
      "undefined",      "float32",    "uint8",
      "int8",           "uint16",     "int16",
      "int32",          "int64",      "string",
      "bool",           "float16",    "float64",
      "uint32",         "uint64",     "complex64",
      "complex128",     "bfloat16",   "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
      "uint4",          "int4",       "float4e2m1",
      "float8e8m0",     "uint2",      "int2"};
  bool known =
      elementType > 0 && size_t(elementType) < sizeof(names) / sizeof(*names);
  return known ? names[elementType] : names[0];
}

unsigned bitsOf(int32_t elementType) {
  switch (elementType) {
  case kFloat:
  case kInt32:
  case kUint32:
    return 32;
  case kUint8:
  case kInt8:
  case kBool:
  case kFloat8e4m3fn:
  case kFloat8e4m3fnuz:
  case kFloat8e5m2:
  case kFloat8e5m2fnuz:
  case kFloat8e8m0:
    return 8;
  case kUint16:
  case kInt16:
  case kFloat16:
  case kBfloat16:
    return 16;
  case kInt64:
  case kUint64:
  case kDouble:
  case kComplex64:
    return 64;
  case kComplex128:
    return 128;
  case kUint4:
  case kInt4:
  case kFloat4e2m1:
    return 4;
  case kUint2:
  case kInt2:
    return 2;
  default:
    return 0;
  }
}

int64_t elementCount(const std::vector<int64_t> &dims,
                     const std::string &what) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      throw Refused(what + ": negative dimension " + std::to_string(dim));
    empty |= dim == 0;
    if (dim && __builtin_mul_overflow(count, dim, &count))
      throw Refused(what + ": shape " + shapeText(dims) + " is too large");
  }
  if (count > (int64_t(1) << 46))
    throw Refused(what + ": shape " + shapeText(dims) + " is too large");
  return empty ? 0 : count;
}

uint64_t byteCount(int32_t elementType, int64_t elements) {
  return (uint64_t(elements) * bitsOf(elementType) + 7) / 8;
}

std::string shapeText(const std::vector<int64_t> &dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string readFile(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    throw Refused("cannot read '" + path + "': " + std::strerror(errno));
  std::string bytes;
  char block[65536];
  size_t got;
  while ((got = std::fread(block, 1, sizeof(block), file)) > 0)
    bytes.append(block, got);
  bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed)
    throw Refused("cannot read '" + path + "'");
  return bytes;
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  bool good =
      file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  good &= file && std::fclose(file) == 0;
  if (!good)
    throw Refused("cannot write '" + path + "': " + std::strerror(errno));
}

Tensor readTensor(const std::string &path) {
  std::string bytes = readFile(path);
  if (bytes.compare(0, 6, "\x93NUMPY") == 0)
    return parseNpy(bytes, path);
  return parseTensorProto(bytes, path);
}

} // namespace runner
