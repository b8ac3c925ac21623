// The order of work: lay out the data segment (deduplicating), build the
// manifest once with empty hashes to learn its size, stream the segments to
// their final places while hashing them, build the manifest again with the
// hashes, and put header and manifest in front. Hashes are fixed-size structs,
// so both manifests have the same size.
#include "compiler/Bundle/BundleWriter.h"
#include "compiler/Bundle/PendingFile.h"

#include "runtime-stub/format/Header.h"
#include "runtime-stub/format/bundle_generated.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <blake2.h>
#include <cstring>
#include <map>

namespace tessera {
namespace {

// `format` has enumerations of the same names as Plan.h: those are qualified.
using flatbuffers::Offset;
using format::CreateEntry;
using format::kChunkBytes;
using format::kConstantAlignment;
using format::kHashBytes;
using format::kHeaderBytes;
using format::kSegmentAlignment;
using format::SegmentKind;
using Digest = std::array<uint8_t, kHashBytes>;

static_assert(int(ScalarOp::TruncDiv) == int(format::ScalarOp::TruncDiv) &&
                  int(CommandKind::Launch) == int(format::CommandKind::Launch) &&
                  int(BufferKind::State) == int(format::BufferKind::State),
              "Plan.h and bundle.fbs are out of step");

class Blake2b {
public:
  Blake2b() { blake2b_init(&state, kHashBytes); }
  void update(const void *data, size_t size) {
    blake2b_update(&state, static_cast<const uint8_t *>(data), size);
  }
  Digest finish() {
    Digest digest;
    blake2b_final(&state, digest.data(), digest.size());
    return digest;
  }

private:
  blake2b_state state;
};

Digest hashOf(const void *data, size_t size) {
  Blake2b hash;
  hash.update(data, size);
  return hash.finish();
}

/// Where each constant goes in the data segment.
struct DataLayout {
  std::vector<uint64_t> offsetOf; ///< per constant
  std::vector<uint32_t> order;    ///< constants that are written, by offset
  uint64_t size = 0;
};

llvm::Expected<DataLayout> layOutConstants(const Plan &plan,
                                           BundleStats &stats) {
  DataLayout layout;
  layout.offsetOf.assign(plan.constants.size(), 0);
  std::vector<char> placed(plan.constants.size(), 0);
  // Contents are hashed only where another constant has the same size.
  std::map<uint64_t, uint32_t> sizes;
  for (const PlanConstant &constant : plan.constants)
    ++sizes[constant.size];
  std::map<std::pair<uint64_t, Digest>, uint32_t> seen;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].kind != BufferKind::Constant ||
        plan.buffers[i].aliasOf != kNone)
      continue;
    if (i >= plan.constantOf.size() ||
        plan.constantOf[i] >= plan.constants.size())
      return llvm::createStringError("constant buffer %zu ('%s') has no data",
                                     i, plan.buffers[i].name.c_str());
    uint32_t index = plan.constantOf[i];
    const PlanConstant &constant = plan.constants[index];
    if (constant.size != plan.buffers[i].sizeBytes)
      return llvm::createStringError(
          "constant buffer %zu ('%s') has %llu bytes, its data has %llu", i,
          plan.buffers[i].name.c_str(),
          (unsigned long long)plan.buffers[i].sizeBytes,
          (unsigned long long)constant.size);
    if (placed[index])
      continue;
    placed[index] = 1;
    stats.constantBytes += constant.size;
    if (!constant.size)
      continue; // shows nothing, wherever it lies
    if (sizes[constant.size] > 1) {
      auto [it, isNew] = seen.try_emplace(
          {constant.size, hashOf(constant.data, constant.size)}, index);
      if (!isNew) {
        layout.offsetOf[index] = layout.offsetOf[it->second];
        ++stats.deduplicated;
        continue;
      }
    }
    layout.size = llvm::alignTo(layout.size, kConstantAlignment);
    layout.offsetOf[index] = layout.size;
    layout.order.push_back(index);
    layout.size += constant.size;
  }
  return layout;
}

struct SegmentPlan {
  SegmentKind kind;
  std::string variant;
  uint64_t offset = 0, size = 0;
  std::vector<Digest> chunks;
};

/// Writes one segment and hashes its chunks on the way.
class SegmentStream {
public:
  SegmentStream(llvm::raw_fd_ostream &os, SegmentPlan &segment)
      : os(os), segment(segment) {
    os.seek(segment.offset);
    segment.chunks.clear();
  }
  void write(const void *data, uint64_t size) {
    auto *bytes = static_cast<const char *>(data);
    while (size) {
      uint64_t part = std::min(size, kChunkBytes - filled);
      hash.update(bytes, part);
      os.write(bytes, part);
      written += part;
      filled += part;
      bytes += part;
      size -= part;
      if (filled == kChunkBytes)
        closeChunk();
    }
  }
  void padTo(uint64_t offset) {
    static const char zeros[kConstantAlignment] = {};
    while (written < offset)
      write(zeros, std::min<uint64_t>(sizeof(zeros), offset - written));
  }
  void finish() {
    if (filled)
      closeChunk();
  }

private:
  void closeChunk() {
    segment.chunks.push_back(hash.finish());
    hash = Blake2b();
    filled = 0;
  }
  llvm::raw_fd_ostream &os;
  SegmentPlan &segment;
  Blake2b hash;
  uint64_t filled = 0, written = 0;
};

