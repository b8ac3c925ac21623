// numpy's .npy: magic, version, a Python dict literal, raw elements.
#include "tools/tsr-run/Tensor.h"

#include <cstdio>
#include <cstring>

namespace runner {
namespace {

struct NpyType {
  int32_t elementType;
  const char *descr;
};
constexpr NpyType kNpyTypes[] = {
    {kFloat, "<f4"},     {kUint8, "|u1"},      {kInt8, "|i1"},
    {kUint16, "<u2"},    {kInt16, "<i2"},      {kInt32, "<i4"},
    {kInt64, "<i8"},     {kBool, "|b1"},       {kFloat16, "<f2"},
    {kDouble, "<f8"},    {kUint32, "<u4"},     {kUint64, "<u8"},
    {kComplex64, "<c8"}, {kComplex128, "<c16"}};

/// The text after `'key':` in the header.
std::string valueOf(const std::string &header, const char *key,
                    const std::string &path) {
  size_t at = header.find(std::string("'") + key + "'");
  if (at == std::string::npos ||
      (at = header.find(':', at)) == std::string::npos)
    throw Refused("'" + path + "': .npy header lacks " + key);
  at = header.find_first_not_of(" \t", at + 1);
  return at == std::string::npos ? std::string() : header.substr(at);
}

std::vector<int64_t> parseShape(const std::string &text,
                                const std::string &path) {
  std::vector<int64_t> dims;
  if (text.empty() || text[0] != '(')
    throw Refused("'" + path + "': malformed shape in .npy header");
  const char *at = text.c_str() + 1;
  for (;;) {
    while (*at == ' ' || *at == ',')
      ++at;
    if (*at == ')')
      return dims;
    char *end = nullptr;
    long long dim = std::strtoll(at, &end, 10);
    if (end == at || dim < 0)
      throw Refused("'" + path + "': malformed shape in .npy header");
    dims.push_back(dim);
    at = end;
  }
}

/// Column-major elements in row-major order.
std::vector<uint8_t> toRowMajor(const uint8_t *from,
                                const std::vector<int64_t> &dims, size_t width,
                                int64_t count) {
  std::vector<uint8_t> out(size_t(count) * width);
  std::vector<int64_t> index(dims.size(), 0), strides(dims.size(), 1);
  for (size_t axis = 1; axis < dims.size(); ++axis)
    strides[axis] = strides[axis - 1] * dims[axis - 1];
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis)
      source += index[axis] * strides[axis];
    std::memcpy(&out[size_t(i) * width], from + source * width, width);
    for (size_t axis = dims.size(); axis-- > 0 && ++index[axis] == dims[axis];)
      index[axis] = 0;
  }
  return out;
}

} // namespace

static Tensor parseNpyAs(const std::string &bytes, const std::string &path,
                         int64_t *characters);

bool npyKnows(int32_t elementType) {
  for (const NpyType &type : kNpyTypes)
    if (type.elementType == elementType)
      return true;
  return false;
}

Tensor parseStringsNpy(const std::string &bytes, const std::string &path) {
  int64_t width = 0;
  Tensor tensor = parseNpyAs(bytes, path, &width);
  tensor.dims.push_back(width);
  return tensor;
}

Tensor parseNpy(const std::string &bytes, const std::string &path) {
  return parseNpyAs(bytes, path, nullptr);
}

