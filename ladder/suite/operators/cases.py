"""The tests of tier 2a, by name. No jax."""

from ladder.suite.case import Case, Side

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
# In every dtype, forward and gradients.
OPERATORS = (
    "silu",
    "gelu",
    "erf",
    "linear",
    "rmsnorm",
    "layernorm",
    "batchnorm",
    "softmax-ce",
    "attention",
    "conv",
    "grouped-conv",
    "max-pool",
    "gather-scatter",
    "argmax",
    "cumsum",
    "sort",
    "reductions",
    "exact",  # small whole numbers, whose results are exact in any precision
)
# In float32 only: random bits, what a matmul and a convolution compute in, and public miscompiles.
SINGLE = ("threefry", "precision", "scaled-fusion", "long-dot-gradient")
# Operators whose products a platform may compute with TF32 operands, which have float16's ten mantissa bits.
PRODUCTS = ("linear", "attention", "conv", "grouped-conv", "scaled-fusion", "long-dot-gradient")


def split(name: str) -> tuple[str, str]:
    """`conv-bf16` -> ("conv", "bfloat16")."""
    operator, _, short = name.rpartition("-")
    return (operator, DTYPES[short]) if short in DTYPES else (name, "float32")


def names() -> tuple[str, ...]:
    """Every test."""
    return (*(f"{operator}-{short}" for operator in OPERATORS for short in DTYPES), *SINGLE)


def cases(side: Side) -> tuple[Case, ...]:
    """The same on every side."""
    del side
    return tuple(Case(name, 2, split(name)[0]) for name in names())