/// The root of an alias chain and the bytes into it.
llvm::Expected<std::pair<uint32_t, uint64_t>> flattenAlias(const Plan &plan,
                                                           uint32_t index) {
  uint32_t root = index;
  uint64_t offset = 0;
  for (size_t steps = 0; plan.buffers[root].aliasOf != kNone; ++steps) {
    offset += plan.buffers[root].aliasOffset;
    root = plan.buffers[root].aliasOf;
    if (root >= plan.buffers.size() || steps > plan.buffers.size())
      return llvm::createStringError(
          "buffer %u ('%s') has a broken alias chain", index,
          plan.buffers[index].name.c_str());
  }
  return std::make_pair(root, offset);
}

using Builder = flatbuffers::FlatBufferBuilder;

Offset<format::TensorSpec> writeTensor(Builder &fbb, const PlanTensor &tensor) {
  std::vector<format::Dim> dims;
  std::vector<std::string> names;
  bool anyName = false;
  for (const PlanDim &dim : tensor.dims) {
    dims.emplace_back(dim.value, dim.min, dim.max, dim.multiple, dim.reg, 0);
    names.push_back(dim.name);
    anyName |= !dim.name.empty();
  }
  auto name = fbb.CreateString(tensor.name);
  auto dimVector = fbb.CreateVectorOfStructs(dims);
  auto nameVector = anyName ? fbb.CreateVectorOfStrings(names) : 0;
  bool optional = tensor.defaultBuffer != kNone;
  std::vector<int64_t> defaultShape = tensor.defaultDims;
  if (optional && defaultShape.size() != tensor.dims.size()) {
    defaultShape.clear();
    for (const PlanDim &dim : tensor.dims)
      defaultShape.push_back(dim.value);
  }
  auto defaultDims = optional ? fbb.CreateVector(defaultShape) : 0;
  return format::CreateTensorSpec(
      fbb, name, tensor.elementType, dimVector, nameVector, tensor.buffer,
      optional, tensor.defaultBuffer, tensor.kind, defaultDims);
}

Offset<flatbuffers::Vector<Offset<format::TensorSpec>>>
writeTensors(Builder &fbb, const std::vector<PlanTensor> &tensors) {
  std::vector<Offset<format::TensorSpec>> out;
  for (const PlanTensor &tensor : tensors)
    out.push_back(writeTensor(fbb, tensor));
  return fbb.CreateVector(out);
}

llvm::Expected<std::vector<format::Buffer>>
manifestBuffers(const Plan &plan, const DataLayout &layout) {
  std::vector<format::Buffer> buffers;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    auto alias = flattenAlias(plan, i);
    if (!alias)
      return alias.takeError();
    bool isAlias = buffer.aliasOf != kNone;
    bool isConstant = buffer.kind == BufferKind::Constant && !isAlias;
    uint64_t offset = isConstant ? layout.offsetOf[plan.constantOf[i]]
                                 : (buffer.hasOffset ? buffer.offset : 0);
    buffers.emplace_back(
        buffer.sizeBytes, offset, alias->second, buffer.sizeRegister,
        isConstant ? 0 : kNone, isAlias ? alias->first : kNone,
        buffer.firstCommand, buffer.lastCommand, buffer.pool,
        format::BufferKind(buffer.kind), buffer.hasOffset && !isConstant, 0);
  }
  return buffers;
}

