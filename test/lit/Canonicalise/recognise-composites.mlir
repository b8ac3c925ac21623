// RUN: tessera-opt %s --onnx-recognise-composites --split-input-file | FileCheck %s
// RUN: tessera-opt %s --onnx-recognise-composites="strict=true" --split-input-file | FileCheck %s --check-prefix=STRICT

// x * (1 + erf(x / sqrt(2))) * 0.5
// CHECK-LABEL: @gelu
// STRICT-LABEL: @gelu
func.func @gelu(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = onnx.Weight() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %one = onnx.Weight() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[Y:.*]] = onnx.Gelu(%arg0)
  // CHECK: return %[[Y]]
  // STRICT: onnx.Erf
  %d = onnx.Div(%x, %r) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %e = onnx.Erf(%d) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %a = onnx.Add(%e, %one) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %m = onnx.Mul(%x, %a) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = onnx.Mul(%m, %half) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// The error function of another value.
// CHECK-LABEL: @not_gelu
func.func @not_gelu(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %r = onnx.Weight() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %one = onnx.Weight() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NOT: onnx.Gelu
  %d = onnx.Div(%z, %r) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = onnx.Erf(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %a = onnx.Add(%e, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %m = onnx.Mul(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = onnx.Mul(%m, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// 0.5 * x * (1 + tanh(0.79788 * (x + 0.044715 * x^3)))
// CHECK-LABEL: @gelu_tanh
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = onnx.Weight() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %c = onnx.Weight() {value = dense<0.044715> : tensor<f32>} : () -> tensor<f32>
  %k = onnx.Weight() {value = dense<0.797884583> : tensor<f32>} : () -> tensor<f32>
  %one = onnx.Weight() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  // CHECK: onnx.Gelu(%arg0) {approximate = "tanh"}
  %h = onnx.Mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = onnx.Pow(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = onnx.Mul(%p, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = onnx.Add(%x, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = onnx.Mul(%s, %k) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = onnx.Tanh(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %a = onnx.Add(%t, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = onnx.Mul(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: @swish
func.func @swish(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %k = onnx.Weight() {value = dense<1.702> : tensor<f32>} : () -> tensor<f32>
  // CHECK: onnx.Swish(%arg0) :
  %s = onnx.Sigmoid(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = onnx.Mul(%x, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: onnx.Swish(%arg0) {alpha = 1.702
  %m = onnx.Mul(%x, %k) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = onnx.Sigmoid(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %b = onnx.Mul(%t, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: onnx.Sigmoid(%arg1)
  %u = onnx.Sigmoid(%z) : (tensor<4xf32>) -> tensor<4xf32>
  %c = onnx.Mul(%x, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// x * clip(x + 3, 0, 6) / 6 and x * HardSigmoid(x); another slope stays.
// CHECK-LABEL: @hard_swish
func.func @hard_swish(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = onnx.Weight() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %three = onnx.Weight() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %six = onnx.Weight() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-COUNT-2: onnx.HardSwish(%arg0)
  %a = onnx.Add(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = onnx.Clip(%a, %zero, %six) : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %c = onnx.Mul(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = onnx.Div(%c, %six) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = onnx.HardSigmoid(%x) {alpha = 0.166666672 : f32, beta = 0.5 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %f = onnx.Mul(%x, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: onnx.HardSigmoid
  %g = onnx.HardSigmoid(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %h = onnx.Mul(%x, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %d, %f, %h : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: @layer_norm
func.func @layer_norm(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %axes = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = onnx.Weight() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %eps = onnx.Weight() {value = dense<1.0e-6> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[G:.*]] = onnx.Weight() {value = dense<[1.0{{.*}}, 2.0{{.*}}, 3.0
  %g = onnx.Weight() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: %[[B:.*]] = onnx.Weight() {value = dense<[5.0
  %b = onnx.Weight() {value = dense<[5.0, 6.0, 7.0, 8.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: onnx.LayerNormalization(%arg0, %[[G]], %[[B]]) {axis = 1 : i64, epsilon = 9.99999997E-7 : f32}
  // CHECK-NEXT: return
  %m = onnx.ReduceMean(%x, %axes) : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %d = onnx.Sub(%x, %m) : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %q = onnx.Pow(%d, %two) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %v = onnx.ReduceMean(%q, %axes) : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %e = onnx.Add(%v, %eps) : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %s = onnx.Sqrt(%e) : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = onnx.Div(%d, %s) : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %o = onnx.Mul(%n, %g) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = onnx.Add(%o, %b) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// x times the reciprocal root of its mean square; x itself goes on elsewhere.
// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %axes = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = onnx.Weight() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %one = onnx.Weight() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %eps = onnx.Weight() {value = dense<1.0e-6> : tensor<f32>} : () -> tensor<f32>
  %g = onnx.Weight() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: onnx.RMSNormalization(%arg0, %{{.*}}) {axis = 1 : i64
  // CHECK-NEXT: return
  %q = onnx.Pow(%x, %two) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %v = onnx.ReduceMean(%q, %axes) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  %e = onnx.Add(%v, %eps) : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %s = onnx.Sqrt(%e) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %i = onnx.Div(%one, %s) : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %n = onnx.Mul(%x, %i) : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y = onnx.Mul(%n, %g) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %y, %x : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The mean over a middle axis is no LayerNormalization.
// CHECK-LABEL: @middle_axis
func.func @middle_axis(%x: tensor<2x4x3xf32>) -> tensor<2x4x3xf32> {
  %axes = onnx.Weight() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %eps = onnx.Weight() {value = dense<1.0e-6> : tensor<f32>} : () -> tensor<f32>
  // CHECK: onnx.Div
  %q = onnx.Mul(%x, %x) : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %v = onnx.ReduceMean(%q, %axes) : (tensor<2x4x3xf32>, tensor<1xi64>) -> tensor<2x1x3xf32>
  %e = onnx.Add(%v, %eps) : (tensor<2x1x3xf32>, tensor<f32>) -> tensor<2x1x3xf32>
  %s = onnx.Sqrt(%e) : (tensor<2x1x3xf32>) -> tensor<2x1x3xf32>
  %n = onnx.Div(%x, %s) : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
  return %n : tensor<2x4x3xf32>
}

// -----

// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %axes = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: onnx.Softmax(%arg0) {axis = 1 : i64}
  %m = onnx.ReduceMax(%x, %axes) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  %d = onnx.Sub(%x, %m) : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %e = onnx.Exp(%d) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = onnx.ReduceSum(%e, %axes) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  %y = onnx.Div(%e, %s) : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
