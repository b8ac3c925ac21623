// ONNX's TensorProto in protobuf wire format, read and written by hand so that
// the program needs no protobuf.
#include "tools/tsr-run/Tensor.h"
#include "tools/tsr-run/Wire.h"

#include <cstring>

namespace runner {
namespace {

/// A bounded reader of one message.
class Wire {
public:
  Wire(const char *begin, const char *end, const std::string &path)
      : at(reinterpret_cast<const uint8_t *>(begin)),
        end(reinterpret_cast<const uint8_t *>(end)), path(path) {}

  bool atEnd() const { return at == end; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at == end)
        fail();
      uint8_t byte = *at++;
      value |= uint64_t(byte & 127) << shift;
      if (!(byte & 128))
        return value;
    }
    fail();
  }
  Wire bytes() {
    uint64_t size = varint();
    if (size > uint64_t(end - at))
      fail();
    auto *begin = reinterpret_cast<const char *>(at);
    at += size;
    return {begin, begin + size, path};
  }
  template <typename T> T fixed() {
    if (uint64_t(end - at) < sizeof(T))
      fail();
    T value;
    std::memcpy(&value, at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  void skip(unsigned wireType) {
    switch (wireType) {
    case 0:
      varint();
      return;
    case 1:
      fixed<uint64_t>();
      return;
    case 2:
      bytes();
      return;
    case 5:
      fixed<uint32_t>();
      return;
    }
    fail();
  }
  [[noreturn]] void fail() const {
    throw Refused("'" + path + "' is neither a .npy file nor a TensorProto");
  }
  const uint8_t *data() const { return at; }
  size_t size() const { return size_t(end - at); }

private:
  const uint8_t *at, *end;
  const std::string &path;
};

/// A repeated number field: packed or one by one.
template <typename T, typename Read>
void repeated(Wire &wire, unsigned wireType, std::vector<T> &to, Read read) {
  if (wireType != 2) {
    to.push_back(read(wire));
    return;
  }
  Wire packed = wire.bytes();
  while (!packed.atEnd())
    to.push_back(read(packed));
}

template <typename T> void append(std::vector<uint8_t> &to, T value) {
  size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(&to[at], &value, sizeof(T));
}

/// Elements from the typed fields, by the rules of onnx.proto.
struct TypedFields {
  std::vector<float> floats;
  std::vector<int64_t> int32s, int64s;
  std::vector<double> doubles;
  std::vector<uint64_t> uint64s;

  std::vector<uint8_t> gather(int32_t type) const {
    std::vector<uint8_t> out;
    switch (type) {
    case kFloat:
    case kComplex64:
      for (float value : floats)
        append(out, value);
      break;
    case kDouble:
    case kComplex128:
      for (double value : doubles)
        append(out, value);
      break;
    case kInt64:
      for (int64_t value : int64s)
        append(out, value);
      break;
    case kUint64:
      for (uint64_t value : uint64s)
        append(out, value);
      break;
    case kUint32:
      for (uint64_t value : uint64s)
        append(out, uint32_t(value));
      break;
    case kInt32:
      for (int64_t value : int32s)
        append(out, int32_t(value));
      break;
    case kUint16:
    case kInt16:
    case kFloat16:
    case kBfloat16:
      for (int64_t value : int32s)
        append(out, uint16_t(value));
      break;
    default: // a byte each; of the types under a byte one packed byte each
      for (int64_t value : int32s)
        out.push_back(uint8_t(value));
    }
    return out;
  }
};

void putVarint(std::string &out, uint64_t value) {
  while (value > 127) {
    out += char(value | 128);
    value >>= 7;
  }
  out += char(value);
}

} // namespace

Tensor parseTensorProto(const std::string &bytes, const std::string &path) {
  Wire wire(bytes.data(), bytes.data() + bytes.size(), path);
  Tensor tensor;
  TypedFields typed;
  bool hasRaw = false, external = false;
  while (!wire.atEnd()) {
    uint64_t tag = wire.varint();
    unsigned wireType = tag & 7;
    switch (tag >> 3) {
    case 1:
      repeated(wire, wireType, tensor.dims,
               [](Wire &w) { return int64_t(w.varint()); });
      break;
    case 2:
      if (wireType != 0)
        wire.fail();
      tensor.elementType = int32_t(wire.varint());
      break;
    case 4:
      repeated(wire, wireType, typed.floats,
               [](Wire &w) { return w.fixed<float>(); });
      break;
    case 5:
      repeated(wire, wireType, typed.int32s,
               [](Wire &w) { return int64_t(w.varint()); });
      break;
    case 7:
      repeated(wire, wireType, typed.int64s,
               [](Wire &w) { return int64_t(w.varint()); });
      break;
    case 9: {
      if (wireType != 2)
        wire.fail();
      Wire raw = wire.bytes();
      tensor.data.assign(raw.data(), raw.data() + raw.size());
      hasRaw = true;
      break;
    }
    case 10:
      repeated(wire, wireType, typed.doubles,
               [](Wire &w) { return w.fixed<double>(); });
      break;
    case 11:
      repeated(wire, wireType, typed.uint64s,
               [](Wire &w) { return w.varint(); });
      break;
    case 14:
      external |= wire.varint() != 0;
      break;
    default:
      wire.skip(wireType);
    }
  }
  if (external)
    throw Refused("'" + path + "': a tensor with external data is no input");
  if (!bitsOf(tensor.elementType))
    throw Refused("'" + path + "': tensors of type " +
                  typeName(tensor.elementType) + " are not supported");
  int64_t count = elementCount(tensor.dims, "'" + path + "'");
  if (!hasRaw)
    tensor.data = typed.gather(tensor.elementType);
  uint64_t needed = byteCount(tensor.elementType, count);
  if (tensor.data.size() != needed)
    throw Refused("'" + path + "': " + std::to_string(tensor.data.size()) +
                  " bytes of elements, needed: " + std::to_string(needed) +
                  " for " + typeName(tensor.elementType) +
                  shapeText(tensor.dims));
  return tensor;
}

std::vector<WireField> fieldsOf(const std::string &bytes,
                                const std::string &path) {
  Wire wire(bytes.data(), bytes.data() + bytes.size(), path);
  std::vector<WireField> out;
  while (!wire.atEnd()) {
    uint64_t tag = wire.varint();
    WireField field;
    field.number = unsigned(tag >> 3);
    if ((tag & 7) == 0) {
      field.value = wire.varint();
    } else if ((tag & 7) == 2) {
      Wire inner = wire.bytes();
      field.bytes.assign(reinterpret_cast<const char *>(inner.data()),
                         inner.size());
    } else {
      wire.skip(tag & 7);
    }
    out.push_back(std::move(field));
  }
  return out;
}

void putNumber(std::string &out, unsigned field, uint64_t value) {
  putVarint(out, uint64_t(field) << 3);
  putVarint(out, value);
}

void putBytes(std::string &out, unsigned field, const std::string &bytes) {
  putVarint(out, uint64_t(field) << 3 | 2);
  putVarint(out, bytes.size());
  out += bytes;
}

std::vector<std::string> parseStrings(const std::string &bytes,
                                      std::vector<int64_t> &dims,
                                      const std::string &path) {
  Wire wire(bytes.data(), bytes.data() + bytes.size(), path);
  std::vector<std::string> strings;
  int32_t type = 0;
  while (!wire.atEnd()) {
    uint64_t tag = wire.varint();
    unsigned wireType = tag & 7;
    switch (tag >> 3) {
    case 1:
      repeated(wire, wireType, dims,
               [](Wire &w) { return int64_t(w.varint()); });
      break;
    case 2:
      if (wireType != 0)
        wire.fail();
      type = int32_t(wire.varint());
      break;
    case 6: {
      if (wireType != 2)
        wire.fail();
      Wire text = wire.bytes();
      strings.emplace_back(reinterpret_cast<const char *>(text.data()),
                           text.size());
      break;
    }
    default:
      wire.skip(wireType);
    }
  }
  if (type != kString)
    throw Refused("'" + path + "': type " + typeName(type) +
                  ", needed: string; convert the data");
  if (elementCount(dims, "'" + path + "'") != int64_t(strings.size()))
    throw Refused("'" + path + "': " + std::to_string(strings.size()) +
                  " strings for shape " + shapeText(dims));
  return strings;
}

std::string formatStrings(const std::vector<int64_t> &dims,
                          const std::string &name,
                          const std::vector<std::string> &strings) {
  std::string out;
  for (int64_t dim : dims)
    putNumber(out, 1, uint64_t(dim));
  putNumber(out, 2, kString);
  for (const std::string &s : strings)
    putBytes(out, 6, s);
  putBytes(out, 8, name);
  return out;
}

std::string formatTensorProto(int32_t elementType,
                              const std::vector<int64_t> &dims,
                              const std::string &name, const void *data,
                              uint64_t size) {
  std::string out;
  for (int64_t dim : dims) {
    out += '\x08'; // dims
    putVarint(out, uint64_t(dim));
  }
  out += '\x10'; // data_type
  putVarint(out, uint64_t(elementType));
  out += '\x42'; // name
  putVarint(out, name.size());
  out += name;
  out += '\x4a'; // raw_data
  putVarint(out, size);
  if (size)
    out.append(static_cast<const char *>(data), size);
  return out;
}

} // namespace runner
