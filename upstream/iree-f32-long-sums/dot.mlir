func.func public @main(%a: tensor<100352x8xf32>, %b: tensor<100352x8xf32>) -> tensor<8x8xf32> {
  %product = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<100352x8xf32>, tensor<100352x8xf32>) -> tensor<8x8xf32>
  return %product : tensor<8x8xf32>
}
