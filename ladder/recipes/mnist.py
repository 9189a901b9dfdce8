"""The mnist rung: linear, mlp and cnn under plain SGD, and the same three on the 5,000 embedded images.

Published recipe (brettkoonce/lean4-mlir, LeanMlir/VerifiedTrain.lean @126ab67b): batch 128, 12 epochs of 468 steps,
SGD at a constant 0.1, mean cross-entropy, pixels / 255, file order, no augmentation. Published finals over 30 seeds on
an RTX 4060 Ti: linear 9210 at every seed; mlp 9749-9793; cnn 9739-9894 of 10,000. About 1.4 s, 21 s and 10-15 min a
seed on two AVX-512 cores. By name only: `sgd-fc*`, the grids of dense widths, one published seed each.

Margins, fixed before any of our own finals were compared, in percentage points of the mean:
- linear: 0. Zero init and a convex problem make it deterministic up to rounding that moves no image.
- mlp: 0.25 is 2.3 and cnn: 0.5 is 1.8 published standard deviations (0.107, 0.273), so that a handful of seeds can
  settle it, and it is a quarter to a half of the error rate: a box that misses it trains visibly worse.
- mnist5k has 1,000 test images in place of 10,000 and two to three times the error rate; one image is 0.1 point. The
  score's own binomial deviation is five times as large, and the margins are four times as large: mlp 1.0, cnn 2.0.
"""

from dataclasses import replace

from ladder.recipes.recipe import Data, Optimiser, Recipe, Schedule

MNIST = Data(
    "mnist",
    "sha256:b940d44d42f8066eee51577b1bfbde632cfba0e3194cbf8e36b95e9edb2f5354",
    60_000,
    10_000,
    classes=10,
    shape=(28, 28, 1),
)
MNIST5K = Data(
    "mnist5k",
    "sha256:625b04c314b700d0a6adbc673e052fb14757d2703728e4a4921c424452cdd434",
    4_000,
    1_000,
    classes=10,
    shape=(28, 28, 1),
)

PARAMETERS = {"linear": 7_850, "mlp": 669_706, "cnn": 3_489_130}
WIDTHS = tuple(2**k for k in range(3, 13))  # of the grids' dense layers: 8 to 4096; 512 is the rung's own
MARGINS = {
    "mnist": {"linear": 0.0, "mlp": 0.25, "cnn": 0.5},
    "mnist5k": {"linear": 0.0, "mlp": 1.0, "cnn": 2.0},
}


def recipes(data: Data = MNIST) -> tuple[Recipe, ...]:
    """The rung's recipes on `data`. Margins are the named dataset's; an unknown one takes mnist's."""
    margins = MARGINS.get(data.name, MARGINS["mnist"])
    return tuple(
        Recipe(
            rung="mnist",
            net=net,
            arm="sgd",
            data=data,
            optimiser=Optimiser("sgd"),
            schedule=Schedule(0.1),
            batch=128,
            epochs=12,
            init="zero" if net == "linear" else "published",
            margin=margins[net],
            parameters=parameters,
        )
        for net, parameters in PARAMETERS.items()
    )


def grid(data: Data = MNIST) -> tuple[Recipe, ...]:
    """mlp and cnn with other dense widths, arm `sgd-fc<width>`."""
    fixed = {"mlp": (0, 784), "cnn": (320 + 9_248, 6_272)}  # parameters before the dense layers, and their inputs
    return tuple(
        replace(
            recipe,
            arm=f"sgd-fc{width}",
            width=width,
            parameters=fixed[recipe.net][0] + width * (fixed[recipe.net][1] + width + 10 + 2) + 10,
            optional=True,
        )
        for recipe in recipes(data)
        if recipe.net in fixed
        for width in WIDTHS
        if width != 512
    )
