// The judge of partitions: from the texts of a problem and a solution, and from
// the definition alone, whether the solution is legal and costs what it says.
//
// It shares no source with the solver in passes/Partition, not even the
// reader, so that a misunderstanding there does not become one here.
#ifndef TESSERA_PASSES_PARTITIONCHECK_CHECK_H
#define TESSERA_PASSES_PARTITIONCHECK_CHECK_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::partitioncheck {

enum class Outcome {
  Accepted,
  Refused,    ///< a legal problem, but not a legal or honest solution of it
  Unreadable, ///< the problem is no problem
};

struct Verdict {
  Outcome outcome = Outcome::Accepted;
  std::string reason; ///< why it is not accepted
  int64_t cost = 0, sensitivity = 0;
  int segments = 0, copies = 0;
};

Verdict check(std::string_view problem, std::string_view solution);

} // namespace tessera::partitioncheck
#endif
