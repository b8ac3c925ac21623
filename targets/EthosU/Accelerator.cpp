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

} // namespace tessera::ethosu
