func.func public @main(%a: tensor<1024x2xbf16>) -> tensor<2xbf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x2xbf16>, tensor<bf16>) -> tensor<2xbf16>
  return %sum : tensor<2xbf16>
}
