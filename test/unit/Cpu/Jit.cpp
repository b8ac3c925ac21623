#include "test/unit/Cpu/Jit.h"
#include "dialects/Onnx/IR/OnnxDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

using namespace mlir;

namespace tessera::test {

static MLIRContext &context() {
  static auto *c = [] {
    DialectRegistry registry;
    registry.insert<onnx::OnnxDialect, tsr::TsrDialect, func::FuncDialect>();
    cpu::registerCodegenDialects(registry);
    auto *made = new MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *c;
}

Jit::Jit(const std::vector<OpSpec> &specs, llvm::StringRef isa, bool load) {
  MLIRContext &ctx = context();
  std::vector<OwningOpRef<ModuleOp>> modules;
  std::vector<cpu::KernelSource> sources;
  for (const OpSpec &s : specs) {
    std::string args, operands, types;
    SmallVector<bool> scalar;
    for (size_t i = 0; i < s.operands.size(); ++i) {
      if (i)
        operands += ", ";
      if (s.operands[i].empty()) {
        operands += "none";
        continue;
      }
      if (!args.empty())
        args += ", ", types += ", ";
      bool one = i < s.scalar.size() && s.scalar[i];
      scalar.push_back(one);
      std::string type = (one ? "tensor<" : "tensor<?x") + s.operands[i] + ">";
      args += "%a" + std::to_string(i) + ": " + type;
      operands += "%a" + std::to_string(i);
      types += type;
    }
    std::string result = "tensor<?x" + s.result + ">";
    std::string text = "func.func @f(" + args + ") -> " + result + " {\n  %r = " + s.name + "(" + operands + ") {" +
                       s.attributes + "} : (" + types + ") -> " + result + "\n  return %r : " + result + "\n}\n";
    modules.push_back(parseSourceString<ModuleOp>(text, &ctx));
    if (!modules.back()) {
      llvm::errs() << text;
      return;
    }
    auto func = *modules.back()->getOps<func::FuncOp>().begin();
    Operation *op = &func.getBody().front().front();
    OpBuilder b(op);
    SmallVector<Attribute> dims;
    for (bool one : scalar)
      dims.push_back(one ? b.getDenseI64ArrayAttr({}) : b.getDenseI64ArrayAttr({-1}));
    dims.push_back(b.getDenseI64ArrayAttr({-1}));
    SmallVector<int32_t> layouts(dims.size(), 0);
    auto dispatch = tsr::DispatchOp::create(b, op->getLoc(), op->getResultTypes(), func.getArguments(),
                                            tsr::KernelClass::Elementwise, -1, 1, b.getArrayAttr(dims),
                                            b.getDenseI32ArrayAttr(layouts));
    Block *body = b.createBlock(&dispatch.getBody());
    IRMapping map;
    for (Value v : func.getArguments())
      map.map(v, body->addArgument(v.getType(), v.getLoc()));
    Operation *copy = b.clone(*op, map);
    tsr::YieldOp::create(b, op->getLoc(), copy->getResults());
    cpu::Reasons reasons;
    if (!cpu::isElementwise(copy) || failed(cpu::matchElementwise(copy, reasons))) {
      llvm::errs() << s.name << " is refused\n";
      for (auto &r : reasons.all)
        llvm::errs() << "  " << r << "\n";
      return;
    }
    sources.push_back({dispatch});
  }
  auto variant = cpu::compileVariant(sources, *cpu::findIsa(isa), &ctx);
  if (failed(variant))
    return;
  if (!load) {
    made = true;
    return;
  }
  std::string path = "/tmp/tessera-jit-XXXXXX";
  int fd = mkstemp(path.data());
  if (write(fd, variant->image.data(), variant->image.size()) == static_cast<ssize_t>(variant->image.size()))
    image = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (const char *keep = getenv("TESSERA_KEEP_JIT"))
    rename(path.c_str(), keep);
  else
    unlink(path.c_str());
  if (!image) {
    llvm::errs() << dlerror() << "\n";
    return;
  }
  link_map *map = nullptr;
  dlinfo(image, RTLD_DI_LINKMAP, &map);
  base = map->l_addr;
  entries = variant->entries;
  made = true;
}

Jit::~Jit() {
  if (image)
    dlclose(image);
}

int32_t Jit::run(size_t i, std::vector<const void *> buffers, int64_t n) const {
  buffers.push_back(nullptr); // scratch
  int64_t scalars[2] = {n, 1};
  return reinterpret_cast<Kernel>(base + entries[i])(const_cast<void *const *>(buffers.data()), scalars, 0);
}

std::vector<std::string> runnableIsas() {
  std::vector<std::string> isas;
#if defined(__x86_64__)
  __builtin_cpu_init();
  isas.push_back("x86-64-v2");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    isas.push_back("x86-64-v3");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
    isas.push_back("x86-64-v4");
#elif defined(__aarch64__)
  isas.push_back("aarch64-neon");
#endif
  return isas;
}

} // namespace tessera::test
