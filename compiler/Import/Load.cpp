// Parses the model and moves every large payload out of the protobuf. Payloads
// are checked here once and for all: their size is that of the tensor, they lie
// inside their file, and the file lies inside the folder of the model.
#include "compiler/Import/Model.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "onnx/defs/parser.h"

#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

// Payloads up to this size stay in the protobuf, where shape inference may read
// them; integers often are shapes, axes or indices.
constexpr int64_t kInlineBytes = 1024;
constexpr int64_t kInlineIntBytes = 64 * 1024;
// A sparse tensor is written out in full.
constexpr int64_t kMaxDenseBytes = int64_t(1) << 30;
constexpr int kMaxTextNesting = 100;

std::string quoted(const std::string &name) { return "'" + name + "'"; }

// Bits of an element in raw_data, 0 for strings, -1 if unknown.
int storageBits(int type) {
  switch (type) {
  case T::STRING:
    return 0;
  case T::BOOL:
  case T::INT8:
  case T::UINT8:
  case T::FLOAT8E4M3FN:
  case T::FLOAT8E4M3FNUZ:
  case T::FLOAT8E5M2:
  case T::FLOAT8E5M2FNUZ:
  case T::FLOAT8E8M0:
    return 8;
  case T::INT16:
  case T::UINT16:
  case T::FLOAT16:
  case T::BFLOAT16:
    return 16;
  case T::INT32:
  case T::UINT32:
  case T::FLOAT:
    return 32;
  case T::INT64:
  case T::UINT64:
  case T::DOUBLE:
  case T::COMPLEX64:
    return 64;
  case T::COMPLEX128:
    return 128;
  case T::INT4:
  case T::UINT4:
  case T::FLOAT4E2M1:
    return 4;
  case T::INT2:
  case T::UINT2:
    return 2;
  case T::FLOAT6E2M3:
  case T::FLOAT6E3M2:
    return 6;
  default:
    return -1;
  }
}

int64_t storageBytes(const T &tensor, const std::string &where) {
  int64_t bits, rounded;
  int width = storageBits(tensor.data_type());
  if (width < 0)
    throw ImportError(where + ": unknown element type " + std::to_string(tensor.data_type()));
  if (llvm::MulOverflow<int64_t>(elementCount(tensor, where), width, bits) ||
      llvm::AddOverflow<int64_t>(bits, 7, rounded))
    throw ImportError(where + ": the size of the tensor overflows");
  return rounded / 8;
}

// Typed fields to raw_data layout. One entry an element, but 4-bit and 2-bit
// elements come a byte an entry.
std::vector<char> typedBytes(const T &t, int64_t bytes, const std::string &where) {
  std::vector<char> raw((size_t)bytes);
  int64_t count = elementCount(t, where);
  auto expect = [&](const char *field, int64_t found, int64_t wanted) {
    if (found != wanted)
      throw ImportError(where + ": " + field + " has " + std::to_string(found) +
                        " entries, the shape needs " + std::to_string(wanted));
  };
  auto copy = [&](const char *field, const auto &values, int64_t wanted) {
    expect(field, values.size(), wanted);
    if (wanted)
      std::memcpy(raw.data(), values.data(), raw.size());
  };
  switch (t.data_type()) {
  case T::FLOAT:
    copy("float_data", t.float_data(), count);
    break;
  case T::COMPLEX64:
    copy("float_data", t.float_data(), 2 * count);
    break;
  case T::DOUBLE:
    copy("double_data", t.double_data(), count);
    break;
  case T::COMPLEX128:
    copy("double_data", t.double_data(), 2 * count);
    break;
  case T::INT64:
    copy("int64_data", t.int64_data(), count);
    break;
  case T::INT32:
    copy("int32_data", t.int32_data(), count);
    break;
  case T::UINT64:
    copy("uint64_data", t.uint64_data(), count);
    break;
  case T::UINT32: {
    expect("uint64_data", t.uint64_data_size(), count);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t v = (uint32_t)t.uint64_data(i);
      if (v != t.uint64_data(i))
        throw ImportError(where + ": value " + std::to_string(t.uint64_data(i)) +
                          " does not fit uint32");
      std::memcpy(raw.data() + 4 * i, &v, 4);
    }
    break;
  }
  default: {
    int bits = storageBits(t.data_type());
    if (bits == 6) {
      expect("int32_data", t.int32_data_size(), count);
      for (int64_t i = 0; i < count; ++i) {
        uint32_t v = (uint32_t)t.int32_data(i);
        if (v > 63)
          throw ImportError(where + ": int32_data value " + std::to_string(t.int32_data(i)) +
                            " has more than 6 bits");
        int64_t bit = 6 * i;
        raw[bit / 8] |= (char)(v << (bit % 8));
        if (bit % 8 > 2)
          raw[bit / 8 + 1] |= (char)(v >> (8 - bit % 8));
      }
      break;
    }
    int width = std::max(bits, 8) / 8;
    expect("int32_data", t.int32_data_size(), bytes / width);
    for (int64_t i = 0; i < bytes / width; ++i) {
      int32_t v = t.int32_data(i);
      int32_t low = -(1 << (8 * width - 1)), high = (1 << (8 * width)) - 1;
      if (v < low || v > high)
        throw ImportError(where + ": int32_data value " + std::to_string(v) + " does not fit " +
                          std::to_string(8 * width) + " bits");
      if (t.data_type() == T::BOOL)
        v = v != 0;
      std::memcpy(raw.data() + width * i, &v, width);
    }
  }
  }
  return raw;
}

