// Protobuf messages field by field, for the messages around tensors.
#ifndef TESSERA_TSR_RUN_WIRE_H
#define TESSERA_TSR_RUN_WIRE_H

#include <cstdint>
#include <string>
#include <vector>

namespace runner {

struct WireField {
  unsigned number = 0;
  uint64_t value = 0; ///< of a varint
  std::string bytes;  ///< of a string or message
};

/// All fields of a message; refuses damaged ones.
std::vector<WireField> fieldsOf(const std::string &bytes, const std::string &path);
void putNumber(std::string &out, unsigned field, uint64_t value);
void putBytes(std::string &out, unsigned field, const std::string &bytes);

/// A TensorProto of strings.
std::vector<std::string> parseStrings(const std::string &bytes, std::vector<int64_t> &dims, const std::string &path);
std::string formatStrings(const std::vector<int64_t> &dims, const std::string &name,
                          const std::vector<std::string> &strings);

} // namespace runner
#endif
