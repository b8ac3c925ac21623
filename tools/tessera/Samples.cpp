#include "tools/tessera/Samples.h"

#include "tools/tsr-run/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <zlib.h>

namespace tessera::tool {
namespace {

namespace fs = std::filesystem;
using quantise::Refusal;
using quantise::Sample;
using quantise::Tensor;

Tensor adopt(runner::Tensor t) {
  return {t.elementType, std::move(t.dims), std::move(t.data)};
}

uint64_t little(const std::string &bytes, size_t at, size_t count,
                const std::string &path) {
  if (at + count > bytes.size())
    throw Refusal("'" + path + "' is damaged: it ends too early");
  uint64_t v = 0;
  for (size_t i = count; i-- > 0;)
    v = v << 8 | uint8_t(bytes[at + i]);
  return v;
}

std::string inflated(const std::string &bytes, uint64_t from, uint64_t packed,
                     uint64_t size, const std::string &what) {
  if (size / 1040 > packed) // deflate packs no more than 1032 to 1
    throw Refusal(what + " is damaged: " + std::to_string(packed) +
                  " bytes do not hold " + std::to_string(size));
  std::string out(size, '\0');
  z_stream stream = {};
  // Bare deflate, as in zip archives.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw Refusal(what + " cannot be unpacked");
  stream.next_in =
      reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data() + from));
  stream.avail_in = uInt(packed);
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = uInt(size);
  int status = ::inflate(&stream, Z_FINISH);
  bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole)
    throw Refusal(what + " is damaged: it does not unpack to " +
                  std::to_string(size) + " bytes");
  return out;
}

/// The arrays of an .npz: a zip archive, by its central directory.
std::map<std::string, runner::Tensor> readNpz(const std::string &path) {
  std::string bytes = runner::readFile(path);
  size_t end = bytes.rfind("PK\x05\x06");
  if (end == std::string::npos)
    throw Refusal("'" + path + "' is no .npz: it has no zip directory");
  uint64_t count = little(bytes, end + 10, 2, path),
           at = little(bytes, end + 16, 4, path);
  std::map<std::string, runner::Tensor> arrays;
  for (uint64_t i = 0; i < count; ++i) {
    if (little(bytes, at, 4, path) != 0x02014b50)
      throw Refusal("'" + path +
                    "' is damaged: its zip directory has a wrong entry");
    uint64_t method = little(bytes, at + 10, 2, path),
             packed = little(bytes, at + 20, 4, path),
             size = little(bytes, at + 24, 4, path),
             nameSize = little(bytes, at + 28, 2, path),
             extra = little(bytes, at + 30, 2, path),
             comment = little(bytes, at + 32, 2, path),
             local = little(bytes, at + 42, 4, path);
    if (at + 46 + nameSize > bytes.size())
      throw Refusal("'" + path + "' is damaged: it ends too early");
    std::string name = bytes.substr(at + 46, nameSize);
    std::string what = "'" + path + "': array '" + name + "'";
    if (method != 0 && method != 8)
      throw Refusal(what + " is compressed by method " +
                        std::to_string(method) + " of zip",
                    {"numpy.savez and savez_compressed write what is read"});
    if (size == 0xffffffff || packed == 0xffffffff || local == 0xffffffff)
      throw Refusal("'" + path + "': array '" + name + "' is of 4 GB or more",
                    {"write one file a sample"});
    uint64_t data = local + 30 + little(bytes, local + 26, 2, path) +
                    little(bytes, local + 28, 2, path);
    if (data > bytes.size() || packed > bytes.size() - data ||
        (method == 0 && packed != size))
      throw Refusal("'" + path + "' is damaged: array '" + name +
                    "' does not fit in it");
    if (llvm::StringRef(name).ends_with(".npy"))
      arrays[name.substr(0, name.size() - 4)] =
          runner::parseNpy(method ? inflated(bytes, data, packed, size, what)
                                  : bytes.substr(data, size),
                           path + ":" + name);
    at += 46 + nameSize + extra + comment;
  }
  return arrays;
}

std::vector<fs::path> sorted(const fs::path &folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (auto &e : fs::directory_iterator(folder, error))
    if (e.path().filename().string()[0] != '.')
      all.push_back(e.path());
  if (error)
    throw Refusal("cannot read folder '" + folder.string() +
                  "': " + error.message());
  std::sort(all.begin(), all.end());
  return all;
}

bool isTensorFile(const fs::path &p) {
  return p.extension() == ".npy" || p.extension() == ".pb";
}

struct Input {
  std::string name;
  bool required;
};

std::vector<Input> inputsOf(const quantise::ModelProto &model) {
  std::set<std::string> defaults;
  for (auto &t : model.graph().initializer())
    defaults.insert(t.name());
  std::vector<Input> inputs;
  for (auto &v : model.graph().input())
    inputs.push_back({v.name(), !defaults.count(v.name())});
  return inputs;
}

/// Only the inputs of the model; all that it needs must be there.
Sample select(std::map<std::string, runner::Tensor> found,
              const std::vector<Input> &inputs, const std::string &where) {
  Sample sample;
  for (const Input &input : inputs) {
    auto it = found.find(input.name);
    if (it != found.end())
      sample[input.name] = adopt(std::move(it->second));
    else if (input.required)
      throw Refusal("sample '" + where + "' has nothing for input '" +
                        input.name + "'",
                    {"arrays are found by the input's name, files also by its "
                     "position: 0.npy, input_0.pb"});
  }
  return sample;
}