// Read-only mapping of a file of external data, shared by all its tensors.
struct Mapping {
  const char *data = nullptr;
  size_t size = 0;
  ~Mapping() {
    if (data)
      munmap(const_cast<char *>(data), size);
  }
};

class Loader {
public:
  Loader(Model &model, const ImportOptions &options) : model(model), options(options) {}

  void run() {
    parse();
    complete(*model.proto.mutable_graph());
    for (FunctionProto &f : *model.proto.mutable_functions())
      for (NodeProto &node : *f.mutable_node())
        completeNode(node);
    densify(*model.proto.mutable_graph());
    for (FunctionProto &f : *model.proto.mutable_functions())
      for (NodeProto &node : *f.mutable_node())
        densifyNode(node);
    forEachTensor(model.proto,
                  [&](T &tensor, const std::string &where) { detach(tensor, where); });
    checkOverlaps();
  }

private:
  void parse() {
    int fd = open(model.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      throw ImportError("cannot open model: " + std::string(strerror(errno)));
    llvm::scope_exit closer([&] { close(fd); });
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
      throw ImportError("not a regular file");
    if (st.st_size == 0)
      throw ImportError("the file is empty");
    if (st.st_size > INT32_MAX)
      throw ImportError("the file has " + std::to_string(st.st_size) +
                        " bytes; protobuf ends at 2 GiB, larger weights belong in external data");
    char head[64];
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got <= 0)
      throw ImportError("cannot read model: " + std::string(strerror(errno)));
    llvm::StringRef start(head, got);
    start = start.ltrim(" \t\r\n");
    // Neither character can begin a binary ModelProto.
    if (start.starts_with("<") || start.starts_with("#"))
      parseText(fd, st.st_size);
    else
      parseBinary(fd);
  }

