// Problems and solutions as JSON: one operator a line, so that files compare well.
#include "passes/Partition/Problem.h"
#include "llvm/Support/JSON.h"

namespace tessera::partition {

static llvm::json::Array indices(const std::vector<int> &values) {
  llvm::json::Array array;
  for (int v : values)
    array.push_back(v);
  return array;
}

static llvm::json::Value text(const std::string &name) { return llvm::json::fixUTF8(name); }

static void writeOp(const Op &op, llvm::raw_ostream &os) {
  llvm::json::Array options;
  for (const Option &o : op.options)
    options.push_back(llvm::json::Array{o.device, o.input, o.output, o.cost, o.sensitivity});
  os << "{\"name\":" << text(op.name) << ",\"in\":" << llvm::json::Value(indices(op.inputs))
     << ",\"out\":" << llvm::json::Value(indices(op.outputs))
     << ",\"opt\":" << llvm::json::Value(std::move(options)) << "}";
}

void writeProblem(const Problem &p, llvm::raw_ostream &os) {
  os << "{\"format\":\"tessera-partition-problem/1\",\"unit\":" << text(p.unit) << ",\n\"devices\":[";
  for (size_t d = 0; d < p.devices.size(); ++d)
    os << (d ? ",\n  " : "\n  ") << "{\"name\":" << text(p.devices[d].name)
       << ",\"launch\":" << p.devices[d].launch
       << ",\"segments\":" << (p.devices[d].segments ? "true" : "false") << "}";
  os << "],\n\"states\":[";
  for (size_t s = 0; s < p.states.size(); ++s)
    os << (s ? "," : "") << text(p.states[s]);
  os << "],\n\"conv\":[";
  for (size_t a = 0; a < p.conversions.size(); ++a) {
    os << (a ? ",\n  [" : "\n  [");
    for (size_t b = 0; b < p.conversions[a].size(); ++b) {
      os << (b ? "," : "");
      if (const std::optional<Conversion> &c = p.conversions[a][b])
        os << "[" << c->fixed << "," << c->psPerElement << "]";
      else
        os << "null";
    }
    os << "]";
  }
  os << "],\n\"elems\":[";
  for (size_t t = 0; t < p.elements.size(); ++t)
    os << (t ? "," : "") << p.elements[t];
  os << "],\n\"ops\":[";
  for (size_t j = 0; j < p.ops.size(); ++j) {
    os << (j ? ",\n  " : "\n  ");
    writeOp(p.ops[j], os);
  }
  os << "],\n\"budget\":";
  if (p.budget)
    os << *p.budget;
  else
    os << "null";
  os << "}\n";
}

void writeSolution(const Solution &s, llvm::raw_ostream &os) {
  os << "{\"format\":\"tessera-partition-solution/1\",\"cost\":" << s.cost << ",\"lower_bound\":" << s.lowerBound
     << ",\"status\":\"" << (s.optimal() ? "optimal" : "feasible") << "\",\"sens\":" << s.sensitivity
     << ",\n\"choice\":" << llvm::json::Value(indices(s.choice))
     << ",\n\"segment\":" << llvm::json::Value(indices(s.segment)) << "}\n";
}

} // namespace tessera::partition
