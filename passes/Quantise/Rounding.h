// Rounding of the weights of matrix products with error feedback from the
// calibration samples (Blocks.h).
#ifndef TESSERA_PASSES_QUANTISE_ROUNDING_H
#define TESSERA_PASSES_QUANTISE_ROUNDING_H

#include "passes/Quantise/Blocks.h"
#include "passes/Quantise/Calibrate.h"
#include "passes/Quantise/Decisions.h"

namespace tessera::quantise {

/// What a convolution reads for one output: the channels of its group under a
/// window.
struct Window {
  std::vector<int64_t> kernel, dilations; ///< empty: rows along the last axis
  int64_t first = 0, channels = 0;        ///< of the group; 0: all of them
  auto operator<=>(const Window &) const = default;
};

/// Where the rows come from that a matrix is multiplied with.
struct Rows {
  std::string value;
  Window window;
  auto operator<=>(const Rows &) const = default;
};

/// A product by a constant matrix, as the columns of [n][k].
struct Matrix {
  int unit = 0;
  Rows input;
  int64_t k = 0, n = 0;
  std::vector<float> columns;
  bool biased =
      false; ///< a constant bias takes the mean of what rounding loses
};

/// The matrix of unit `index`, if its root is a plain product by one.
std::optional<Matrix> matrixOf(const Graph &graph, const Unit &unit, int index);

/// The same of a convolution: one such matrix for each of its groups.
std::vector<Matrix> convolutionsOf(const Graph &graph, const Unit &unit,
                                   int index);

/// Rows of a tensor under a window that lies inside of it: `most` of them,
/// spread over all places.
std::vector<float> rowsUnder(const Window &window,
                             const std::vector<int64_t> &dims,
                             const float *values, int64_t most);

/// Moments of the matrices' inputs, which are values of `model`; `round` is
/// applied to the elements of a value first.
std::map<Rows, HalfMoments> measureMoments(
    FloatModel &model, const std::vector<Matrix> &matrices,
    const SampleSource &samples, const Progress &progress,
    const std::function<void(const std::string &, std::vector<float> &)>
        &round = {});

/// Weights of a unit, the columns of its matrices one after another, and what
/// its bias has to take over, where its matrices have one.
struct RoundedUnit {
  BlockWeights weights;
  std::vector<float> shift;
};

/// By unit. A block of 0 is a whole column. Matrices of one input share the
/// trust in its moments; an input without moments has none.
std::map<int, RoundedUnit>
roundMatrices(const std::vector<Matrix> &matrices,
              const std::map<Rows, HalfMoments> &moments,
              const BlockOptions &options, const Progress &progress);

/// Rounds the int8 weights of matrix products in `decisions` with error
/// feedback: the moments are those of the quantised inputs. Convolutions that
/// read 16 bits as well: there the weights are what costs. Biases take what is
/// lost on average.
void roundWithFeedback(const Graph &graph, FloatModel &model,
                       const SampleSource &samples, const Progress &progress,
                       Decisions &decisions);

} // namespace tessera::quantise
#endif
