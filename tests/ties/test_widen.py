"""The judge's text: every float as float64, constants unchanged."""

from collections.abc import Callable

import pytest

from ladder.ties.widen import obstacle, widen
from ladder.train.artifact import FUNCTIONS, Program


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("tensor<128x10xf32>", "tensor<128x10xf64>"),
        ("tensor<f32>, tensor<bf16>, tensor<3xf16>", "tensor<f64>, tensor<f64>, tensor<3xf64>"),
        ("tensor<2xui32>, tensor<i32>", "tensor<2xui32>, tensor<i32>"),
        ("dense<0.1> : tensor<4xf32>", "dense<0.1> : tensor<4xf64>"),
        ("dense<0xFF800000> : tensor<f32>", "dense<0xFFF0000000000000> : tensor<f64>"),
        ("dense<0x7FC00000> : tensor<3xf32>", "dense<0x7FF8000000000000> : tensor<3xf64>"),
        ("dense<0xFF800000> : tensor<ui32>", "dense<0xFF800000> : tensor<ui32>"),
        ("call @f32_of(%0)", "call @f32_of(%0)"),
    ],
)
def test_floats_are_widened_and_nothing_else(narrow: str, wide: str) -> None:
    assert widen(narrow) == wide


def test_a_program_that_makes_floats_from_bits_has_no_wider_form() -> None:
    assert obstacle("%3 = stablehlo.bitcast_convert %2 : (tensor<ui32>) -> tensor<f32>") == "stablehlo.bitcast_convert"
    assert obstacle('stablehlo.constant dense<"0x0000803F"> : tensor<1xf32>') == 'dense<"0x'


@pytest.mark.parametrize("net", ["linear", "mlp", "cnn"])
def test_the_nets_have_one(program: Callable[[str], Program], net: str) -> None:
    texts = [program(net).stablehlo(name) for name in FUNCTIONS]
    assert [obstacle(text) for text in texts] == [""] * len(FUNCTIONS)
    assert not any("f32" in widen(text) for text in texts)