/// The manifest with the segments as they are known so far.
llvm::Error buildManifest(Builder &fbb, const Plan &plan,
                          const DataLayout &layout,
                          const std::vector<SegmentPlan> &segments,
                          uint32_t firstCode) {
  fbb.ForceDefaults(true); // zeros take their place, so the size is known early
  auto inputs = writeTensors(fbb, plan.inputs);
  auto outputs = writeTensors(fbb, plan.outputs);
  auto entryName = fbb.CreateString("main");
  auto prepareVector =
      fbb.CreateVector(std::vector<uint32_t>{0, plan.prepareEnd});
  auto rangeVector = fbb.CreateVector(
      std::vector<uint32_t>{0, uint32_t(plan.commands.size())});
  std::vector<Offset<format::Entry>> entries = {
      CreateEntry(fbb, entryName, inputs, outputs, prepareVector, rangeVector)};

  std::vector<Offset<format::Device>> devices;
  for (const PlanDevice &device : plan.devices)
    devices.push_back(format::CreateDeviceDirect(fbb, device.name.c_str(),
                                                 device.kind.c_str()));
  std::vector<Offset<format::Pool>> pools;
  for (const PlanPool &pool : plan.pools)
    pools.push_back(format::CreatePoolDirect(fbb, pool.name.c_str(),
                                             pool.device, pool.staticBytes,
                                             pool.alignment, pool.growing));

  auto buffers = manifestBuffers(plan, layout);
  if (!buffers)
    return buffers.takeError();
  std::vector<format::Scalar> scalars;
  for (const PlanScalar &s : plan.scalars)
    scalars.emplace_back(s.imm, s.dst, s.a, s.b, s.c, format::ScalarOp(s.op), 0,
                         0, 0);
  std::vector<format::Command> commands;
  uint32_t firstArtefact = firstCode + uint32_t(plan.variants.size());
  for (const PlanCommand &c : plan.commands)
    commands.emplace_back(c.a, c.b,
                          c.kind == CommandKind::Launch && c.c != kNone
                              ? firstArtefact + c.c
                              : c.c,
                          c.d, c.e, c.f,
                          format::CommandKind(c.kind), c.device,
                          c.flushDenormals ? 1 : 0);

  std::vector<Offset<format::Kernel>> kernels;
  for (const PlanKernel &kernel : plan.kernels) {
    auto name = fbb.CreateString(kernel.name);
    auto kernelClass = fbb.CreateSharedString(kernel.kernelClass);
    auto origin = fbb.CreateVectorOfStrings(kernel.origin);
    kernels.push_back(format::CreateKernel(fbb, name, kernelClass, origin,
                                           kernel.workgroups));
  }
  std::vector<Offset<format::Variant>> variants;
  for (size_t i = 0; i < plan.variants.size(); ++i) {
    const PlanVariant &variant = plan.variants[i];
    auto name = fbb.CreateString(variant.name);
    auto features = fbb.CreateVectorOfStrings(variant.features);
    auto starts = fbb.CreateVector(variant.entries);
    variants.push_back(format::CreateVariant(
        fbb, name, variant.machine, features, firstCode + uint32_t(i), starts));
  }
  std::vector<Offset<format::Segment>> segmentTables;
  for (const SegmentPlan &segment : segments) {
    std::vector<format::Hash> chunks;
    for (const Digest &digest : segment.chunks) {
      uint64_t words[4];
      for (int w = 0; w < 4; ++w) {
        words[w] = 0;
        for (int b = 7; b >= 0; --b)
          words[w] = words[w] << 8 | digest[w * 8 + b];
      }
      chunks.emplace_back(words[0], words[1], words[2], words[3]);
    }
    auto variant =
        segment.variant.empty() ? 0 : fbb.CreateSharedString(segment.variant);
    auto chunkVector = fbb.CreateVectorOfStructs(chunks);
    segmentTables.push_back(format::CreateSegment(
        fbb, segment.kind, variant, segment.offset, segment.size, chunkVector));
  }
  auto tool = fbb.CreateString(plan.tool);
  auto modelHash = fbb.CreateString(plan.modelHash);
  auto target = fbb.CreateString(plan.target);
  auto options = fbb.CreateVectorOfStrings(plan.provenanceOptions);
  auto provenance =
      format::CreateProvenance(fbb, tool, modelHash, target, options);

  auto entryVector = fbb.CreateVector(entries);
  auto deviceVector = fbb.CreateVector(devices);
  auto poolVector = fbb.CreateVector(pools);
  auto bufferVector = fbb.CreateVectorOfStructs(*buffers);
  auto scalarVector = fbb.CreateVectorOfStructs(scalars);
  auto commandVector = fbb.CreateVectorOfStructs(commands);
  auto operandVector = fbb.CreateVector(plan.operands);
  auto kernelVector = fbb.CreateVector(kernels);
  auto variantVector = fbb.CreateVector(variants);
  auto segmentVector = fbb.CreateVector(segmentTables);
  auto stringVector = fbb.CreateVectorOfStrings(plan.strings);
  auto manifest = format::CreateManifest(
      fbb, /*abi_version=*/1, plan.registers, entryVector, deviceVector,
      poolVector, bufferVector, scalarVector, commandVector, operandVector,
      kernelVector, variantVector, segmentVector, stringVector, provenance);
  format::FinishManifestBuffer(fbb, manifest);
  return llvm::Error::success();
}

void put(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    at[i] = uint8_t(value >> (8 * i));
}

