#include "compiler/Driver/BuildId.h"
#include "llvm/Support/Debug.h"
#include "mlir/IR/MLIRContext.h"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>

namespace tessera {
namespace {

struct Search {
  uintptr_t inside; ///< an address of the object wanted
  std::string id;
};

bool holds(const dl_phdr_info &object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto &segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && address - (object.dlpi_addr + segment.p_vaddr) < segment.p_memsz)
      return true;
  }
  return false;
}

std::string idOf(const char *note, const char *end) {
  while (end - note >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const char *name = note + sizeof header, *bytes = name + (header.n_namesz + 3) / 4 * 4;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
      return std::string(bytes, header.n_descsz);
    note = bytes + (header.n_descsz + 3) / 4 * 4;
  }
  return "";
}

int visit(dl_phdr_info *object, size_t, void *argument) {
  auto &search = *static_cast<Search *>(argument);
  if (!holds(*object, search.inside))
    return 0;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    const auto &segment = object->dlpi_phdr[i];
    const char *begin = reinterpret_cast<const char *>(object->dlpi_addr + segment.p_vaddr);
    if (segment.p_type == PT_NOTE)
      search.id = idOf(begin, begin + segment.p_memsz);
  }
  return 1;
}

} // namespace

static std::string idAround(uintptr_t address) {
  Search search{address, ""};
  dl_iterate_phdr(visit, &search);
  return search.id;
}

std::string buildId() {
  static const char here = 0;
  std::string all;
  for (uintptr_t inside : {reinterpret_cast<uintptr_t>(&here), reinterpret_cast<uintptr_t>(&llvm::dbgs),
                           reinterpret_cast<uintptr_t>(&mlir::registerMLIRContextCLOptions)}) {
    std::string id = idAround(inside);
    if (id.empty())
      return "";
    all += id;
  }
  return all;
}

} // namespace tessera
