// The loader's own reader and hash against the official ones.
#include "test/unit/Runtime/TestPlan.h"

#include "runtime-stub/format/bundle_generated.h"
#include "runtime-stub/src/Blake2b.h"
#include "runtime-stub/src/Manifest.h"

#include <blake2.h>
#include <catch2/catch_test_macros.hpp>
#include <random>

namespace f = tessera::format;

// The numbers of fields in Manifest.h are those of the schema.
#define SAME(table, name, number)                                              \
  static_assert(f::table::VT_##name == 4 + 2 * int(tsr::field::number),        \
                #table "." #name)
SAME(Manifest, ABI_VERSION, kAbiVersion);
SAME(Manifest, PROVENANCE, kProvenance);
SAME(Manifest, OPERANDS, kOperands);
SAME(Manifest, STRINGS, kStrings);
SAME(Entry, COMMANDS, kEntryCommands);
SAME(TensorSpec, DEFAULT_DIMS, kDefaultDims);
SAME(TensorSpec, BUFFER, kTensorBuffer);
SAME(Pool, GROWING, kGrowing);
SAME(Kernel, WORKGROUPS, kWorkgroups);
SAME(Variant, ENTRIES, kVariantEntries);
SAME(Segment, CHUNKS, kChunks);
SAME(Provenance, OPTIONS, kOptions);
SAME(Device, KIND, kDeviceKind);
static_assert(sizeof(f::Buffer) == sizeof(tsr::Buffer));
static_assert(sizeof(f::Scalar) == sizeof(tsr::Scalar));
static_assert(sizeof(f::Command) == sizeof(tsr::Command));
static_assert(sizeof(f::Dim) == sizeof(tsr::Dim));
static_assert(int(f::CommandKind::MAX) + 1 == int(tsr::CommandKind::kCount));
static_assert(int(f::ScalarOp::MAX) + 1 == int(tsr::ScalarOp::kCount));
static_assert(int(f::BufferKind::MAX) + 1 == int(tsr::BufferKind::kCount));
static_assert(int(f::SegmentKind::MAX) + 1 == int(tsr::SegmentKind::kCount));

namespace {

/// A manifest with something in every table.
std::vector<uint8_t> sampleManifest() {
  flatbuffers::FlatBufferBuilder b;
  std::vector<f::Dim> dims = {{-1, 1, 8, 2, 0, 0}, {3, 0, 9, 1, 0xffffffff, 0}};
  std::vector<int64_t> shape = {2, 3};
  auto names = b.CreateVectorOfStrings({"batch", ""});
  auto tensor = f::CreateTensorSpec(b, b.CreateString("x"), 1,
                                    b.CreateVectorOfStructs(dims), names, 0,
                                    true, 1, 0, b.CreateVector(shape));
  std::vector<flatbuffers::Offset<f::TensorSpec>> tensors = {tensor, tensor};
  auto inputs = b.CreateVector(tensors), outputs = b.CreateVector(tensors);
  std::vector<uint32_t> range = {0, 1};
  std::vector<flatbuffers::Offset<f::Entry>> entries = {
      f::CreateEntry(b, b.CreateString("main"), inputs, outputs,
                     b.CreateVector(range), b.CreateVector(range))};
  std::vector<flatbuffers::Offset<f::Pool>> pools = {
      f::CreatePoolDirect(b, "arena", 0, 64, 64, false)};
  auto origin = b.CreateVectorOfStrings({"a", "bc"});
  std::vector<flatbuffers::Offset<f::Kernel>> kernels = {f::CreateKernel(
      b, b.CreateString("k"), b.CreateSharedString("loops"), origin, 1)};
  std::vector<uint64_t> addresses = {4096};
  std::vector<flatbuffers::Offset<f::Variant>> variants = {f::CreateVariant(
      b, b.CreateString("v3"), 62, b.CreateVectorOfStrings({"avx2"}), 0,
      b.CreateVector(addresses))};
  std::vector<f::Hash> chunks = {{1, 2, 3, 4}};
  std::vector<flatbuffers::Offset<f::Segment>> segments = {
      f::CreateSegment(b, f::SegmentKind::Code, b.CreateString("v3"), 65536, 10,
                       b.CreateVectorOfStructs(chunks))};
  std::vector<f::Buffer> buffers(2);
  std::vector<f::Scalar> scalars(1);
  std::vector<f::Command> commands(1);
  auto provenance =
      f::CreateProvenance(b, b.CreateString("t"), b.CreateString("h"),
                          b.CreateString("x"), b.CreateVectorOfStrings({"-o"}));
  auto devices = std::vector<flatbuffers::Offset<f::Device>>{
      f::CreateDeviceDirect(b, "cpu", "cpu")};
  f::FinishManifestBuffer(
      b, f::CreateManifest(b, 1, 2, b.CreateVector(entries),
                           b.CreateVector(devices), b.CreateVector(pools),
                           b.CreateVectorOfStructs(buffers),
                           b.CreateVectorOfStructs(scalars),
                           b.CreateVectorOfStructs(commands),
                           b.CreateVector(range), b.CreateVector(kernels),
                           b.CreateVector(variants), b.CreateVector(segments),
                           b.CreateVectorOfStrings({"s", "t"}), provenance));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

bool official(const std::vector<uint8_t> &bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  return f::VerifyManifestBuffer(verifier);
}

} // namespace

TEST_CASE("the manifest reader accepts only what FlatBuffers accepts",
          "[manifest]") {
  const std::vector<uint8_t> good = sampleManifest();
  REQUIRE(official(good));
  REQUIRE(tsr::verifyManifest(good.data(), good.size()) == nullptr);
  std::mt19937 random(7);
  size_t accepted = 0, stricter = 0, unsafe = 0;
  auto compare = [&](const std::vector<uint8_t> &bytes) {
    bool ours = tsr::verifyManifest(bytes.data(), bytes.size()) == nullptr;
    bool theirs = official(bytes);
    accepted += ours;
    stricter += theirs && !ours;
    unsafe += ours && !theirs;
  };
  for (size_t i = 0; i < good.size(); ++i)
    for (int value : {0, 1, 4, 8, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> bytes = good;
      bytes[i] = uint8_t(value);
      compare(bytes);
    }
  for (int i = 0; i < 200000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int changes = random() % 4 + 1; changes; --changes)
      bytes[random() % bytes.size()] =
          random() % 2 ? uint8_t(random() % 32) : uint8_t(random());
    if (random() % 8 == 0)
      bytes.resize(random() % bytes.size() + 1);
    compare(bytes);
  }
  CHECK(unsafe == 0);
  CHECK(accepted > 1000);
  // Both see the same fault nearly always; ours also refuses misplaced tables.
  CHECK(stricter < accepted / 10);
}

TEST_CASE("shared parts cannot make the check expensive", "[manifest]") {
  // A vector of many offsets to one string of many bytes.
  flatbuffers::FlatBufferBuilder b;
  auto text = b.CreateString(std::string(100000, 'x'));
  std::vector<flatbuffers::Offset<flatbuffers::String>> many(100000, text);
  auto strings = b.CreateVector(many);
  f::ManifestBuilder m(b);
  m.add_strings(strings);
  f::FinishManifestBuffer(b, m.Finish());
  const char *problem = tsr::verifyManifest(b.GetBufferPointer(), b.GetSize());
  REQUIRE(problem);
  CHECK(std::string(problem) == "shares its parts beyond measure");
}

TEST_CASE("BLAKE2b equals the reference library", "[hash]") {
  std::mt19937 random(3);
  std::vector<uint8_t> data(5000);
  for (uint8_t &byte : data)
    byte = uint8_t(random());
  for (size_t size :
       {0, 1, 63, 64, 127, 128, 129, 255, 256, 257, 1000, 4096, 5000}) {
    uint8_t expected[32];
    blake2b(expected, data.data(), nullptr, 32, size, 0);
    tsr::Digest whole = tsr::hashOf(data.data(), size);
    CHECK(std::memcmp(&whole, expected, 32) == 0);
    tsr::Blake2b parts;
    for (size_t at = 0; at < size;) {
      size_t part = std::min<size_t>(size - at, random() % 200);
      parts.update(data.data() + at, part);
      at += part;
    }
    CHECK(parts.finish() == whole);
  }
}
