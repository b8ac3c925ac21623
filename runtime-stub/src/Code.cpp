// Kernel images: freestanding position-independent ELF files.
//
// An image is accepted only if it needs nothing: no libraries, no symbols, no
// constructors, no thread-local data, relative relocations alone, no page that
// is both writable and executable, and no writable data that survives loading
// (instances on several threads share the code). All numbers are checked on
// the copy that runs.
//
// Placing works inside the copied file: a loadable segment's address is never
// below its file offset, so moving the segments upwards from the last to the
// first overwrites nothing that is still needed.
#include "runtime-stub/src/Bundle.h"

#include "runtime-stub/arch/Arch.h"

namespace tsr {
namespace {

constexpr u16 kMachineX86 = 62, kMachineAArch64 = 183;
constexpr u32 kMaxSegments = 16;
constexpr u64 kMaxSpan = u64(1) << 31;

struct ElfHeader {
  u8 ident[16];
  u16 type, machine;
  u32 version;
  u64 entry, phoff, shoff;
  u32 flags;
  u16 ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct ProgramHeader {
  u32 type, flags;
  u64 offset, vaddr, paddr, filesz, memsz, align;
};
struct Rela {
  u64 offset, info;
  i64 addend;
};
static_assert(sizeof(ElfHeader) == 64 && sizeof(ProgramHeader) == 56 &&
                  sizeof(Rela) == 24,
              "ELF64 structures");

enum : u32 {
  kLoad = 1,
  kDynamic = 2,
  kInterp = 3,
  kTls = 7,
  kGnuStack = 0x6474e551,
  kGnuRelro = 0x6474e552
};
enum : u32 { kExecute = 1, kWrite = 2 };

/// Headers of one image, read from memory that may not be trusted.
class ElfView {
public:
  ElfView(const u8 *file, u64 size) : file(file), size(size) {}

  /// Null, or what is wrong.
  const char *read(u16 machine) {
    static constexpr u8 kIdent[7] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    if (size < sizeof(ElfHeader))
      return "too short";
    ElfHeader header = load<ElfHeader>(file);
    for (u32 i = 0; i < sizeof(kIdent); ++i)
      if (header.ident[i] != kIdent[i])
        return "no little-endian ELF64 file";
    if (header.type != 3 || header.machine != machine)
      return "no shared object of the variant's machine";
    if (machine != kMachineX86 && machine != kMachineAArch64)
      return "a machine this loader does not know";
    if (header.phentsize != sizeof(ProgramHeader) || header.phnum > 64 ||
        !within(header.phoff, u64(header.phnum) * sizeof(ProgramHeader), size))
      return "program headers outside the file";
    for (u32 i = 0; i < header.phnum; ++i)
      if (const char *problem = programHeader(load<ProgramHeader>(
              file + header.phoff + i * sizeof(ProgramHeader))))
        return problem;
    if (!loadCount)
      return "nothing to load";
    if (const char *problem = checkWritable())
      return problem;
    return dynamicBytes ? readDynamic(machine) : nullptr;
  }

  /// The whole file part of a loaded range, or false.
  bool toFile(u64 address, u64 length, u64 &offset) const {
    for (u32 i = 0; i < loadCount; ++i)
      if (address >= loads[i].vaddr &&
          within(address - loads[i].vaddr, length, loads[i].filesz)) {
        offset = loads[i].offset + (address - loads[i].vaddr);
        return true;
      }
    return false;
  }
  bool isCode(u64 address) const {
    for (u32 i = 0; i < loadCount; ++i)
      if ((loads[i].flags & kExecute) && address >= loads[i].vaddr &&
          address - loads[i].vaddr < loads[i].filesz)
        return true;
    return false;
  }
  u64 span() const {
    return loads[loadCount - 1].vaddr + loads[loadCount - 1].memsz;
  }

