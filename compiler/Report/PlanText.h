// The plan as text: commands, buffers, scalar programs.
#ifndef TESSERA_COMPILER_REPORT_PLANTEXT_H
#define TESSERA_COMPILER_REPORT_PLANTEXT_H

#include "compiler/Bundle/Plan.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera {
void printPlan(const Plan &plan, llvm::raw_ostream &os);
} // namespace tessera
#endif
