func.func public @main(%a: tensor<100352x2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<100352x2xf32>, tensor<f32>) -> tensor<2xf32>
  return %sum : tensor<2xf32>
}
