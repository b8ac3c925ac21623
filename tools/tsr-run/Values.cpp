#include "tools/tsr-run/Values.h"

#include "tools/tsr-run/Wire.h"

#include <algorithm>
#include <cstring>

namespace runner {
namespace {

//===-- Characters ------------------------------------------------------------===//

/// Padded, strings of very different lengths are far larger than their file.
constexpr int64_t kMostCharacters = int64_t(1) << 30;

/// Refuses what is no character, and 0, which is padding.
void checkCharacter(uint32_t point, const std::string &path) {
  if (point == 0)
    throw Refused("'" + path + "': a string with the character 0 is not supported");
  if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
    throw Refused("'" + path + "': " + std::to_string(point) + " is no code point of Unicode's characters");
}

std::vector<int32_t> codePoints(const std::string &text, const std::string &path) {
  std::vector<int32_t> out;
  auto bad = [&]() -> Refused { return Refused("'" + path + "': a string is not UTF-8"); };
  for (size_t i = 0; i < text.size();) {
    uint8_t lead = uint8_t(text[i]);
    unsigned more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : 4;
    if (more == 4 || i + more >= text.size())
      throw bad();
    uint32_t point = more ? lead & (63u >> more) : lead;
    for (unsigned k = 1; k <= more; ++k) {
      uint8_t next = uint8_t(text[i + k]);
      if (next >> 6 != 2)
        throw bad();
      point = point << 6 | (next & 63);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (point < least[more])
      throw bad();
    checkCharacter(point, path);
    out.push_back(int32_t(point));
    i += more + 1;
  }
  return out;
}

std::string utf8(const int32_t *points, int64_t width) {
  std::string out;
  while (width > 0 && points[width - 1] == 0)
    --width;
  for (int64_t i = 0; i < width; ++i) {
    uint32_t p = uint32_t(points[i]);
    if (p < 0x80) {
      out += char(p);
    } else if (p < 0x800) {
      out += char(0xc0 | p >> 6);
      out += char(0x80 | (p & 63));
    } else if (p < 0x10000) {
      out += char(0xe0 | p >> 12);
      out += char(0x80 | (p >> 6 & 63));
      out += char(0x80 | (p & 63));
    } else {
      out += char(0xf0 | (p >> 18 & 7));
      out += char(0x80 | (p >> 12 & 63));
      out += char(0x80 | (p >> 6 & 63));
      out += char(0x80 | (p & 63));
    }
  }
  return out;
}

Tensor charsOf(const std::vector<std::string> &strings, std::vector<int64_t> dims, const std::string &path) {
  std::vector<std::vector<int32_t>> all;
  size_t width = 0;
  for (const std::string &s : strings) {
    all.push_back(codePoints(s, path));
    width = std::max(width, all.back().size());
  }
  Tensor out;
  out.elementType = kInt32;
  dims.push_back(int64_t(width));
  int64_t characters = elementCount(dims, "'" + path + "'");
  if (characters > kMostCharacters)
    throw Refused("'" + path + "': " + std::to_string(all.size()) + " strings padded to " + std::to_string(width) +
                  " characters, needed: at most " + std::to_string(kMostCharacters) + " characters in all");
  out.dims = std::move(dims);
  out.data.resize(byteCount(kInt32, characters));
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty())
      std::memcpy(&out.data[i * width * 4], all[i].data(), all[i].size() * 4);
  return out;
}

/// Zeros behind the characters of a string only.
Tensor checkedChars(Tensor chars, const std::string &path) {
  size_t width = size_t(chars.dims.back());
  std::vector<uint32_t> row(width);
  for (size_t at = 0; at < chars.data.size(); at += width * 4) {
    std::memcpy(row.data(), &chars.data[at], width * 4);
    size_t length = width;
    while (length && !row[length - 1])
      --length;
    for (size_t i = 0; i < length; ++i)
      checkCharacter(row[i], path);
  }
  return chars;
}

//===-- Reading ---------------------------------------------------------------===//

Tensor tensorOf(const std::string &bytes, bool strings, const std::string &path) {
  if (!strings)
    return parseTensorProto(bytes, path);
  std::vector<int64_t> dims;
  std::vector<std::string> list = parseStrings(bytes, dims, path);
  return charsOf(list, dims, path);
}

/// Elements in a row and their extents.
std::vector<Tensor> sequenceOf(const std::string &bytes, const Group &group, int32_t elementType, int64_t rank,
                               const std::string &path) {
  std::vector<Tensor> list;
  std::vector<std::string> strings;
  for (const WireField &f : fieldsOf(bytes, path)) {
    if (f.number == 2 && f.value > 1)
      throw Refused("'" + path + "': a sequence of what is no tensor");
    if (f.number != 3)
      continue;
    Tensor t;
    if (group.strings) {
      std::vector<std::string> some = parseStrings(f.bytes, t.dims, path);
      strings.insert(strings.end(), some.begin(), some.end());
    } else {
      t = parseTensorProto(f.bytes, path);
      if (t.elementType != elementType)
        throw Refused("'" + path + "': a sequence of " + typeName(t.elementType) + ", needed: " + typeName(elementType));
    }
    list.push_back(std::move(t));
  }
  if (rank < 0) {
    rank = list.empty() ? 1 : 0;
    for (const Tensor &t : list)
      rank = std::max(rank, int64_t(t.dims.size()));
  }
  Tensor elements, extents;
  elements.elementType = elementType;
  extents.elementType = kInt64;
  extents.dims = {int64_t(list.size()), rank};
  int64_t total = 0;
  for (const Tensor &t : list) {
    if (int64_t(t.dims.size()) > rank)
      throw Refused("'" + path + "': a tensor of rank " + std::to_string(t.dims.size()) +
                    " in a sequence, needed: at most " + std::to_string(rank));
    total += elementCount(t.dims, "'" + path + "'");
    elements.data.insert(elements.data.end(), t.data.begin(), t.data.end());
    std::vector<int64_t> row(size_t(rank) - t.dims.size(), -1); // missing axes
    row.insert(row.end(), t.dims.begin(), t.dims.end());
    auto *raw = reinterpret_cast<const uint8_t *>(row.data());
    extents.data.insert(extents.data.end(), raw, raw + row.size() * 8);
  }
  elements.dims = {total};
  if (group.strings)
    elements = charsOf(strings, {total}, path);
  return {elements, extents};
}

Tensor truth(bool value) {
  Tensor t;
  t.elementType = kBool;
  t.data = {uint8_t(value)};
  return t;
}

Tensor nothing(int32_t elementType, std::vector<int64_t> dims) {
  Tensor t;
  t.elementType = elementType;
  for (int64_t &d : dims)
    d = std::max<int64_t>(d, 0);
  t.data.resize(byteCount(elementType, elementCount(dims, "an absent value")));
  t.dims = std::move(dims);
  return t;
}

//===-- Writing ---------------------------------------------------------------===//

std::vector<int64_t> dimsOf(const tsr_tensor_t &t) { return {t.dims, t.dims + t.rank}; }

std::string formatTensor(const tsr_tensor_t &t, bool strings, const std::string &name) {
  std::vector<int64_t> dims = dimsOf(t);
  if (!strings)
    return formatTensorProto(t.element_type, dims, name, t.data, t.bytes);
  int64_t width = dims.back();
  dims.pop_back();
  std::vector<std::string> list;
  for (int64_t i = 0, n = elementCount(dims, name); i < n; ++i)
    list.push_back(utf8(static_cast<const int32_t *>(t.data) + i * width, width));
  return formatStrings(dims, name, list);
}

std::string formatSequence(const tsr_tensor_t &elements, const tsr_tensor_t &extents, bool strings,
                           const std::string &name) {
  std::string out;
  putBytes(out, 1, name);
  putNumber(out, 2, 1); // elem_type: tensors
  int64_t n = extents.dims[0], rank = extents.dims[1], width = strings ? elements.dims[1] : 0;
  auto *rows = static_cast<const int64_t *>(extents.data);
  auto *data = static_cast<const uint8_t *>(elements.data);
  uint64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<int64_t> dims(rows + i * rank, rows + (i + 1) * rank);
    while (!dims.empty() && dims.front() == -1) // an axis that it lacks
      dims.erase(dims.begin());
    if (strings)
      dims.push_back(width);
    uint64_t size = byteCount(elements.element_type, elementCount(dims, name));
    if (size > elements.bytes - at)
      throw Refused("output '" + name + "': its extents do not fit its elements");
    tsr_tensor_t part = elements;
    part.data = const_cast<uint8_t *>(data + at);
    part.dims = dims.data();
    part.rank = uint32_t(dims.size());
    part.bytes = size;
    putBytes(out, 3, formatTensor(part, strings, ""));
    at += size;
  }
  return out;
}

} // namespace

