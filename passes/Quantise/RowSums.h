// The inner loops of error feedback: rows are subtracted from a row, four in
// one pass over it. Every element sees the same operations in the same order as
// with one row after another, whatever the machine's vectors are.
#ifndef TESSERA_PASSES_QUANTISE_ROWSUMS_H
#define TESSERA_PASSES_QUANTISE_ROWSUMS_H

#include <cstdint>

namespace tessera::quantise {

/// row[j] -= factors[0] * others[0][j], then factors[1] * others[1][j], ... for
/// j in [from, to). The others are `stride` elements apart; none overlaps `row`
/// there.
void subtractRows(double *row, const double *others, int64_t stride,
                  const double *factors, int64_t count, int64_t from,
                  int64_t to);
void subtractRows(float *row, const float *others, int64_t stride,
                  const float *factors, int64_t count, int64_t from,
                  int64_t to);

/// Squared error of rounding `values` to integers low .. high in steps of
/// `scale`, each weighed.
double roundingError(const float *values, const float *weights, int64_t count,
                     float scale, float low, float high);

} // namespace tessera::quantise
#endif
