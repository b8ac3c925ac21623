// Judges a placed plan that runs on several devices.
#ifndef TESSERA_COMPILER_MEMORY_LAUNCHVALIDATOR_H
#define TESSERA_COMPILER_MEMORY_LAUNCHVALIDATOR_H

#include "compiler/Bundle/Plan.h"

#include <optional>
#include <string>

namespace tessera {

/// What goes wrong when devices run beside the CPU, or nothing: a range that
/// leaves its device's memory or holds what no device executes; a byte that a
/// launched range uses and another command touches before the fence; a jump or
/// the end of the plan before the fence. Shares no code with the plan builder,
/// the lifetimes or the loader's checks.
std::optional<std::string> validateLaunches(const Plan &plan);

} // namespace tessera
#endif
