"""The catalogue of faults of tier 2: what is traced in place of the right function, and the test that catches it."""

import tempfile
from pathlib import Path
from typing import Any

from ladder.suite.exported import MUTANT
from ladder.suite.faults import Fault

# Mutant (ladder.suite.operators.injections, ladder.suite.nets.injections), the test that catches it, what it is.
TABLE = (
    ("tf32", "precision", "operands of products rounded to ten mantissa bits"),
    ("tf32", "linear-f32", "operands of a linear layer rounded to ten mantissa bits"),
    ("tf32", "conv-f32", "operands of a convolution rounded to ten mantissa bits"),
    ("bf16-operands", "precision", "operands of products rounded to seven mantissa bits"),
    ("ulp", "exact-f32", "every result one unit in the last place too large; only exact results can tell"),
    ("nan-gradient", "layernorm-f32", "one NaN in a gradient"),
    ("nan-gradient", "softmax-ce-bf16", "one NaN in a bfloat16 gradient"),
    ("scaled-gradient", "linear-f32", "a gradient 1 % too large"),
    ("scaled-gradient", "silu-f16", "a float16 gradient 1 % too large"),
    ("swapped-kernel-dims", "conv-f32", "height and width of the kernels swapped"),
    ("flipped-kernel", "conv-f16", "kernels indexed backwards: convolution for correlation"),
    ("transposed-weight", "linear-f32", "a weight read in the other order"),
    ("bf16-sum", "reductions-f32", "a sum kept in bfloat16"),
    ("bf16-accumulation", "linear-f32", "a product accumulated in bfloat16"),
    ("pad-side", "conv-f32", "the padding of a stride-2 convolution before in place of after"),
    ("pad-side", "conv-bf16", "the same in bfloat16"),
    ("stride-phase", "conv-f32", "a stride that begins at the second pixel"),
    ("dropped-group", "grouped-conv-f32", "one group of a depthwise convolution missing"),
    ("pool-tie-rule", "max-pool-f32", "a pool's gradient to the first of equal maxima, not shared"),
    ("stale-statistics", "batchnorm-f32", "running statistics that do not move"),
    ("erf-approximation", "erf-f32", "an error function good to three digits"),
    ("gelu-approximation", "gelu-f32", "the tanh GELU for the exact one"),
    ("silu-gradient", "silu-f32", "a gradient that lacks a term"),
    ("norm-epsilon", "rmsnorm-f32", "epsilon 1e-3 in place of 1e-5"),
    ("label-off-by-one", "softmax-ce-f32", "the loss of the next label"),
    ("uncausal", "attention-f32", "attention to the next position"),
    ("argmax-tie", "argmax-f32", "the last of equal maxima"),
    ("cumsum-direction", "cumsum-f32", "a running sum from the other end"),
    ("sort-stability", "sort-f32", "equal keys in reverse"),
    ("scatter-overwrites", "gather-scatter-f32", "repeated places overwritten, not added"),
    ("unscaled-bias", "scaled-fusion", "jax-ml/jax#39336: the product is scaled and the bias is not"),
    ("long-dot", "long-dot-gradient", "openxla/xla#13054: a gradient over a million rows with terms missing"),
    ("random-bits", "threefry", "one bit of every random word"),
    ("tf32", "net-vit-f32", "parameters rounded to ten mantissa bits where a step reads them"),
    ("scaled-gradient", "net-mlp-f32", "every update 1 % too large"),
    ("nan-gradient", "net-convnext-f32", "one NaN in an update"),
    ("stale-parameter", "net-resnet-f32", "one kernel that is not updated: median and 90th percentile do not see it"),
    ("flipped-update", "net-efficientnet-f32", "one kernel's update in the wrong channel order"),
    ("stale-statistics", "net-cifar8-bn-f32", "running statistics that do not move"),
    ("dropped-output", "net-linear-f32", "a step that does not return a parameter"),
)


def without_goldens(report: Any) -> None:
    """An installation whose goldens are missing."""
    del report
    from ladder.suite.nets import goldens

    goldens.FOLDER = Path(tempfile.gettempdir()) / "no such folder"


def _fault(mutant: str, test: str, what: str) -> Fault:
    return Fault(f"{mutant} in {test}", what, test, environment={MUTANT: mutant})


FAULTS = (
    *(_fault(*row) for row in TABLE),
    Fault(
        "missing goldens",
        "a net without its golden",
        "net-linear-f32",
        f"{__name__}:without_goldens",
        says="cannot be read",
    ),
)
