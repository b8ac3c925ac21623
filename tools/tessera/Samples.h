// Calibration samples from files.
//
//   DIR/NAME.npz             one sample a file, an array an input by name
//   DIR/<any>/...            one sample a sub-folder: NAME.npy or NAME.pb by
//   input
//                            name, or 0.npy, input_0.pb, ... by position
//   DIR/*.npy, DIR/*.pb      one sample a file, for models with one input
//   FILE.npz                 many samples: arrays calib/NAME with the sample as
//   first
//                            axis; without calib/ in it, one sample
// Files and folders are taken in the order of their names.
#ifndef TESSERA_TOOLS_TESSERA_SAMPLES_H
#define TESSERA_TOOLS_TESSERA_SAMPLES_H

#include "passes/Quantise/Calibrate.h"

namespace tessera::tool {

/// Finds the samples for the inputs of `model`; at most `limit` of them. Throws
/// quantise::Refusal. `hash` receives a digest of the data,
/// `files` the paths that it was made of.
quantise::SampleSource openSamples(const std::string &path,
                                   const quantise::ModelProto &model,
                                   size_t limit, std::string &hash,
                                   std::vector<std::string> *files = nullptr);

} // namespace tessera::tool
#endif