  void parseBinary(int fd) {
    google::protobuf::io::FileInputStream file(fd, 1 << 20);
    google::protobuf::io::CodedInputStream coded(&file);
    if (!model.proto.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
      throw ImportError("not an ONNX model, or damaged: the protobuf does not parse");
    if (!model.proto.has_graph())
      throw ImportError("the model has no graph");
  }

  void parseText(int fd, size_t size) {
    std::string text(size, '\0');
    for (size_t done = 0; done < size;) {
      ssize_t got = pread(fd, text.data() + done, size - done, done);
      if (got <= 0)
        throw ImportError("cannot read model");
      done += got;
    }
    checkNesting(text);
    ::onnx::OnnxParser parser(text);
    auto status = parser.Parse(model.proto);
    if (!status.IsOK())
      throw ImportError("text model: " + status.ErrorMessage());
    if (!parser.EndOfInput())
      throw ImportError("text model: more text after the model");
  }

  // The parser is recursive.
  static void checkNesting(const std::string &text) {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == '#') {
        i = std::min(text.find('\n', i), text.size());
      } else if (c == '"') {
        for (++i; i < text.size() && text[i] != '"'; ++i)
          i += text[i] == '\\';
      } else {
        depth += (c == '{' || c == '(') - (c == '}' || c == ')');
        if (depth > kMaxTextNesting)
          throw ImportError("the text is nested more than " + std::to_string(kMaxTextNesting) +
                            " levels deep");
      }
    }
  }

  // Fields that writers leave out and the checker insists on.
  void complete(GraphProto &graph) {
    if (graph.name().empty())
      graph.set_name("main");
    for (NodeProto &node : *graph.mutable_node())
      completeNode(node);
  }
  void completeNode(NodeProto &node) {
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (!a.has_type() || a.type() == AttributeProto::UNDEFINED) {
        using A = AttributeProto;
        a.set_type(a.has_f()                ? A::FLOAT
                   : a.has_i()              ? A::INT
                   : a.has_s()              ? A::STRING
                   : a.has_t()              ? A::TENSOR
                   : a.has_g()              ? A::GRAPH
                   : a.has_tp()             ? A::TYPE_PROTO
                   : a.has_sparse_tensor()  ? A::SPARSE_TENSOR
                   : a.floats_size()        ? A::FLOATS
                   : a.ints_size()          ? A::INTS
                   : a.strings_size()       ? A::STRINGS
                   : a.tensors_size()       ? A::TENSORS
                   : a.graphs_size()        ? A::GRAPHS
                                            : A::UNDEFINED);
        if (a.type() == A::UNDEFINED && !a.has_ref_attr_name())
          fail(node, "attribute " + quoted(a.name()) + " has no type and no value");
      }
      if (a.has_g())
        complete(*a.mutable_g());
      for (GraphProto &g : *a.mutable_graphs())
        complete(g);
    }
  }

  //===--------------------------------------------------------------------===//
  // Sparse tensors
  //===--------------------------------------------------------------------===//

  void densify(GraphProto &graph) {
    for (auto &sparse : *graph.mutable_sparse_initializer())
      toDense(sparse, *graph.add_initializer(),
              "sparse initialiser " + quoted(sparse.values().name()));
    graph.clear_sparse_initializer();
    for (NodeProto &node : *graph.mutable_node())
      densifyNode(node);
  }
  void densifyNode(NodeProto &node) {
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        densify(*a.mutable_g());
      for (GraphProto &g : *a.mutable_graphs())
        densify(g);
      if (a.sparse_tensors_size())
        fail(node, "attribute " + quoted(a.name()) + ": lists of sparse tensors are not supported");
      if (!a.has_sparse_tensor())
        continue;
      if (node.op_type() != "Constant" || a.name() != "sparse_value")
        fail(node, "attribute " + quoted(a.name()) + ": sparse tensors are not supported here");
      T dense;
      toDense(a.sparse_tensor(), dense, describe(node));
      dense.clear_name();
      a.clear_sparse_tensor();
      a.set_name("value");
      a.set_type(AttributeProto::TENSOR);
      a.mutable_t()->Swap(&dense);
    }
  }

  void toDense(const ::onnx::SparseTensorProto &sparse, T &dense, const std::string &where) {
    T values = sparse.values(), indices = sparse.indices();
    dense.set_name(values.name());
    dense.set_data_type(values.data_type());
    *dense.mutable_dims() = sparse.dims();
    if (values.data_location() == T::EXTERNAL || indices.data_location() == T::EXTERNAL)
      throw ImportError(where + ": external sparse tensors are not supported");
    int bits = storageBits(values.data_type());
    if (bits < 8)
      throw ImportError(where + ": sparse tensors of this element type are not supported");
    int64_t bytes = storageBytes(dense, where);
    if (bytes > kMaxDenseBytes)
      throw ImportError(where + ": " + std::to_string(bytes) + " bytes when written out, over " +
                        std::to_string(kMaxDenseBytes));
    int64_t rank = dense.dims_size(), total = elementCount(dense, where);
    int64_t nnz = values.dims_size() == 1 ? values.dims(0) : -1;
    if (nnz < 0)
      throw ImportError(where + ": the values must have rank 1");
    bool linear = indices.dims_size() == 1 && indices.dims(0) == nnz;
    bool coordinates =
        indices.dims_size() == 2 && indices.dims(0) == nnz && indices.dims(1) == rank;
    if (nnz && (indices.data_type() != T::INT64 || (!linear && !coordinates)))
      throw ImportError(where + ": the indices must be int64 of shape [values] or [values, rank]");
    std::vector<char> from = fieldBytes(values, where), at = fieldBytes(indices, where);
    const auto *index = reinterpret_cast<const int64_t *>(at.data());
    std::string raw((size_t)bytes, '\0');
    int64_t previous = -1, width = bits / 8;
    for (int64_t i = 0; i < nnz; ++i) {
      int64_t position = linear ? index[i] : 0;
      bool inside = position >= 0 && position < total;
      for (int64_t k = 0; !linear && k < rank; ++k) {
        int64_t x = index[i * rank + k];
        inside &= x >= 0 && x < dense.dims(k);
        position = inside ? position * dense.dims(k) + x : 0;
      }
      if (!inside || position <= previous)
        throw ImportError(where + ": index " + std::to_string(i) +
                          (inside ? " is not in ascending order" : " is out of range"));
      previous = position;
      std::memcpy(raw.data() + position * width, from.data() + i * width, width);
    }
    dense.set_raw_data(std::move(raw));
  }

  std::vector<char> fieldBytes(const T &t, const std::string &where) {
    int64_t bytes = storageBytes(t, where);
    if (!t.has_raw_data())
      return typedBytes(t, bytes, where);
    if ((int64_t)t.raw_data().size() != bytes)
      throw ImportError(where + ": raw_data size does not match the shape");
    return {t.raw_data().begin(), t.raw_data().end()};
  }

  //===--------------------------------------------------------------------===//
  // Payloads
  //===--------------------------------------------------------------------===//

  void detach(T &t, const std::string &where) {
    int64_t bytes = storageBytes(t, where);
    if (bytes > options.maxTensorBytes)
      throw ImportError(where + ": " + std::to_string(bytes) + " bytes, over the limit of " +
                        std::to_string(options.maxTensorBytes));
    if (t.has_segment())
      throw ImportError(where + ": segmented tensors are not supported");
    if (t.data_type() == T::STRING) {
      if (t.has_raw_data() || t.data_location() == T::EXTERNAL)
        throw ImportError(where + ": strings must be in string_data");
      if (t.string_data_size() != elementCount(t, where))
        throw ImportError(where + ": string_data has " + std::to_string(t.string_data_size()) +
                          " entries, the shape needs " + std::to_string(elementCount(t, where)));
      return;
    }
    bool isInt = t.data_type() == T::INT64 || t.data_type() == T::INT32;
    bool keep = bytes <= (isInt ? kInlineIntBytes : kInlineBytes);
    if (t.data_location() == T::EXTERNAL) {
      if (t.has_raw_data() || t.float_data_size() || t.int32_data_size() || t.int64_data_size() ||
          t.double_data_size() || t.uint64_data_size())
        throw ImportError(where + ": has both external data and data of its own");
      Payload payload = external(t, bytes, where);
      t.clear_external_data();
      t.clear_data_location();
      if (keep)
        t.set_raw_data(payload.bytes.data(), payload.bytes.size());
      else
        store(t, std::move(payload), where);
      return;
    }
    if (t.has_raw_data()) {
      if ((int64_t)t.raw_data().size() != bytes)
        throw ImportError(where + ": raw_data has " + std::to_string(t.raw_data().size()) +
                          " bytes, shape and type need " + std::to_string(bytes));
      if (keep) {
        if (t.data_type() == T::BOOL)
          for (char &c : *t.mutable_raw_data())
            c = c != 0;
        return;
      }
      auto owner = std::make_shared<std::string>();
      owner->swap(*t.mutable_raw_data());
      t.clear_raw_data();
      store(t, {{owner->data(), owner->size()}, owner}, where);
      return;
    }
    if (bytes == 0)
      return;
    auto owner = std::make_shared<std::vector<char>>(typedBytes(t, bytes, where));
    if (keep)
      return; // checked, and read again when the module is built
    t.clear_float_data();
    t.clear_int32_data();
    t.clear_int64_data();
    t.clear_double_data();
    t.clear_uint64_data();
    store(t, {{owner->data(), owner->size()}, owner}, where);
  }

  void store(T &t, Payload payload, const std::string &where) {
    if (t.data_type() == T::BOOL &&
        llvm::any_of(payload.bytes, [](char c) { return c != 0 && c != 1; })) {
      auto owner = std::make_shared<std::vector<char>>(payload.bytes.begin(), payload.bytes.end());
      for (char &c : *owner)
        c = c != 0;
      payload = {{owner->data(), owner->size()}, owner};
    }
    auto *entry = t.add_external_data();
    entry->set_key("location");
    entry->set_value(std::to_string(model.payloads.size()));
    model.payloads.push_back(std::move(payload));
  }

  Payload external(const T &t, int64_t bytes, const std::string &where) {
    std::string location;
    int64_t offset = 0, length = -1;
    for (auto &e : t.external_data()) {
      auto number = [&]() -> int64_t {
        int64_t value;
        if (llvm::StringRef(e.value()).getAsInteger(10, value) || value < 0)
          throw ImportError(where + ": external data " + e.key() + " is " + quoted(e.value()) +
                            ", not a number of bytes");
        return value;
      };
      if (e.key() == "location")
        location = e.value();
      else if (e.key() == "offset")
        offset = number();
      else if (e.key() == "length")
        length = number();
    }
    if (length >= 0 && length != bytes)
      throw ImportError(where + ": external data has length " + std::to_string(length) +
                        ", shape and type need " + std::to_string(bytes));
    std::shared_ptr<Mapping> file = map(location, where);
    int64_t size = file->size;
    if (offset > size || bytes > size - offset)
      throw ImportError(where + ": external data " + quoted(location) + " has " +
                        std::to_string(size) + " bytes, the tensor needs " +
                        std::to_string(bytes) + " from " + std::to_string(offset));
    if (bytes)
      ranges[file.get()].push_back({offset, bytes, where});
    return {{file->data + offset, (size_t)bytes}, file};
  }

  std::shared_ptr<Mapping> map(const std::string &location, const std::string &where) {
    if (location.empty() || location.find('\0') != std::string::npos)
      throw ImportError(where + ": external data without a location");
    auto it = files.find(location);
    if (it != files.end())
      return it->second;
    auto refuse = [&](const std::string &why) {
      throw ImportError(where + ": external data " + quoted(location) + ": " + why);
    };
    if (location[0] == '/')
      refuse("the path is absolute");
    for (llvm::StringRef rest = location; !rest.empty();) {
      auto [part, tail] = rest.split('/');
      if (part == "..")
        refuse("the path leaves the folder of the model");
      rest = tail;
    }
    int dir = open(model.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
      refuse("cannot open the folder of the model");
    int fd = openBeneath(dir, location);
    int error = errno;
    close(dir);
    if (fd < 0)
      refuse(error == ELOOP  ? "symbolic links are not followed"
             : error == EXDEV ? "the path leaves the folder of the model"
                              : strerror(error));
    llvm::scope_exit closer([&] { close(fd); });
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
      refuse("not a regular file");
    auto mapping = std::make_shared<Mapping>();
    mapping->size = st.st_size;
    if (mapping->size) {
      void *data = mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (data == MAP_FAILED)
        refuse("cannot map: " + std::string(strerror(errno)));
      mapping->data = static_cast<const char *>(data);
    }
    files.emplace(location, mapping);
    model.externalFiles.push_back(model.folder + "/" + location);
    return mapping;
  }

  // No symbolic link, no way out of the folder, also against renames meanwhile.
  static int openBeneath(int dir, const std::string &location) {
    struct open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    int fd = syscall(SYS_openat2, dir, location.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != ENOSYS)
      return fd;
    // Older kernels: one component at a time.
    int current = dup(dir);
    llvm::StringRef rest = location;
    while (current >= 0) {
      auto [part, tail] = rest.split('/');
      bool last = tail.empty();
      int next = openat(current, part.empty() ? "." : part.str().c_str(),
                        O_CLOEXEC | O_NOFOLLOW | (last ? O_RDONLY | O_NONBLOCK
                                                       : O_PATH | O_DIRECTORY));
      int error = errno;
      close(current);
      errno = error;
      if (next < 0 || last)
        return next;
      current = next;
      rest = tail;
    }
    return -1;
  }

  // Two tensors may share one range, but not parts of it.
  void checkOverlaps() {
    for (auto &[file, list] : ranges) {
      llvm::sort(list, [](const Range &a, const Range &b) {
        return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
      });
      const Range *previous = nullptr;
      for (const Range &r : list) {
        bool same = previous && previous->offset == r.offset && previous->bytes == r.bytes;
        if (previous && !same && r.offset < previous->offset + previous->bytes)
          throw ImportError(r.where + ": external data overlaps that of " + previous->where);
        previous = &r;
      }
    }
  }

  struct Range {
    int64_t offset, bytes;
    std::string where;
  };
  Model &model;
  const ImportOptions &options;
  std::map<std::string, std::shared_ptr<Mapping>> files;
  std::map<const Mapping *, std::vector<Range>> ranges;
};

} // namespace