std::vector<Group> groupsOf(uint32_t count, const std::function<tsr_tensor_info_t(uint32_t)> &info) {
  std::vector<Group> out;
  for (uint32_t i = 0; i < count;) {
    Group g;
    g.first = i;
    if (info(i).kind == TSR_PART_PRESENT && i + 1 < count) {
      g.optional = true;
      ++i;
    }
    uint8_t kind = info(i).kind;
    g.strings = kind == TSR_PART_STRINGS || kind == TSR_PART_STRING_ELEMENTS;
    if ((kind == TSR_PART_ELEMENTS || kind == TSR_PART_STRING_ELEMENTS) && i + 1 < count) {
      g.sequence = true;
      ++i;
    }
    ++i;
    g.count = i - g.first;
    out.push_back(g);
  }
  return out;
}

std::vector<Tensor> readGroup(const Group &group, const std::string &path,
                              const std::function<tsr_tensor_info_t(uint32_t)> &info,
                              const std::function<std::vector<int64_t>(uint32_t)> &dims) {
  if (group.plain())
    return {readTensor(path)};
  std::string bytes = readFile(path);
  std::vector<Tensor> out;
  uint32_t value = group.first + group.optional;
  bool npy = bytes.compare(0, 6, "\x93NUMPY") == 0;
  if (group.optional && npy) { // a tensor stands for itself
    out.push_back(truth(true));
  } else if (group.optional) {
    bool present = false;
    for (const WireField &f : fieldsOf(bytes, path))
      if (f.number == (group.sequence ? 5u : 3u)) {
        std::string inner = f.bytes;
        bytes = inner;
        present = true;
        break;
      } else if (f.number >= 3) {
        throw Refused("'" + path + "': the optional holds another kind of value than the model declares");
      }
    out.push_back(truth(present));
    if (!present) {
      for (uint32_t i = value; i < group.first + group.count; ++i)
        out.push_back(nothing(info(i).element_type, dims(i)));
      return out;
    }
  }
  if (group.sequence) {
    if (npy)
      throw Refused("'" + path + "': a sequence is given as a SequenceProto");
    std::vector<int64_t> extents = dims(value + 1);
    for (Tensor &t : sequenceOf(bytes, group, info(value).element_type, extents.back(), path))
      out.push_back(std::move(t));
  } else if (npy) {
    out.push_back(group.strings ? checkedChars(parseStringsNpy(bytes, path), path) : parseNpy(bytes, path));
  } else {
    out.push_back(tensorOf(bytes, group.strings, path));
  }
  return out;
}

