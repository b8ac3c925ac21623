#include "SmallProblems.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera::partition;
using namespace tessera::partition::test;

namespace {

const char *good = R"({"format":"tessera-partition-problem/1","unit":"ns",
"devices":[{"name":"cpu","launch":0,"segments":false},{"name":"npu","launch":9,"segments":true}],
"states":["a","b"],"conv":[[[0,0],[1,500]],[null,[0,0]]],"elems":[4,8],
"ops":[{"name":"x","in":[],"out":[0],"opt":[[0,0,0,5,0]]},{"name":"y","in":[0],"out":[1],"opt":[[1,1,1,3,2]]}],
"budget":null})";

/// The reader's complaint after `from` in the good text became `to`.
std::string complaint(const std::string &from, const std::string &to) {
  std::string text = good;
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  auto p = readProblem(text, "p.json");
  return p ? "accepted" : toString(p.takeError());
}

} // namespace

TEST_CASE("partition reader: a problem survives writing and reading", "[partition]") {
  auto p = readProblem(good, "p.json");
  REQUIRE(bool(p));
  CHECK(p->devices[1].launch == 9);
  CHECK(p->conversions[0][1]->psPerElement == 500);
  CHECK(!p->conversions[1][0]);
  CHECK(p->ops[1].options[0].sensitivity == 2);
  auto again = readProblem(textOf(*p), "again");
  REQUIRE(bool(again));
  CHECK(textOf(*again) == textOf(*p));
}

TEST_CASE("partition reader: faults are named with their place", "[partition]") {
  CHECK(complaint("/1", "/2") == "p.json: format: 'tessera-partition-problem/2' is not 'tessera-partition-problem/1'");
  CHECK(complaint("\"devices\"", "\"device\"") == "p.json: key 'devices' is missing");
  CHECK(complaint("\"launch\":9,", "") == "p.json: devices[1]: key 'launch' is missing");
  CHECK(complaint("\"launch\":9", "\"launch\":-9") == "p.json: devices[1].launch: -9 is less than 0");
  CHECK(complaint("\"launch\":9", "\"launch\":1.5") == "p.json: devices[1].launch: must be an integer");
  CHECK(complaint("\"segments\":true", "\"segments\":1") == "p.json: devices[1].segments: must be true or false");
  CHECK(complaint("[[[0,0],[1,500]],", "[") == "p.json: conv: 1 rows for 2 states");
  CHECK(complaint("[null,[0,0]]", "[null]") == "p.json: conv[1]: 1 entries for 2 states");
  CHECK(complaint("[1,500]", "[1]") == "p.json: conv[0][1]: must be null or [fixed, ps per element]");
  CHECK(complaint("[4,8]", "[4,-8]") == "p.json: elems[1]: -8 is less than 0");
  CHECK(complaint("\"in\":[0]", "\"in\":[2]") == "p.json: ops[1].in[0]: tensor 2 is unknown; there are 2");
  CHECK(complaint("\"in\":[0]", "\"in\":0") == "p.json: ops[1].in: must be an array");
  CHECK(complaint("[1,1,1,3,2]", "[7,1,1,3,2]") == "p.json: ops[1].opt[0][0]: device 7 is unknown; there are 2");
  CHECK(complaint("[1,1,1,3,2]", "[1,2,1,3,2]") == "p.json: ops[1].opt[0][1]: state 2 is unknown; there are 2");
  CHECK(complaint("[1,1,1,3,2]", "[1,1,1,-3,2]") == "p.json: ops[1].opt[0][3]: -3 is less than 0");
  CHECK(complaint("[1,1,1,3,2]", "[1,1,1,3]") ==
        "p.json: ops[1].opt[0]: must be [device, input state, output state, cost, sensitivity]");
  CHECK(complaint("[[1,1,1,3,2]]", "[]") == "p.json: ops[1].opt: operator 'y' has no option");
  CHECK(complaint("\"out\":[1]", "\"out\":[0]") == "p.json: ops[1].out[0]: tensor 0 is written by operator 0 already");
  CHECK(complaint("\"in\":[],", "\"in\":[1],") ==
        "p.json: ops[0]: operator 'x' lies on a cycle of tensors, or after one");
  CHECK(complaint("\"in\":[0]", "\"in\":[0,1]") ==
        "p.json: ops[1]: operator 'y' lies on a cycle of tensors, or after one");
}

TEST_CASE("partition reader: giant numbers and texts that are no problem", "[partition]") {
  CHECK(complaint("[4,8]", "[4,1099511627776000000000]").find("elems[1]: must be an integer") != std::string::npos);
  CHECK(complaint("[1,500]],[null,[0,0]]],\"elems\":[4,8]",
                  "[1,1000000000]],[null,[0,0]]],\"elems\":[4,1099511627776]") ==
        "p.json: elems[1]: 1099511627776 elements at 1000000000 ps each exceed 281474976710656");
  CHECK(complaint("\"launch\":9", "\"launch\":1099511627777").find("is more than 1099511627776") != std::string::npos);
  std::string states = "[\"s\"";
  for (int k = 0; k < 20; ++k)
    states += ",\"s\"";
  CHECK(complaint("[\"a\",\"b\"]", states + "]") == "p.json: states: 21 states are more than the 16 that are supported");
  CHECK(complaint("null}", std::string(100000, '[') + "}") == "p.json: values are nested deeper than 32 levels");
  CHECK(complaint("null}", "null").find("p.json: not valid JSON") == 0);
  auto missing = readProblemFile("/no/such/problem.json");
  REQUIRE(!missing);
  CHECK(toString(missing.takeError()).find("cannot read /no/such/problem.json") == 0);
}
