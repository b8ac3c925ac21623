// The command line of tsr-run.
#ifndef TESSERA_TSR_RUN_OPTIONS_H
#define TESSERA_TSR_RUN_OPTIONS_H

#include "tools/tsr-run/Gpu.h"

#include <string>
#include <vector>

namespace runner {

struct Options {
  std::string bundle;
  std::vector<std::string> inputs; ///< FILE or NAME=FILE, in order
  std::string inputDir;
  std::string outputDir;
  bool outputPb = false;
  unsigned long bench = 0; ///< runs
  bool ns = false;
  unsigned threads = 1;
  std::string trace;
  std::string variant;
  bool poison = false;
  bool inlineDevices = false;
  bool emulateNpu = false;
  GpuSettings gpu;
  bool check = false;
  bool help = false;
};

/// Throws Usage.
Options parseOptions(int argc, char **argv);
const char *helpText();

} // namespace runner
#endif
