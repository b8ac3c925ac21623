#include "tools/tessera/BundleCache.h"

#include "compiler/Driver/BuildId.h"
#include "compiler/Report/Inspect.h"
#include "runtime-stub/include/tessera/runtime.h"
#include "targets/Target.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = llvm::sys::fs;

namespace tessera::tool {
namespace {

constexpr uint64_t kMostBytes = 4ull << 30;

/// Strings of any bytes, each with its length.
class Hash {
public:
  Hash &add(llvm::StringRef bytes) {
    uint64_t size = bytes.size();
    hasher.update(llvm::StringRef(reinterpret_cast<const char *>(&size), sizeof size));
    hasher.update(bytes);
    return *this;
  }
  std::string hex() {
    auto digest = hasher.final();
    return llvm::toHex(llvm::ArrayRef<uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
  }

private:
  llvm::BLAKE3 hasher;
};

std::unique_ptr<llvm::MemoryBuffer> map(const std::string &path) {
  struct stat st;
  if (stat(path.c_str(), &st) || !S_ISREG(st.st_mode))
    return nullptr;
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false, /*IsVolatile=*/false, llvm::Align(64));
  return file ? std::move(*file) : nullptr;
}

std::string homeOfCaches() {
  auto set = llvm::sys::Process::GetEnv("XDG_CACHE_HOME");
  if (set && llvm::sys::path::is_absolute(*set))
    return *set;
  auto home = llvm::sys::Process::GetEnv("HOME");
  return home && llvm::sys::path::is_absolute(*home) ? *home + "/.cache" : "";
}

/// A regular file of this user, not a link to one.
bool isOurs(const std::string &path, mode_t kind) {
  struct stat st;
  return !lstat(path.c_str(), &st) && (st.st_mode & S_IFMT) == kind && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/// Whether the file, or what its name stands for, may be another since `then`: a
/// write, and a rename, moves the time of its inode.
bool changedSince(const std::string &path, const timespec &then) {
  struct stat st;
  return stat(path.c_str(), &st) || st.st_ctim.tv_sec > then.tv_sec ||
         (st.st_ctim.tv_sec == then.tv_sec && st.st_ctim.tv_nsec >= then.tv_nsec);
}

bool staysBelow(llvm::StringRef name) {
  if (name.empty() || name.starts_with("/"))
    return false;
  llvm::SmallVector<llvm::StringRef> parts;
  name.split(parts, '/');
  return !llvm::is_contained(parts, "..");
}

} // namespace

std::optional<BundleCache> BundleCache::open(const CompileOptions &options) {
  BundleCache cache;
  clock_gettime(CLOCK_REALTIME_COARSE, &cache.opened);
  std::string build = buildId(), home = homeOfCaches();
  auto model = map(options.model);
  if (build.empty() || home.empty() || !model)
    return std::nullopt;
  if (!options.pins.empty() || !options.segments.empty() || !options.viaTosa.empty() || options.compileTo)
    return std::nullopt;
  auto target = findTarget(options.target);
  if (!target) {
    llvm::consumeError(target.takeError()); // the compile says so
    return std::nullopt;
  }
  cache.folder = home + "/tessera/run";
  if (fs::create_directories(cache.folder, /*IgnoreExisting=*/true, fs::owner_all) || !isOurs(cache.folder, S_IFDIR))
    return std::nullopt;
  llvm::StringRef folder = llvm::sys::path::parent_path(options.model);
  cache.modelFolder = folder.empty() ? "." : folder.str();

  llvm::BLAKE3 content;
  content.update(model->getBuffer());
  auto digest = content.final();
  cache.modelHash = llvm::toHex(llvm::ArrayRef<uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
  Hash key;
  key.add(build).add(target->name).add(target->text).add(options.strict ? "strict" : "fast").add(cache.modelHash);
  for (const auto *list : {&options.dims, &options.variants}) {
    key.add(std::to_string(list->size()));
    for (const std::string &text : *list)
      key.add(text);
  }
  cache.modelKey = key.hex();
  return cache;
}

std::string BundleCache::bundlePath(const std::vector<std::string> &files) const {
  Hash key;
  key.add(modelKey);
  for (const std::string &name : files) {
    auto bytes = map(modelFolder + "/" + name);
    if (!bytes)
      return "";
    key.add(name).add(bytes->getBuffer());
  }
  return folder + "/" + key.hex() + ".tsr";
}

bool BundleCache::isWhole(const std::string &path) const {
  auto bytes = isOurs(path, S_IFREG) ? map(path) : nullptr;
  if (!bytes)
    return false;
  tsr_host_t host = {};
  host.version = TSR_RUNTIME_VERSION;
  std::vector<uint64_t> state(tsr_bundle_state_bytes() / 8 + 4);
  void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(state.data()) + 15) & ~uintptr_t(15));
  tsr_bundle_t *bundle = nullptr;
  tsr_error_t error = {};
  if (tsr_open(bytes->getBufferStart(), bytes->getBufferSize(), &host, nullptr, /*check_only=*/1, aligned, &bundle, &error) != TSR_OK)
    return false;
  // Whole, and of this model.
  auto text = inspectBundle(path, {.format = InspectFormat::Json});
  if (!text) {
    llvm::consumeError(text.takeError());
    return false;
  }
  auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.value("model_hash", "") == modelHash;
}

std::optional<std::string> BundleCache::find() const {
  std::string list = folder + "/" + modelKey + ".files";
  auto text = isOurs(list, S_IFREG) ? map(list) : nullptr;
  if (!text)
    return std::nullopt;
  std::vector<std::string> files;
  llvm::SmallVector<llvm::StringRef> lines;
  text->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (!staysBelow(line))
      return std::nullopt;
    files.push_back(line.str());
  }
  std::string path = bundlePath(files);
  if (path.empty() || !isWhole(path))
    return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used now
  return path;
}

