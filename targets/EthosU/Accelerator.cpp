#include "targets/EthosU/Accelerator.h"

namespace tessera::ethosu {

llvm::StringRef familyName(Family family) {
  switch (family) {
  case Family::U55:
    return "Ethos-U55";
  case Family::U65:
    return "Ethos-U65";
  case Family::U85:
    return "Ethos-U85";
  }
  return "";
}

llvm::ArrayRef<Accelerator> allAccelerators() {
  static const Accelerator all[] = {
      {"ethos-u55-32", Family::U55, 32},
      {"ethos-u55-64", Family::U55, 64},
      {"ethos-u55-128", Family::U55, 128},
      {"ethos-u55-256", Family::U55, 256},
      {"ethos-u65-256", Family::U65, 256},
      {"ethos-u65-512", Family::U65, 512},
      {"ethos-u85-128", Family::U85, 128},
      {"ethos-u85-256", Family::U85, 256},
      {"ethos-u85-512", Family::U85, 512},
      {"ethos-u85-1024", Family::U85, 1024},
      {"ethos-u85-2048", Family::U85, 2048},
  };
  return all;
}

std::optional<Accelerator> findAccelerator(llvm::StringRef config) {
  for (const Accelerator &a : allAccelerators())
    if (a.config == config)
      return a;
  return std::nullopt;
}

llvm::ArrayRef<llvm::StringRef> systemConfigs(Family family) {
  static const llvm::StringRef u55[] = {"Ethos_U55_Deep_Embedded",
                                        "Ethos_U55_High_End_Embedded"};
  static const llvm::StringRef u65[] = {
      "Ethos_U65_Embedded", "Ethos_U65_Mid_End", "Ethos_U65_High_End",
      "Ethos_U65_Client_Server"};
  static const llvm::StringRef u85[] = {
      "Ethos_U85_SYS_Flash_Low", "Ethos_U85_SYS_Flash_High",
      "Ethos_U85_SYS_DRAM_Low", "Ethos_U85_SYS_DRAM_Mid",
      "Ethos_U85_SYS_DRAM_High"};
  return family == Family::U55   ? llvm::ArrayRef(u55)
         : family == Family::U65 ? llvm::ArrayRef(u65)
                                 : llvm::ArrayRef(u85);
}

llvm::ArrayRef<llvm::StringRef> memoryModes(Family family) {
  static const llvm::StringRef modes[] = {"Sram_Only",
                                          "Shared_Sram",
                                          "Dedicated_Sram",
                                          "Dedicated_Sram_256KB",
                                          "Dedicated_Sram_384KB",
                                          "Dedicated_Sram_512KB"};
  return llvm::ArrayRef(modes).take_front(family == Family::U55 ? 2 : 6);
}

} // namespace tessera::ethosu
