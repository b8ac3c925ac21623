// A tensor value outside the loader: element type by ONNX number, packed bytes.
#ifndef TESSERA_TSR_RUN_TENSOR_H
#define TESSERA_TSR_RUN_TENSOR_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace runner {

/// The model or its data is refused: exit code 1.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The command line makes no sense: exit code 2.
struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// ONNX TensorProto.DataType.
enum ElementType : int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8e4m3fn = 17,
  kFloat8e4m3fnuz = 18,
  kFloat8e5m2 = 19,
  kFloat8e5m2fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4e2m1 = 23,
  kFloat8e8m0 = 24,
  kUint2 = 25,
  kInt2 = 26
};

const char *typeName(int32_t elementType);

/// 0 for types this program cannot hold.
unsigned bitsOf(int32_t elementType);

struct Tensor {
  int32_t elementType = 0;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data; ///< types under a byte are packed, low bits first
  /// The element type is only known by its width (numpy's raw "V" types).
  bool opaque = false;
};

/// Elements of a shape; refuses negative and absurd ones.
int64_t elementCount(const std::vector<int64_t> &dims, const std::string &what);
uint64_t byteCount(int32_t elementType, int64_t elements);

std::string shapeText(const std::vector<int64_t> &dims);
std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// By the file's content: .npy has a magic, everything else is a TensorProto.
Tensor readTensor(const std::string &path);

Tensor parseNpy(const std::string &bytes, const std::string &path);
/// A unicode array as int32 code points with one axis more.
Tensor parseStringsNpy(const std::string &bytes, const std::string &path);
/// Refuses types that .npy has no name for.
std::string formatNpy(int32_t elementType, const std::vector<int64_t> &dims,
                      const void *data, uint64_t size);
/// The same under numpy's own name of the type.
std::string formatNpyAs(const std::string &descr,
                        const std::vector<int64_t> &dims, const void *data,
                        uint64_t size);
bool npyKnows(int32_t elementType);

Tensor parseTensorProto(const std::string &bytes, const std::string &path);
std::string formatTensorProto(int32_t elementType,
                              const std::vector<int64_t> &dims,
                              const std::string &name, const void *data,
                              uint64_t size);

} // namespace runner
#endif
