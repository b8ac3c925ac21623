// The end metric of a quantised model on calibration samples: built in, or the
// number that a user's command prints.
#ifndef TESSERA_TOOLS_TESSERA_METRIC_H
#define TESSERA_TOOLS_TESSERA_METRIC_H

#include "passes/Quantise/Calibrate.h"

namespace tessera::tool {

/// `metric` is snr (dB of the worst output, median over samples), top1 (share
/// of equal largest elements along the last axis of the first output), or a
/// command for the shell. The command is given two folders, FLOAT and
/// QUANTISED, each with a sub-folder a sample (00000, 00001, ...) of
/// output_0.npy, ...; the last word that it prints is the metric. Throws
/// Refusal.
double measureMetric(const std::string &metric,
                     const quantise::ModelProto &before,
                     const quantise::ModelProto &after,
                     const quantise::SampleSource &samples,
                     const quantise::CompileFunction &compile);

} // namespace tessera::tool
#endif
