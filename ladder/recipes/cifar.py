"""The cifar rung: an 8-convolution net without and with a norm, under SGD, Nesterov momentum and AdamW.

Published recipe (brettkoonce/lean4-mlir, reference/recipes.md section 2): batch 128, 40 epochs of 390 steps, a constant
rate, mean cross-entropy, pixels / 255, a horizontal flip with p = 1/2, the training images shuffled each epoch. The
published `bn` normalises each example and channel over height and width; there are no running statistics. Finals of
five seeds each on an RTX 4060 Ti: nobn 6803-7436, bn 7414-7673 of 10,000. About 20 minutes an arm on two AVX-512 cores.

The rung is the six arms. By name only: `bnprec-*` (the same net in float32 and bfloat16, five published seeds each),
`batchbn-*` (true batch statistics; nothing published) and `adamw-head*`, the grid of head widths (one published seed
each: 25 epochs, cosine; its three warm epochs are those of the cifar recipes of that month, the log was not read).

Margins, fixed before any of our own finals existed, in percentage points of the mean. With five seeds on each side and
equal means, two one-sided tests at 5 % pass with probability 0.8 at a margin of (t95 + t90)·sd·sqrt(2/5), which is 2.06
standard deviations. The deviations of single arms (n = 5: 0.09 to 0.75 with a norm) are too few to use alone, so they
are pooled: without a norm 1.19 (three arms), with it 0.47 (nine arms). Twice that, rounded up: 2.5 and 1.0.
"""

from dataclasses import replace

from ladder.recipes.recipe import Data, DType, Norm, Optimiser, Recipe, Schedule

CIFAR10 = Data(
    "cifar10",
    "sha256:1c238a475cb628a658412e2fb829629e7d987213cf3f36b77c4e7bdf1bb13026",
    50_000,
    10_000,
    classes=10,
    shape=(32, 32, 3),
)
ADAMW = Optimiser("adamw", decay=1e-4)
OPTIMISERS = {
    "sgd": (Optimiser("sgd"), 0.1),
    "momentum": (Optimiser("nesterov", momentum=0.9), 0.02),
    "adamw": (ADAMW, 1e-3),
}
PUBLISHED: dict[str, Norm] = {"nobn": "none", "bn": "example"}
PRECISIONS: dict[str, DType] = {"f32": "float32", "bf16": "bfloat16"}
MARGINS: dict[Norm, float] = {"none": 2.5, "example": 1.0, "batch": 1.0}
REFERENCED = (
    *(f"{norm}-{optimiser}" for norm in PUBLISHED for optimiser in OPTIMISERS),
    *(f"bnprec-{precision}-{optimiser}" for precision in PRECISIONS for optimiser in OPTIMISERS),
)  # the arms with five published seeds
WIDTHS = tuple(2**k for k in range(4, 13))  # of the head: 16 to 4096


def parameters(norm: str, width: int = 512) -> int:
    """Of the net with a head of this width: eight convolutions, three dense layers, and gamma and beta of a norm."""
    head = 128 * width + width + width * width + width + 10 * width + 10
    return 39_792 + head + (0 if norm == "none" else 2 * (4 * 16 + 4 * 32))


def recipes(data: Data = CIFAR10) -> tuple[Recipe, ...]:
    """The six arms, then those that are run when they are named."""
    six = [_arm(data, f"{arm}-{o}", norm, o) for arm, norm in PUBLISHED.items() for o in OPTIMISERS]
    precisions = [
        replace(_arm(data, f"bnprec-{short}-{o}", "example", o), net="cifar8wb_bn", dtype=dtype, optional=True)
        for short, dtype in PRECISIONS.items()
        for o in OPTIMISERS
    ]
    batch = [replace(_arm(data, f"batchbn-{o}", "batch", o), optional=True) for o in OPTIMISERS]
    return (*six, *precisions, *batch, *(_head(data, width) for width in WIDTHS))


def _arm(data: Data, arm: str, norm: Norm, optimiser: str) -> Recipe:
    kind, rate = OPTIMISERS[optimiser]
    return Recipe(
        rung="cifar",
        net="cifar8w",
        arm=arm,
        data=data,
        optimiser=kind,
        schedule=Schedule(rate),
        batch=128,
        epochs=40,
        init="published",
        norm=norm,
        order="shuffled",
        augment=("flip",),
        margin=MARGINS[norm],
        parameters=parameters(norm),
    )


def _head(data: Data, width: int) -> Recipe:
    return replace(
        _arm(data, f"adamw-head{width}", "example", "adamw"),
        net="cifar8_bn",
        width=width,
        schedule=Schedule(1e-3, "cosine", warmup=3),
        epochs=25,
        parameters=parameters("example", width),
        optional=True,
    )
