// Reads a problem and checks all that the algorithms take for granted. The
// first fault is reported with its place, such as "ops[3].opt[1][0]".
#include "passes/Partition/Problem.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

using llvm::StringRef;
using llvm::Twine;

namespace tessera::partition {

/// Largest single number, so that products of two fit.
static constexpr Cost maxNumber = Cost(1) << 40;
static constexpr unsigned maxNesting = 32;

namespace {

class ProblemReader {
public:
  explicit ProblemReader(StringRef origin) : origin(origin) {}
  llvm::Expected<Problem> read(StringRef text);

private:
  using Value = llvm::json::Value;
  using Array = llvm::json::Array;
  using Object = llvm::json::Object;

  bool fail(const Twine &place, const Twine &what);
  bool checkNesting(StringRef text);
  const Value *member(const Object &object, const Twine &place, StringRef key);
  const Array *array(const Object &object, const Twine &place, StringRef key, size_t most, StringRef noun);
  bool text(const Object &object, const Twine &place, StringRef key, std::string &result);
  bool integer(const Value &value, const Twine &place, Cost least, Cost most, Cost &result);
  bool index(const Value &value, const Twine &place, StringRef noun, size_t count, int &result);

  bool readAll(const Value &root);
  bool readDevices(const Object &root);
  bool readStates(const Object &root);
  bool readConversions(const Object &root);
  bool readConversion(const Value &value, size_t from, size_t to);
  bool readTensors(const Object &root);
  bool readOps(const Object &root);
  bool readOp(const Value &value, size_t at);
  bool readTensorList(const Object &op, const Twine &place, StringRef key, std::vector<int> &tensors);
  bool readOption(const Value &value, const Twine &place, Option &option);
  bool checkWriters();
  bool checkAcyclic();
  bool checkTotals();

  StringRef origin;
  std::string error;
  Problem problem;
};

} // namespace

/// Remembers the first fault; always false.
bool ProblemReader::fail(const Twine &place, const Twine &what) {
  if (error.empty()) {
    std::string where = place.str();
    error = (origin + ": " + where + (where.empty() ? "" : ": ") + what).str();
  }
  return false;
}

/// The JSON parser recurses; so deep a text is no problem of ours.
bool ProblemReader::checkNesting(StringRef text) {
  unsigned depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > maxNesting)
        return fail("", "values are nested deeper than " + Twine(maxNesting) + " levels");
    } else if ((c == ']' || c == '}') && depth) {
      --depth;
    }
  }
  return true;
}

const llvm::json::Value *ProblemReader::member(const Object &object, const Twine &place, StringRef key) {
  const Value *value = object.get(key);
  if (!value)
    fail(place, "key '" + key + "' is missing");
  return value;
}

static std::string under(const Twine &place, StringRef key) {
  std::string parent = place.str();
  return parent.empty() ? key.str() : parent + "." + key.str();
}

const llvm::json::Array *ProblemReader::array(const Object &object, const Twine &place, StringRef key, size_t most,
                                              StringRef noun) {
  const Value *value = member(object, place, key);
  if (!value)
    return nullptr;
  const Array *array = value->getAsArray();
  if (!array) {
    fail(under(place, key), "must be an array");
    return nullptr;
  }
  if (array->size() > most) {
    fail(under(place, key),
         Twine(array->size()) + " " + noun + " are more than the " + Twine(most) + " that are supported");
    return nullptr;
  }
  return array;
}

bool ProblemReader::text(const Object &object, const Twine &place, StringRef key, std::string &result) {
  const Value *value = member(object, place, key);
  if (!value)
    return false;
  auto string = value->getAsString();
  if (!string)
    return fail(under(place, key), "must be a string");
  result = string->str();
  return true;
}

bool ProblemReader::integer(const Value &value, const Twine &place, Cost least, Cost most, Cost &result) {
  auto number = value.kind() == Value::Number ? value.getAsInteger() : std::nullopt;
  if (!number)
    return fail(place, "must be an integer");
  if (*number < least)
    return fail(place, Twine(*number) + " is less than " + Twine(least));
  if (*number > most)
    return fail(place, Twine(*number) + " is more than " + Twine(most));
  result = *number;
  return true;
}

bool ProblemReader::index(const Value &value, const Twine &place, StringRef noun, size_t count, int &result) {
  auto number = value.kind() == Value::Number ? value.getAsInteger() : std::nullopt;
  if (!number)
    return fail(place, "must be an integer");
  if (*number < 0 || *number >= int64_t(count))
    return fail(place, noun + " " + Twine(*number) + " is unknown; there are " + Twine(count));
  result = int(*number);
  return true;
}

bool ProblemReader::readAll(const Value &root) {
  const Object *object = root.getAsObject();
  if (!object)
    return fail("", "must be an object");
  std::string format;
  if (!text(*object, "", "format", format))
    return false;
  if (format != "tessera-partition-problem/1")
    return fail("format", "'" + Twine(format) + "' is not 'tessera-partition-problem/1'");
  if (object->get("unit") && !text(*object, "", "unit", problem.unit))
    return false;
  if (!readDevices(*object) || !readStates(*object) || !readConversions(*object) || !readTensors(*object) ||
      !readOps(*object))
    return false;
  const Value *budget = object->get("budget");
  if (budget && budget->kind() != Value::Null) {
    Cost sum = 0;
    if (!integer(*budget, "budget", 0, maxNumber, sum))
      return false;
    problem.budget = std::min(sum, maxSensitivity); // no answer's sum is above
  }
  return checkWriters() && checkAcyclic() && checkTotals();
}