int64_t elementCount(const TensorProto &tensor, const std::string &where) {
  int64_t count = 1;
  bool zero = false, overflow = false;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0)
      throw ImportError(where + ": negative dimension " + std::to_string(dim));
    zero |= dim == 0;
    overflow |= llvm::MulOverflow<int64_t>(count, std::max<int64_t>(dim, 1), count);
  }
  if (overflow)
    throw ImportError(where + ": the size of the tensor overflows");
  return zero ? 0 : count;
}

void loadModel(Model &model, const ImportOptions &options) { Loader(model, options).run(); }

// While a tensor is detached it pretends to have no elements, which the checker
// accepts; its dimensions wait in the external data entries.
static bool isDetached(const TensorProto &t) { return t.external_data_size() != 0; }

void checkWithoutPayloads(Model &model, const std::function<void()> &check) {
  std::vector<std::pair<TensorProto *, TensorProto>> saved;
  forEachTensor(model.proto, [&](TensorProto &t, const std::string &) {
    if (!isDetached(t))
      return;
    TensorProto meta;
    *meta.mutable_dims() = t.dims();
    *meta.mutable_external_data() = t.external_data();
    t.clear_dims();
    t.add_dims(0);
    t.clear_external_data();
    saved.emplace_back(&t, std::move(meta));
  });
  check();
  for (auto &[t, meta] : saved) {
    *t->mutable_dims() = meta.dims();
    *t->mutable_external_data() = meta.external_data();
    t->set_data_location(TensorProto::EXTERNAL);
  }
}

llvm::ArrayRef<char> tensorBytes(const Model &model, const TensorProto &t,
                                 std::vector<char> &storage, std::shared_ptr<const void> &owner) {
  if (isDetached(t)) {
    const Payload &payload = model.payloads.at(std::stoul(t.external_data(0).value()));
    owner = payload.owner;
    return payload.bytes;
  }
  owner = nullptr;
  if (t.has_raw_data())
    return {t.raw_data().data(), t.raw_data().size()};
  std::string where = "tensor " + quoted(t.name());
  storage = typedBytes(t, storageBytes(t, where), where);
  return storage;
}

} // namespace tessera::onnx_import
