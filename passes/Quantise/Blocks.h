// Weights of matrix products in blocks of few bits, rounded so that the
// product's error is least, not the weights'.
//
// For one output column with weights w and inputs x the expected squared error
// of the product is (w - q)' H (w - q), H = E[x x'] over calibration. Weights
// are rounded one after another; what one loses is made good by those that are
// not rounded yet, by the Cholesky factor of H's inverse (Frantar et al., GPTQ,
// 2023). The scale of a block is searched when its first weight is reached, by
// the error weighed with the factor's diagonal.
//
// What is added to H's diagonal decides how far the moments are trusted: with
// few samples for many inputs they are mostly chance. It is chosen by the error
// that feedback from one half of the samples makes on the other half.
#ifndef TESSERA_PASSES_QUANTISE_BLOCKS_H
#define TESSERA_PASSES_QUANTISE_BLOCKS_H

#include "passes/Quantise/Graph.h"

#include <array>

namespace tessera::quantise {

/// Sum over rows of x x', upper triangle and below.
class SecondMoments {
public:
  void add(const float *rows, int64_t count, int64_t width);
  void add(const SecondMoments &other);
  int64_t width() const { return size; }
  bool empty() const { return rows == 0; }
  uint64_t count() const { return rows; }
  const std::vector<double> &sums() const { return h; }
  std::vector<double> mean() const;
  /// The same of x - centre.
  SecondMoments about(const std::vector<double> &centre) const;

private:
  int64_t size = 0;
  uint64_t rows = 0;
  std::vector<double> h, first; ///< sums of x x', and of x
};

struct BlockOptions {
  int bits = 4;
  int64_t block = 32;
  bool symmetric = true; ///< zero point in the middle
  bool narrow = false;   ///< the least integer is none: -127 .. 127
};

/// Column n of a K x N matrix: unsigned integers 0 .. 2^bits - 1, blocks along
/// K.
struct BlockWeights {
  int64_t k = 0, n = 0, blocks = 0;
  BlockOptions options;
  std::vector<uint8_t>
      values; ///< [n][blocks * block], the end padded with zero points
  std::vector<float> scales;  ///< [n][blocks]
  std::vector<uint8_t> zeros; ///< [n][blocks]
  float at(int64_t row, int64_t column) const;
};

/// How the errors of rounded weights go to those that follow; empty: not at
/// all.
struct Feedback {
  std::vector<float> factor;     ///< upper triangular, [k][k]
  std::vector<float> importance; ///< of each input
  Feedback() = default;
  Feedback(const SecondMoments &moments, double damping);
};

/// `weights` is [n][k]. Without feedback each weight goes to its nearest value.
BlockWeights quantiseBlocks(const std::vector<float> &weights, int64_t k,
                            int64_t n, const Feedback &feedback,
                            const BlockOptions &options);

/// Second moments of alternate samples.
using HalfMoments = std::array<SecondMoments, 2>;

/// What to add to the diagonal in units of its mean, by errors of `weights`
/// ([n][k]) on the half that was not used; none where nearest values do best or
/// where there is only one half.
std::optional<double> chooseDamping(const std::vector<float> &weights,
                                    int64_t k, int64_t n,
                                    const HalfMoments &moments,
                                    const BlockOptions &options);

/// Upper Cholesky factor U of the inverse of H (damped): inverse(H) = U' U.
/// [k][k] Dead inputs get a unit diagonal.
std::vector<float> inverseFactor(const SecondMoments &moments, double damping);

} // namespace tessera::quantise
#endif