/// `characters`: a unicode array is wanted, and this its width.
static Tensor parseNpyAs(const std::string &bytes, const std::string &path,
                         int64_t *characters) {
  if (bytes.size() < 10)
    throw Refused("'" + path + "': truncated .npy file");
  auto byte = [&](size_t i) { return size_t(uint8_t(bytes[i])); };
  size_t lengthBytes = byte(6) == 1 ? 2 : 4;
  if (byte(6) < 1 || byte(6) > 3 || bytes.size() < 8 + lengthBytes)
    throw Refused("'" + path + "': unknown .npy version");
  size_t length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= byte(8 + i) << (8 * i);
  size_t start = 8 + lengthBytes + length;
  if (start > bytes.size())
    throw Refused("'" + path + "': truncated .npy file");
  std::string header = bytes.substr(8 + lengthBytes, length);

  Tensor tensor;
  std::string descr = valueOf(header, "descr", path);
  size_t quote = descr.size() < 2 ? std::string::npos : descr.find(descr[0], 1);
  if (quote == std::string::npos)
    throw Refused("'" + path + "': this .npy type has no counterpart in ONNX");
  descr = descr.substr(1, quote - 1);
  for (const NpyType &type : kNpyTypes)
    if (descr == type.descr ||
        (descr[0] == '=' && descr.substr(1) == type.descr + 1) ||
        (type.descr[0] == '|' && descr.substr(1) == type.descr + 1))
      tensor.elementType = type.elementType;
  size_t width = bitsOf(tensor.elementType) / 8;
  if (characters) {
    if (descr.compare(0, 2, "<U") != 0)
      throw Refused("'" + path + "': .npy type '" + descr +
                    "', needed: a unicode array");
    *characters = std::strtoll(descr.c_str() + 2, nullptr, 10);
    if (*characters < 0 || *characters > (1 << 24))
      throw Refused("'" + path + "': .npy type '" + descr +
                    "' is not supported");
    tensor.elementType = kInt32;
    width = size_t(*characters) * 4;
  }
  if (!tensor.elementType && (descr == "|V2" || descr == "<V2")) {
    tensor.opaque = true; // bfloat16 as numpy stores it
    tensor.elementType = kBfloat16;
    width = 2;
  } else if (!tensor.elementType && (descr == "|V1" || descr == "<V1")) {
    tensor.opaque = true; // float8
    tensor.elementType = kUint8;
    width = 1;
  }
  if (!tensor.elementType)
    throw Refused("'" + path + "': .npy type '" + descr + "' is not supported");
  tensor.dims = parseShape(valueOf(header, "shape", path), path);
  int64_t count = elementCount(tensor.dims, "'" + path + "'");
  if (characters) { // no product below overflows, and no empty ones are walked
    std::vector<int64_t> all = tensor.dims;
    all.push_back(*characters);
    if (!elementCount(all, "'" + path + "'"))
      count = 0;
  }
  if (uint64_t(count) * width != bytes.size() - start)
    throw Refused("'" + path + "': " + std::to_string(bytes.size() - start) +
                  " bytes of elements, needed: " +
                  std::to_string(uint64_t(count) * width) + " for shape " +
                  shapeText(tensor.dims));
  auto *elements = reinterpret_cast<const uint8_t *>(bytes.data()) + start;
  if (valueOf(header, "fortran_order", path).compare(0, 4, "True") == 0)
    tensor.data = toRowMajor(elements, tensor.dims, width, count);
  else
    tensor.data.assign(elements, elements + uint64_t(count) * width);
  return tensor;
}

std::string formatNpy(int32_t elementType, const std::vector<int64_t> &dims,
                      const void *data, uint64_t size) {
  const char *descr = nullptr;
  for (const NpyType &type : kNpyTypes)
    if (type.elementType == elementType)
      descr = type.descr;
  if (!descr)
    throw Refused(std::string("type ") + typeName(elementType) +
                  " has no .npy form; use --output-format pb");
  return formatNpyAs(descr, dims, data, size);
}

std::string formatNpyAs(const std::string &descr,
                        const std::vector<int64_t> &dims, const void *data,
                        uint64_t size) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : dims)
    header += std::to_string(dim) + (dims.size() == 1 ? "," : ", ");
  if (dims.size() > 1)
    header.resize(header.size() - 2);
  header += "), }";
  while ((10 + header.size() + 1) % 64)
    header += ' ';
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += char(header.size() & 255);
  out += char(header.size() >> 8);
  out += header;
  if (size)
    out.append(static_cast<const char *>(data), size);
  return out;
}

} // namespace runner
