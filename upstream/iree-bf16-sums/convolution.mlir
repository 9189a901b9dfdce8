func.func public @main(%x: tensor<64x8x8x8xbf16>, %g: tensor<64x8x8x8xbf16>) -> tensor<3x3x8x8xbf16> {
  %dw = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<64x8x8x8xbf16>, tensor<64x8x8x8xbf16>) -> tensor<3x3x8x8xbf16>
  return %dw : tensor<3x3x8x8xbf16>
}
