func.func public @main(%a: tensor<16384x8xbf16>, %b: tensor<16384x8xbf16>) -> tensor<8x8xbf16> {
  %product = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<16384x8xbf16>, tensor<16384x8xbf16>) -> tensor<8x8xbf16>
  return %product : tensor<8x8xbf16>
}
