// The model before quantisation: read and checked by the importer's own phases,
// payloads back in their tensors, an operator set in which per-channel
// DequantizeLinear exists, and BatchNormalization folded where that is exact in
// form.
#ifndef TESSERA_PASSES_QUANTISE_PREPARE_H
#define TESSERA_PASSES_QUANTISE_PREPARE_H

#include "passes/Quantise/Calibrate.h"
#include "passes/Quantise/Graph.h"

namespace tessera::quantise {

/// Reads a model of any size that the importer takes. Throws Refusal.
/// `externalFiles`, if given, receives the paths of the external data read.
ModelProto loadOriginal(const std::string &path,
                        std::vector<std::string> *externalFiles = nullptr);

/// Operator sets below 13 have no DequantizeLinear with an axis: they are
/// converted to 13 by ONNX's version converter. Returns the old version, or 0
/// if it stayed.
int64_t raiseOpset(ModelProto &model);

/// Conv or ConvTranspose followed by BatchNormalization alone becomes one Conv.
/// Returns how many were folded.
int foldBatchNorms(ModelProto &model);

/// Weights of products that constant nodes compute (Transpose, Reshape,
/// Identity of an initialiser) become initialisers; the values come from
/// running those nodes.
int foldWeights(ModelProto &model, const CompileFunction &compile);

/// At most `most` samples, spread over the data, which may be in some order.
std::vector<Sample> spread(const SampleSource &source, size_t most);
/// As many of those that spread() leaves out; of all, if it leaves none out.
std::vector<Sample> othersThan(const SampleSource &source, size_t most);

/// Fixes the dimensions of the model's inputs to those of the samples, if these
/// are all alike.
void fixInputs(ModelProto &model, const SampleSource &source);

} // namespace tessera::quantise
#endif