  ProgramHeader loads[kMaxSegments];
  u32 loadCount = 0;
  u64 alignment = 4096;
  u64 relaOffset = 0, relaCount = 0; // in the file

private:
  const char *programHeader(const ProgramHeader &p) {
    switch (p.type) {
    case kInterp:
    case kTls:
      return "an interpreter or thread-local data";
    case kGnuStack:
      return p.flags & kExecute ? "an executable stack" : nullptr;
    case kGnuRelro:
      relroBegin = p.vaddr;
      relroBytes = p.memsz;
      return nullptr;
    case kDynamic:
      dynamicAddress = p.vaddr;
      dynamicBytes = p.filesz;
      return nullptr;
    case kLoad:
      break;
    default:
      return nullptr;
    }
    if (loadCount == kMaxSegments)
      return "too many segments";
    u64 previous = loadCount ? span() : 0;
    u64 previousFile =
        loadCount ? loads[loadCount - 1].offset + loads[loadCount - 1].filesz
                  : 0;
    if (!within(p.offset, p.filesz, size) || p.filesz > p.memsz ||
        p.vaddr < p.offset || p.memsz > kMaxSpan ||
        p.vaddr > kMaxSpan - p.memsz || p.vaddr < previous ||
        p.offset < previousFile)
      return "a segment outside its place";
    if ((p.align & (p.align - 1)) || p.align > 65536 ||
        (p.align && ((p.vaddr ^ p.offset) & (p.align - 1))))
      return "a misaligned segment";
    if ((p.flags & kExecute) && (p.flags & kWrite))
      return "a segment that is writable and executable";
    if (p.align > alignment)
      alignment = p.align;
    loads[loadCount++] = p;
    return nullptr;
  }

  const char *checkWritable() const {
    for (u32 i = 0; i < loadCount; ++i) {
      const ProgramHeader &p = loads[i];
      if ((p.flags & kWrite) && p.memsz &&
          (p.vaddr < relroBegin || p.vaddr + p.memsz > relroBegin + relroBytes))
        return "writable data";
    }
    return nullptr;
  }

  const char *readDynamic(u16 machine) {
    u64 offset = 0, relaAddress = 0, relaBytes = 0, relaEntry = sizeof(Rela);
    if (relroBytes > kMaxSpan || relroBegin > kMaxSpan)
      return "a malformed read-only range";
    if (dynamicBytes % 16 || !toFile(dynamicAddress, dynamicBytes, offset))
      return "a dynamic section outside its segment";
    for (u64 at = 0; at < dynamicBytes; at += 16) {
      i64 tag = load<i64>(file + offset + at);
      u64 value = load<u64>(file + offset + at + 8);
      if (tag == 0)
        break;
      switch (tag) {
      case 7:
        relaAddress = value;
        break;
      case 8:
        relaBytes = value;
        break;
      case 9:
        relaEntry = value;
        break;
      case 1:
        return "a needed library";
      case 2:
      case 17:
      case 18:
      case 19:
      case 20:
      case 22:
      case 23:
      case 35:
      case 36:
      case 37:
        return "relocations that are not relative";
      case 12:
      case 13:
      case 25:
      case 26:
      case 27:
      case 28:
      case 32:
      case 33:
        return "constructors or destructors";
      default:
        break; // names, hash tables and flags do not matter here
      }
    }
    if (!relaBytes)
      return nullptr;
    if (relaEntry != sizeof(Rela) || relaBytes % sizeof(Rela) ||
        !toFile(relaAddress, relaBytes, relaOffset))
      return "relocations outside their segment";
    relaCount = relaBytes / sizeof(Rela);
    u64 wanted = machine == kMachineX86 ? 8 : 1027; // R_*_RELATIVE
    for (u64 i = 0; i < relaCount; ++i) {
      Rela rela = load<Rela>(file + relaOffset + i * sizeof(Rela));
      if (rela.info != wanted)
        return "a relocation that is not relative";
      if (!isWritable(rela.offset) || rela.addend < 0 ||
          u64(rela.addend) > span())
        return "a relocation outside its segment";
    }
    return nullptr;
  }
  bool isWritable(u64 address) const {
    for (u32 i = 0; i < loadCount; ++i)
      if ((loads[i].flags & kWrite) && address >= loads[i].vaddr &&
          within(address - loads[i].vaddr, 8, loads[i].filesz))
        return true;
    return false;
  }

