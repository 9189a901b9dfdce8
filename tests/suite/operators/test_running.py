"""Which tolerance holds where, and what a measured precision comes to."""

import pytest

from ladder.suite.numerics import OutputError
from ladder.suite.operators.precision import classify
from ladder.suite.operators.running import precise, product_dtype


@pytest.mark.parametrize(
    ("l2", "name"),
    [(4e-7, "fp32"), (2.9e-4, "tf32-like"), (2.3e-3, "bf16-like"), (0.1, "none"), (float("inf"), "none")],
)
def test_classes_of_precision(l2: float, name: str) -> None:
    assert classify(l2) == name


@pytest.mark.parametrize(
    ("matmul", "conv", "declared", "status"),
    [
        (4e-7, 4e-7, "fp32", "pass"),
        (4e-7, 2.9e-4, "fp32", "fail"),  # one of the two is enough
        (2.9e-4, 2.9e-4, "tf32-like", "pass"),
        (4e-7, 4e-7, "tf32-like", "fail"),  # better than declared is declared wrongly
        (2.9e-4, 2.9e-4, "unknown", "pass"),
        (0.5, 4e-7, "unknown", "fail"),
    ],
)
def test_the_profile_is_held_to_its_word(matmul: float, conv: float, declared: str, status: str) -> None:
    found = precise([OutputError("matmul/y", matmul, matmul), OutputError("conv/y", conv, conv)], declared)
    assert found.status == status
    assert declared in found.detail or "declares nothing" in found.detail


def test_only_products_are_wider_and_only_where_the_profile_says_so() -> None:
    assert product_dtype("linear", "float32", "fp32") == "float32"
    assert product_dtype("linear", "float32", "tf32-like") == "float16"
    assert product_dtype("erf", "float32", "tf32-like") == "float32"
    assert product_dtype("linear", "bfloat16", "tf32-like") == "bfloat16"
