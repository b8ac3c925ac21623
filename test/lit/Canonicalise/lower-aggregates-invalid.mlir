// RUN: tessera-opt %s --onnx-lower-aggregates --split-input-file --verify-diagnostics | FileCheck %s

// All or nothing: the operator that stands in the way is named, with its reason,
// which stays on it for whoever finds no kernel; the others are told of it.
// CHECK-LABEL: @refused
// CHECK-SAME: tensor<2x!onnx.str>
// CHECK: onnx.RegexFullMatch{{.*}}onnx.unsupported = "attribute 'pattern' is '(a)\\1': no regular expression that is supported"
// CHECK: onnx.Identity{{.*}}onnx.unsupported = "operator onnx.RegexFullMatch of node '' keeps sequences, optionals and strings from becoming tensors"
func.func @refused(%x: tensor<2x!onnx.str>) -> (tensor<2xi1>, tensor<2x!onnx.str>) {
  // expected-warning @below {{operator onnx.RegexFullMatch of node '' keeps sequences, optionals and strings from becoming tensors: attribute 'pattern' is '(a)\1': no regular expression that is supported}}
  %y = onnx.RegexFullMatch(%x) {pattern = "(a)\\1"} : (tensor<2x!onnx.str>) -> tensor<2xi1>
  %z = onnx.Identity(%x) : (tensor<2x!onnx.str>) -> tensor<2x!onnx.str>
  return %y, %z : tensor<2xi1>, tensor<2x!onnx.str>
}

// -----

// CHECK-LABEL: @locale
func.func @locale(%x: tensor<2x!onnx.str>) -> tensor<?x!onnx.str> {
  // expected-warning @below {{attribute 'locale' is 'tr_TR': letters change their case differently there than elsewhere}}
  %y = onnx.StringNormalizer(%x) {case_change_action = "LOWER", locale = "tr_TR"} : (tensor<2x!onnx.str>) -> tensor<?x!onnx.str>
  return %y : tensor<?x!onnx.str>
}

// -----

// CHECK-LABEL: @repeated_keys
func.func @repeated_keys(%x: tensor<2x!onnx.str>) -> tensor<2xi64> {
  // expected-warning @below {{two of its keys are equal, and runtimes differ on which counts}}
  %y = onnx.ml.LabelEncoder(%x) {keys_strings = ["a", "a"], values_int64s = array<i64: 1, 2>} : (tensor<2x!onnx.str>) -> tensor<2xi64>
  return %y : tensor<2xi64>
}

// -----

// CHECK-LABEL: @count_of_values
func.func @count_of_values(%x: tensor<2x!onnx.str>) -> tensor<2xi64> {
  // expected-warning @below {{2 keys for 1 values}}
  %y = onnx.ml.LabelEncoder(%x) {keys_strings = ["a", "b"], values_int64s = array<i64: 1>} : (tensor<2x!onnx.str>) -> tensor<2xi64>
  return %y : tensor<2xi64>
}

// -----

// CHECK-LABEL: @no_rule
func.func @no_rule(%x: tensor<2x!onnx.str>) -> tensor<?x!onnx.str> {
  // expected-warning @below {{operator onnx.Unique of node '' keeps sequences, optionals and strings from becoming tensors: not supported on strings, sequences, optionals or maps}}
  %y = onnx.Unique(%x) : (tensor<2x!onnx.str>) -> tensor<?x!onnx.str>
  return %y : tensor<?x!onnx.str>
}

// -----

// CHECK-LABEL: @sequence_of_strings
func.func @sequence_of_strings(%x: tensor<2x!onnx.str>) -> !onnx.seq<tensor<2x!onnx.str>> {
  // expected-warning @below {{sequences of strings are not supported here}}
  %s = onnx.SequenceConstruct(%x) : (tensor<2x!onnx.str>) -> !onnx.seq<tensor<2x!onnx.str>>
  return %s : !onnx.seq<tensor<2x!onnx.str>>
}