std::string BundleCache::pendingPath() const {
  llvm::SmallString<128> path;
  fs::createUniquePath(folder + "/%%%%%%%%%%%%.pending", path, /*MakeAbsolute=*/false);
  return std::string(path);
}

std::optional<std::string> BundleCache::keep(const std::string &path, const std::vector<std::string> &inputs) const {
  if (llvm::any_of(inputs, [&](const std::string &input) { return changedSince(input, opened); }))
    return std::nullopt;
  std::vector<std::string> files;
  std::string list;
  for (llvm::StringRef input : llvm::ArrayRef(inputs).drop_front()) {
    if (!input.consume_front(modelFolder + "/") || !staysBelow(input) || input.contains('\n'))
      return std::nullopt;
    files.push_back(input.str());
    list += input.str() + "\n";
  }
  std::string place = bundlePath(files), listPlace = folder + "/" + modelKey + ".files", pending = pendingPath();
  if (place.empty() || fs::rename(path, place))
    return std::nullopt;
  std::ofstream(pending, std::ios::binary) << list;
  if (fs::rename(pending, listPlace))
    fs::remove(pending);
  removeOldest();
  return place;
}

void BundleCache::removeOldest() const {
  struct Entry {
    std::string path;
    uint64_t bytes;
    llvm::sys::TimePoint<> used;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec, /*follow_symlinks=*/false), end; it != end && !ec; it.increment(ec)) {
    fs::file_status status;
    if (fs::status(it->path(), status, /*follow=*/false) || status.type() != fs::file_type::regular_file)
      continue;
    entries.push_back({it->path(), status.getSize(), status.getLastModificationTime()});
    total += status.getSize();
  }
  llvm::sort(entries, [](const Entry &a, const Entry &b) { return a.used < b.used; });
  // The newest stays, however large.
  for (size_t i = 0; i + 1 < entries.size() && total > kMostBytes; ++i) {
    fs::remove(entries[i].path);
    total -= entries[i].bytes;
  }
}

} // namespace tessera::tool