std::string formatGroup(const Group &group, const std::vector<tsr_tensor_t> &parts, const std::string &name) {
  uint32_t value = group.optional;
  bool present = !group.optional || *static_cast<const uint8_t *>(parts[0].data);
  std::string inner;
  if (present && group.sequence)
    inner = formatSequence(parts[value], parts[value + 1], group.strings, group.optional ? "" : name);
  else if (present)
    inner = formatTensor(parts[value], group.strings, group.optional ? "" : name);
  if (!group.optional)
    return inner;
  std::string out;
  putBytes(out, 1, name);
  putNumber(out, 2, !present ? 0 : group.sequence ? 3 : 1); // elem_type
  if (present)
    putBytes(out, group.sequence ? 5 : 3, inner);
  return out;
}

std::string formatStringsNpy(const tsr_tensor_t &chars) {
  std::vector<int64_t> dims = dimsOf(chars);
  int64_t width = dims.back();
  dims.pop_back();
  if (width > 0)
    return formatNpyAs("<U" + std::to_string(width), dims, chars.data, chars.bytes);
  std::vector<uint8_t> empty(size_t(elementCount(dims, "strings")) * 4); // numpy has no <U0
  return formatNpyAs("<U1", dims, empty.data(), empty.size());
}

} // namespace runner
