func.func public @main(%a: tensor<100352x8xf32>, %b: tensor<100352x8xf32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.reshape %a : (tensor<100352x8xf32>) -> tensor<128x784x8xf32>
  %y = stablehlo.reshape %b : (tensor<100352x8xf32>) -> tensor<128x784x8xf32>
  %partial = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<128x784x8xf32>, tensor<128x784x8xf32>) -> tensor<128x8x8xf32>
  %product = stablehlo.reduce(%partial init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<128x8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  return %product : tensor<8x8xf32>
}