/// The lowest version that has all the plan uses.
uint32_t versionOf(const Plan &plan) {
  auto isPart = [](const PlanTensor &tensor) { return tensor.kind != 0; };
  bool plain = plan.devices.size() == 1 && plan.artefacts.empty() &&
               llvm::none_of(plan.inputs, isPart) &&
               llvm::none_of(plan.outputs, isPart);
  return plain ? format::kFormatVersion : format::kFormatVersionParts;
}

std::array<uint8_t, kHeaderBytes> makeHeader(uint64_t fileBytes,
                                             uint32_t version,
                                             const Builder &manifest) {
  std::array<uint8_t, kHeaderBytes> header = {};
  std::memcpy(header.data(), format::kMagic, sizeof(format::kMagic));
  put(&header[format::kVersionAt], version, 4);
  put(&header[format::kHeaderBytesAt], kHeaderBytes, 4);
  put(&header[format::kFileBytesAt], fileBytes, 8);
  put(&header[format::kManifestOffsetAt], kHeaderBytes, 8);
  put(&header[format::kManifestBytesAt], manifest.GetSize(), 8);
  Blake2b hash;
  hash.update(header.data(), header.size());
  hash.update(manifest.GetBufferPointer(), manifest.GetSize());
  Digest digest = hash.finish();
  std::memcpy(&header[format::kHashAt], digest.data(), digest.size());
  return header;
}

} // namespace

llvm::Expected<BundleStats> writeBundle(const Plan &plan, llvm::StringRef path,
                                        PendingFile *companion) {
  BundleStats stats;
  auto layout = layOutConstants(plan, stats);
  if (!layout)
    return layout.takeError();
  stats.dataBytes = layout->size;

  // The data segment comes first; it exists even when it is empty, as constants
  // of no bytes refer to it.
  std::vector<SegmentPlan> segments;
  segments.push_back({SegmentKind::Data, "", 0, layout->size, {}});
  uint32_t firstCode = segments.size();
  for (const PlanVariant &variant : plan.variants) {
    segments.push_back(
        {SegmentKind::Code, variant.name, 0, variant.image.size(), {}});
    stats.codeBytes += variant.image.size();
  }
  for (const PlanArtefact &artefact : plan.artefacts)
    segments.push_back(
        {SegmentKind::Device, artefact.name, 0, artefact.size, {}});
  for (SegmentPlan &segment : segments)
    segment.chunks.resize(llvm::divideCeil(segment.size, kChunkBytes));

  Builder sizing(1 << 16);
  if (auto error = buildManifest(sizing, plan, *layout, segments, firstCode))
    return std::move(error);
  uint64_t fileBytes = kHeaderBytes + sizing.GetSize();
  for (SegmentPlan &segment : segments) {
    if (!segment.size)
      continue;
    segment.offset = llvm::alignTo(fileBytes, kSegmentAlignment);
    fileBytes = segment.offset + segment.size;
  }

  auto file = PendingFile::create(path);
  if (!file)
    return file.takeError();
  llvm::raw_fd_ostream &os = *(*file)->os;
  if (auto ec = (*file)->resize(fileBytes))
    return llvm::createStringError(ec,
                                   "cannot write %llu bytes beside '%s': %s",
                                   (unsigned long long)fileBytes,
                                   path.str().c_str(), ec.message().c_str());
  SegmentStream data(os, segments[0]);
  for (uint32_t index : layout->order) {
    data.padTo(layout->offsetOf[index]);
    data.write(plan.constants[index].data, plan.constants[index].size);
  }
  data.finish();
  for (size_t i = 0; i < plan.variants.size(); ++i) {
    SegmentStream code(os, segments[firstCode + i]);
    code.write(plan.variants[i].image.data(), plan.variants[i].image.size());
    code.finish();
  }
  for (size_t i = 0; i < plan.artefacts.size(); ++i) {
    SegmentStream bytes(os, segments[firstCode + plan.variants.size() + i]);
    bytes.write(plan.artefacts[i].data, plan.artefacts[i].size);
    bytes.finish();
  }

  Builder manifest(1 << 16);
  if (auto error = buildManifest(manifest, plan, *layout, segments, firstCode))
    return std::move(error);
  if (manifest.GetSize() != sizing.GetSize())
    return llvm::createStringError("internal: the manifest changed its size");
  auto header = makeHeader(fileBytes, versionOf(plan), manifest);
  os.seek(0);
  os.write(reinterpret_cast<const char *>(header.data()), header.size());
  os.write(reinterpret_cast<const char *>(manifest.GetBufferPointer()),
           manifest.GetSize());
  // Both are complete before either appears.
  if (auto error = (*file)->finish())
    return std::move(error);
  if (companion)
    if (auto error = companion->commit())
      return std::move(error);
  if (auto error = (*file)->commit()) {
    if (companion)
      companion->retract();
    return std::move(error);
  }
  stats.fileBytes = fileBytes;
  stats.manifestBytes = manifest.GetSize();
  return stats;
}

} // namespace tessera