  const u8 *file;
  u64 size;
  u64 dynamicAddress = 0, dynamicBytes = 0;
  u64 relroBegin = 0, relroBytes = 0;
};

/// The page at `begin` holds a part of an executable segment.
bool hasCode(const ProgramHeader *loads, u32 count, u64 begin, u64 page) {
  for (u32 i = 0; i < count; ++i)
    if ((loads[i].flags & kExecute) && loads[i].vaddr < begin + page &&
        loads[i].vaddr + loads[i].memsz > begin)
      return true;
  return false;
}

} // namespace

u16 ownMachine() { return arch::kMachine; }

tsr_status_t checkCode(const u8 *file, u64 size, u16 machine,
                       Vector<u64> entries, const char *name, CodeImage &out,
                       tsr_error_t *error) {
  ElfView elf(file, size);
  if (const char *problem = elf.read(machine))
    return refuse(error, TSR_ERROR_CODE,
                  "code of variant '%s'|%s|a self-contained "
                  "position-independent ELF image",
                  name, problem);
  for (u32 i = 0; i < entries.count; ++i)
    if (!elf.isCode(entries[i]) ||
        (machine == kMachineAArch64 && (entries[i] & 3)))
      return refuse(error, TSR_ERROR_CODE,
                    "code of variant '%s', kernel %u|entry %lu|an address in "
                    "an executable segment",
                    name, i, entries[i]);
  out.file = file;
  out.fileBytes = size;
  out.span = elf.span();
  out.alignment = elf.alignment;
  return TSR_OK;
}

tsr_status_t placeCode(u8 *base, u64 bytes, const CodeImage &image, u16 machine,
                       const tsr_host_t &host, tsr_error_t *error) {
  ElfView elf(base, image.fileBytes);
  if (elf.read(machine) != nullptr)
    return refuse(error, TSR_ERROR_CODE, "code|changed while it was loaded");
  // Relocations are read from their place in the image, so they come last.
  u64 relaAddress = 0;
  for (u32 i = 0; i < elf.loadCount; ++i) {
    const ProgramHeader &p = elf.loads[i];
    if (elf.relaCount && elf.relaOffset >= p.offset &&
        elf.relaOffset < p.offset + p.filesz)
      relaAddress = p.vaddr + (elf.relaOffset - p.offset);
  }
  u64 end = bytes;
  for (u32 i = elf.loadCount; i-- > 0;) {
    const ProgramHeader &p = elf.loads[i];
    moveBytes(base + p.vaddr, base + p.offset, p.filesz);
    setBytes(base + p.vaddr + p.filesz, 0, end - p.vaddr - p.filesz);
    end = p.vaddr;
  }
  setBytes(base, 0, end);
  for (u64 i = 0; i < elf.relaCount; ++i) {
    Rela rela = load<Rela>(base + relaAddress + i * sizeof(Rela));
    u64 value = reinterpret_cast<u64>(base) + u64(rela.addend);
    __builtin_memcpy(base + rela.offset, &value, 8);
  }
  arch::syncInstructions(base, bytes);
  if (!host.protect)
    return TSR_OK;
  // Whole pages; a page that holds code and data is executable.
  u64 page = host.page_size ? host.page_size : 4096;
  u64 begin = 0;
  while (begin < bytes) {
    bool execute = hasCode(elf.loads, elf.loadCount, begin, page);
    u64 stop = begin + page;
    while (stop < bytes &&
           hasCode(elf.loads, elf.loadCount, stop, page) == execute)
      stop += page;
    if (host.protect(host.context, base + begin, stop - begin,
                     execute ? TSR_PROTECT_READ_EXECUTE : TSR_PROTECT_READ))
      return refuse(
          error, TSR_ERROR_HOST,
          "protection of %lu bytes of code|refused by the host|read and "
          "execute|allow anonymous executable memory for this process",
          stop - begin);
    begin = stop;
  }
  return TSR_OK;
}

} // namespace tsr
