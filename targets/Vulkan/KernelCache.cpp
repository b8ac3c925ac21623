#include "targets/Vulkan/KernelCache.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Canonicalise/Dequantised.h"
#include "llvm/Support/xxhash.h"

#include <map>
#include <mutex>

using namespace mlir;

namespace tessera::vulkan {

static Fingerprint hash(ArrayRef<uint8_t> bytes) {
  llvm::XXH128_hash_t h = llvm::xxh3_128bits(bytes);
  return {h.low64, h.high64};
}

/// The contents of a constant as text.
static void describe(llvm::raw_ostream &os, ElementsAttr constant) {
  os << "\n" << constant.getShapedType() << " ";
  SmallVector<char> storage;
  auto raw = onnx::getRawBytes(constant, storage);
  if (!raw) {
    os << constant;
    return;
  }
  Fingerprint f =
      hash({reinterpret_cast<const uint8_t *>(raw->data()), raw->size()});
  os << f.first << " " << f.second;
}

Fingerprint fingerprintOf(tsr::DispatchOp op, const Device &device) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os, OpPrintingFlags().useLocalScope().printGenericOpForm());
  for (Value v : op.getInputs()) {
    if (ElementsAttr constant = onnx::getConstant(v))
      describe(os, constant);
    else
      os << "\n-";
    if (auto form = onnx::dequantisedForm(v)) // may be read instead
      os << " " << form->element << " " << form->block;
  }
  op.getBody().walk([&](Operation *inner) {
    if (ElementsAttr constant = inner->getNumResults() == 1
                                    ? onnx::getConstant(inner->getResult(0))
                                    : ElementsAttr{})
      describe(os, constant);
  });
  os << "\n"
     << device.features << " " << device.maxInvocations << " "
     << device.sharedBytes << " " << device.maxBufferRange << " "
     << device.maxBindings;
  for (unsigned axis = 0; axis < 3; ++axis)
    os << " " << device.maxLocal[axis] << " " << device.maxGroups[axis];
  return hash({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

namespace {
struct Cache {
  std::mutex mutex;
  std::map<Fingerprint, std::shared_ptr<const Answer>> answers;
  size_t bytes = 0;
};
} // namespace

static Cache &cache() {
  static Cache c;
  return c;
}

std::shared_ptr<const Answer> findAnswer(const Fingerprint &key) {
  std::lock_guard lock(cache().mutex);
  auto it = cache().answers.find(key);
  return it == cache().answers.end() ? nullptr : it->second;
}

void keepAnswer(const Fingerprint &key, std::shared_ptr<const Answer> answer) {
  constexpr size_t most = size_t(256) << 20;
  size_t bytes = sizeof(Answer);
  if (answer->kernel) {
    bytes += answer->kernel->words.size() * 4;
    for (const Binding &b : answer->kernel->bindings)
      bytes += b.packed.size();
  }
  std::lock_guard lock(cache().mutex);
  if (cache().bytes + bytes > most) {
    cache().answers.clear();
    cache().bytes = 0;
  }
  if (bytes <= most &&
      cache().answers.try_emplace(key, std::move(answer)).second)
    cache().bytes += bytes;
}

} // namespace tessera::vulkan