Sample readFolder(const fs::path &folder, const std::vector<Input> &inputs) {
  std::map<std::string, runner::Tensor> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string number = std::to_string(i);
    for (const std::string &stem : {inputs[i].name, number, "input_" + number})
      for (const char *extension : {".npy", ".pb"})
        if (fs::path p = folder / (stem + extension);
            !found.count(inputs[i].name) && fs::is_regular_file(p))
          found[inputs[i].name] = runner::readTensor(p.string());
  }
  return select(std::move(found), inputs, folder.string());
}

/// Sample `index` of arrays whose first axis counts samples.
Sample slice(const std::map<std::string, runner::Tensor> &arrays, size_t index,
             const std::vector<Input> &inputs, const std::string &path) {
  std::map<std::string, runner::Tensor> found;
  for (auto &[name, t] : arrays) {
    runner::Tensor part;
    part.elementType = t.elementType;
    part.dims.assign(t.dims.begin() + 1, t.dims.end());
    size_t bytes = t.data.size() / size_t(t.dims[0]);
    part.data.assign(t.data.begin() + long(index * bytes),
                     t.data.begin() + long((index + 1) * bytes));
    found[name] = std::move(part);
  }
  return select(std::move(found), inputs, path);
}

quantise::SampleSource openNpz(const std::string &path,
                               const std::vector<Input> &inputs) {
  auto arrays = std::make_shared<std::map<std::string, runner::Tensor>>();
  std::map<std::string, runner::Tensor> all = readNpz(path);
  bool stacked = std::any_of(all.begin(), all.end(), [](auto &a) {
    return llvm::StringRef(a.first).starts_with("calib/");
  });
  if (!stacked) {
    auto one = std::make_shared<Sample>(select(std::move(all), inputs, path));
    return {1, [one](size_t) { return *one; }};
  }
  size_t count = SIZE_MAX;
  for (auto &[name, t] : all)
    if (llvm::StringRef(name).starts_with("calib/")) {
      if (t.dims.empty() || !t.dims[0])
        throw Refusal("'" + path + "': array '" + name +
                      "' has no samples along its first axis");
      count = std::min(count, size_t(t.dims[0]));
      (*arrays)[name.substr(6)] = std::move(t);
    }
  return {count, [arrays, inputs, path](size_t i) {
            return slice(*arrays, i, inputs, path);
          }};
}

quantise::SampleSource openFolder(const fs::path &folder,
                                  const std::vector<Input> &inputs) {
  std::vector<fs::path> all = sorted(folder), folders, archives, files;
  for (auto &p : all) {
    if (fs::is_directory(p))
      folders.push_back(p);
    else if (p.extension() == ".npz")
      archives.push_back(p);
    else if (isTensorFile(p))
      files.push_back(p);
  }
  int kinds = !folders.empty() + !archives.empty() + !files.empty();
  if (kinds != 1)
    throw Refusal(kinds ? "folder '" + folder.string() +
                              "' mixes sub-folders, .npz and single files"
                        : "folder '" + folder.string() + "' holds no samples",
                  {"give one kind: a sub-folder a sample, an .npz a sample, or "
                   "for one input a .npy or .pb a sample"});
  if (!folders.empty())
    return {folders.size(), [folders, inputs](size_t i) {
              return readFolder(folders[i], inputs);
            }};
  if (!archives.empty())
    return {archives.size(), [archives, inputs](size_t i) {
              return select(readNpz(archives[i].string()), inputs,
                            archives[i].string());
            }};
  auto needed = std::count_if(inputs.begin(), inputs.end(),
                              [](const Input &i) { return i.required; });
  if (needed != 1)
    throw Refusal("folder '" + folder.string() +
                      "' holds single files, but the model needs " +
                      std::to_string(needed) + " inputs",
                  {"give a sub-folder or an .npz a sample"});
  return {files.size(), [files, inputs](size_t i) {
            std::map<std::string, runner::Tensor> found;
            for (auto &input : inputs)
              if (input.required)
                found[input.name] = runner::readTensor(files[i].string());
            return select(std::move(found), inputs, files[i].string());
          }};
}

/// Of contents and of the names inside, not of the place.
std::string digest(const fs::path &path, std::vector<std::string> *files) {
  llvm::BLAKE3 hash;
  std::function<void(const fs::path &)> visit = [&](const fs::path &p) {
    if (fs::is_directory(p)) {
      for (auto &inner : sorted(p)) {
        hash.update(inner.filename().string());
        visit(inner);
      }
      return;
    }
    hash.update(runner::readFile(p.string()));
    if (files)
      files->push_back(p.string());
  };
  visit(path);
  auto bytes = hash.final();
  return llvm::toHex(llvm::ArrayRef<uint8_t>(bytes.data(), bytes.size()),
                     /*LowerCase=*/true);
}

/// Messages of tsr-run's readers are ours.
template <typename F> auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const runner::Refused &e) {
    throw Refusal(e.what());
  }
}

} // namespace

quantise::SampleSource openSamples(const std::string &path,
                                   const quantise::ModelProto &model,
                                   size_t limit, std::string &hash,
                                   std::vector<std::string> *files) {
  std::vector<Input> inputs = inputsOf(model);
  return guarded([&] {
    if (!fs::exists(path))
      throw Refusal("--calib: '" + path + "' does not exist");
    quantise::SampleSource source = fs::is_directory(path)
                                        ? openFolder(path, inputs)
                                        : openNpz(path, inputs);
    if (limit)
      source.count = std::min(source.count, limit);
    hash = digest(path, files);
    auto get = source.get;
    source.get = [get](size_t i) { return guarded([&] { return get(i); }); };
    return source;
  });
}

} // namespace tessera::tool