bool ProblemReader::readDevices(const Object &root) {
  const Array *devices = array(root, "", "devices", maxDevices, "devices");
  if (!devices)
    return false;
  for (size_t d = 0; d < devices->size(); ++d) {
    std::string place = ("devices[" + Twine(d) + "]").str();
    const Object *object = (*devices)[d].getAsObject();
    if (!object)
      return fail(place, "must be an object");
    Device device;
    const Value *launch = nullptr, *segments = nullptr;
    if (!text(*object, place, "name", device.name) || !(launch = member(*object, place, "launch")) ||
        !integer(*launch, place + ".launch", 0, maxNumber, device.launch) ||
        !(segments = member(*object, place, "segments")))
      return false;
    auto flag = segments->getAsBoolean();
    if (!flag)
      return fail(place + ".segments", "must be true or false");
    device.segments = *flag;
    problem.devices.push_back(std::move(device));
  }
  return true;
}

bool ProblemReader::readStates(const Object &root) {
  const Array *states = array(root, "", "states", maxStates, "states");
  if (!states)
    return false;
  for (size_t s = 0; s < states->size(); ++s) {
    auto name = (*states)[s].getAsString();
    if (!name)
      return fail("states[" + Twine(s) + "]", "must be a string");
    problem.states.push_back(name->str());
  }
  return true;
}

bool ProblemReader::readConversions(const Object &root) {
  const Array *rows = array(root, "", "conv", maxStates, "rows");
  if (!rows)
    return false;
  size_t states = problem.states.size();
  if (rows->size() != states)
    return fail("conv", Twine(rows->size()) + " rows for " + Twine(states) + " states");
  problem.conversions.resize(states);
  for (size_t from = 0; from < states; ++from) {
    const Array *row = (*rows)[from].getAsArray();
    if (!row)
      return fail("conv[" + Twine(from) + "]", "must be an array");
    if (row->size() != states)
      return fail("conv[" + Twine(from) + "]", Twine(row->size()) + " entries for " + Twine(states) + " states");
    problem.conversions[from].resize(states);
    for (size_t to = 0; to < states; ++to)
      if (!readConversion((*row)[to], from, to))
        return false;
  }
  return true;
}

bool ProblemReader::readConversion(const Value &value, size_t from, size_t to) {
  if (value.kind() == Value::Null)
    return true;
  std::string place = ("conv[" + Twine(from) + "][" + Twine(to) + "]").str();
  const Array *pair = value.getAsArray();
  if (!pair || pair->size() != 2)
    return fail(place, "must be null or [fixed, ps per element]");
  Conversion c;
  if (!integer((*pair)[0], place + "[0]", 0, maxNumber, c.fixed) ||
      !integer((*pair)[1], place + "[1]", 0, maxNumber, c.psPerElement))
    return false;
  problem.conversions[from][to] = c;
  return true;
}

bool ProblemReader::readTensors(const Object &root) {
  const Array *elements = array(root, "", "elems", maxTensors, "tensors");
  if (!elements)
    return false;
  Cost slowest = 0;
  for (const auto &row : problem.conversions)
    for (const auto &c : row)
      slowest = std::max(slowest, c ? c->psPerElement : 0);
  for (size_t t = 0; t < elements->size(); ++t) {
    std::string place = ("elems[" + Twine(t) + "]").str();
    Cost count = 0;
    if (!integer((*elements)[t], place, 0, maxNumber, count))
      return false;
    if (slowest && count > maxTotal / slowest * 1000)
      return fail(place, Twine(count) + " elements at " + Twine(slowest) + " ps each exceed " + Twine(maxTotal));
    problem.elements.push_back(count);
  }
  return true;
}

bool ProblemReader::readOps(const Object &root) {
  const Array *ops = array(root, "", "ops", maxOps, "operators");
  if (!ops)
    return false;
  for (size_t j = 0; j < ops->size(); ++j)
    if (!readOp((*ops)[j], j))
      return false;
  return true;
}

bool ProblemReader::readOp(const Value &value, size_t at) {
  std::string place = ("ops[" + Twine(at) + "]").str();
  const Object *object = value.getAsObject();
  if (!object)
    return fail(place, "must be an object");
  Op op;
  const Array *options = nullptr;
  if (!text(*object, place, "name", op.name) || !readTensorList(*object, place, "in", op.inputs) ||
      !readTensorList(*object, place, "out", op.outputs) ||
      !(options = array(*object, place, "opt", maxOptions, "options")))
    return false;
  if (options->empty())
    return fail(place + ".opt", "operator '" + Twine(op.name) + "' has no option");
  for (size_t x = 0; x < options->size(); ++x) {
    Option option;
    if (!readOption((*options)[x], place + ".opt[" + Twine(x) + "]", option))
      return false;
    op.options.push_back(option);
  }
  problem.ops.push_back(std::move(op));
  return true;
}

bool ProblemReader::readTensorList(const Object &op, const Twine &place, StringRef key, std::vector<int> &tensors) {
  std::string here = under(place, key);
  const Array *list = array(op, place, key, maxTensors, "tensors");
  if (!list)
    return false;
  for (size_t k = 0; k < list->size(); ++k) {
    int tensor = 0;
    if (!index((*list)[k], here + "[" + Twine(k) + "]", "tensor", problem.elements.size(), tensor))
      return false;
    tensors.push_back(tensor);
  }
  return true;
}

bool ProblemReader::readOption(const Value &value, const Twine &placeTwine, Option &o) {
  std::string place = placeTwine.str();
  const Array *fields = value.getAsArray();
  if (!fields || fields->size() != 5)
    return fail(place, "must be [device, input state, output state, cost, sensitivity]");
  return index((*fields)[0], place + "[0]", "device", problem.devices.size(), o.device) &&
         index((*fields)[1], place + "[1]", "state", problem.states.size(), o.input) &&
         index((*fields)[2], place + "[2]", "state", problem.states.size(), o.output) &&
         integer((*fields)[3], place + "[3]", 0, maxNumber, o.cost) &&
         integer((*fields)[4], place + "[4]", 0, maxSensitivity, o.sensitivity);
}

bool ProblemReader::checkWriters() {
  std::vector<int> writer(problem.elements.size(), -1);
  for (size_t j = 0; j < problem.ops.size(); ++j)
    for (size_t k = 0; k < problem.ops[j].outputs.size(); ++k) {
      int t = problem.ops[j].outputs[k];
      if (writer[t] >= 0)
        return fail("ops[" + Twine(j) + "].out[" + Twine(k) + "]",
                    "tensor " + Twine(t) + " is written by operator " + Twine(writer[t]) + " already");
      writer[t] = int(j);
    }
  return true;
}

/// Operators that can be ordered are taken away; what is left holds a cycle.
bool ProblemReader::checkAcyclic() {
  std::vector<int> missing(problem.ops.size(), 0), ready;
  std::vector<char> written(problem.elements.size(), 0);
  std::vector<std::vector<int>> readers(problem.elements.size());
  for (const Op &op : problem.ops)
    for (int t : op.outputs)
      written[t] = 1;
  for (size_t j = 0; j < problem.ops.size(); ++j) {
    for (int t : problem.ops[j].inputs)
      if (written[t]) {
        ++missing[j];
        readers[t].push_back(int(j));
      }
    if (!missing[j])
      ready.push_back(int(j));
  }
  for (size_t at = 0; at < ready.size(); ++at)
    for (int t : problem.ops[ready[at]].outputs)
      for (int k : readers[t])
        if (--missing[k] == 0)
          ready.push_back(k);
  for (size_t j = 0; j < missing.size(); ++j)
    if (missing[j])
      return fail("ops[" + Twine(j) + "]", "operator '" + Twine(problem.ops[j].name) +
                                               "' lies on a cycle of tensors, or after one");
  return true;
}

/// The dearest answer must be representable, with room for weights.
bool ProblemReader::checkTotals() {
  Cost total = 0, sensitivity = 0, dearest = 0;
  for (const Device &d : problem.devices)
    dearest = std::max(dearest, d.launch);
  auto tooMuch = [&] {
    return fail("", "the dearest costs add up to more than " + Twine(maxTotal) + "; use a larger unit");
  };
  for (const Op &op : problem.ops) {
    Cost cost = 0, most = 0;
    for (const Option &o : op.options) {
      cost = std::max(cost, o.cost);
      most = std::max(most, o.sensitivity);
    }
    total += cost + dearest;
    sensitivity += most;
    if (total > maxTotal)
      return tooMuch();
    if (sensitivity > maxSensitivity)
      return fail("", "the largest sensitivities add up to more than " + Twine(maxSensitivity));
  }
  for (int64_t elements : problem.elements) {
    for (const auto &row : problem.conversions) {
      Cost most = 0;
      for (const auto &c : row)
        if (c)
          most = std::max(most, c->fixed + (elements * c->psPerElement + 999) / 1000);
      total += most;
      if (total > maxTotal)
        return tooMuch();
    }
  }
  return true;
}

llvm::Expected<Problem> ProblemReader::read(StringRef text) {
  auto asError = [&](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  if (!checkNesting(text))
    return asError(error);
  llvm::Expected<Value> root = llvm::json::parse(text);
  if (!root)
    return asError(origin + ": not valid JSON: " + llvm::toString(root.takeError()));
  if (!readAll(*root))
    return asError(error);
  return std::move(problem);
}

llvm::Expected<Problem> readProblem(StringRef text, StringRef origin) { return ProblemReader(origin).read(text); }

llvm::Expected<Problem> readProblemFile(StringRef path) {
  auto file = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError(file.getError(), "cannot read " + path + ": " + file.getError().message());
  return readProblem((*file)->getBuffer(), path);
}

} // namespace tessera::partition
