"""The imagenette rung: seven nets at 224x224 under AdamW, and the ablation of ResNet-34's recipe.

Published recipe (brettkoonce/lean4-mlir, reference/recipes.md section 3): imagenette2-320, the training images resized
to 256x256 and cropped to 224x224 at random, a horizontal flip with p = 1/2; batch 32, 80 epochs of 295 steps, AdamW
with 1e-4 decay on every tensor, 1e-3 (ViT 3e-4) after 3 (ViT 5) warm epochs, half a cosine to 0, label smoothing 0.1,
float32. Finals of five seeds each on an RTX 4060 Ti, in images of 3,925: ResNet-34 3520-3547, ResNet-50 3516-3531,
MobileNetV2 3483-3506, EfficientNet-B0 3511-3552, MobileNetV4-Conv-M 3342-3411, ConvNeXt-T 3350-3367 (layer scale 1.0),
ViT-Tiny 2662-2715. About 5.5 h for one seed of all seven on that card.

The rung is the seven nets, arm `full`. By name only: ConvNeXt-T with a layer scale of 1e-6 (no seeds published), and
ResNet-34's ablation in float32 (five seeds an arm) and bfloat16 (only means and deviations published). What an arm
changes was read in the logs of those seeds (runs/2026-09-12-r34-ablation-fp32-seeds @5e65605c): `noadam` and `bare` are
Nesterov momentum at 0.01, `sgd10` plain SGD at 0.1, none of them with decay; `nocos` keeps its warm epochs; `noaug`
crops at the centre; `bare` keeps smoothing and augmentation.

Margins, fixed before any of our own finals existed, in percentage points of the mean. With five seeds on each side and
equal means, two one-sided tests at 5 % pass with probability 0.8 at a margin of (t95 + t90)·sd·sqrt(2/5), which is 2.06
standard deviations. The deviations of single arms (n = 5) are too few to use alone, so they are pooled where they are
alike: MobileNetV4-Conv-M and ViT-Tiny 0.60; the arms that keep a constant rate to the end, `nocos` and `bare`, 1.63;
the other twelve 0.28 (0.14 to 0.43). Times 2.06, rounded up to a quarter: 1.25, 3.5 and 0.75.
"""

from dataclasses import replace

from ladder.recipes.recipe import Data, DType, Norm, Optimiser, Recipe, Schedule

# The SHA-256 of the original archive's files, in order, is not known yet: no machine that had them has told it. Until
# then no data has this identity, and so none has a reference (scripts/imagenette_identity.py tells it).
IMAGENETTE = Data(
    "imagenette",
    "unknown",
    9_469,
    3_925,
    classes=10,
    shape=(256, 256, 3),
    test_shape=(224, 224, 3),
)
PARAMETERS = {
    "resnet34": 21_289_802,
    "resnet50": 23_528_522,
    "mobilenetv2": 2_236_682,
    "efficientnet_b0": 4_020_358,
    "mobilenetv4_conv_m": 8_447_322,
    "convnext_t": 27_827_818,
    "vit_tiny": 5_526_346,
}
NORMS: dict[str, Norm] = {"convnext_t": "none", "vit_tiny": "none"}  # the others: batch
ADAMW, MOMENTUM, SGD = Optimiser("adamw", decay=1e-4), Optimiser("nesterov", momentum=0.9), Optimiser("sgd")
COSINE = Schedule(1e-3, "cosine", warmup=3)
MARGIN, WIDE, CONSTANT_RATE = 0.75, 1.25, 3.5
WIDE_NETS = ("mobilenetv4_conv_m", "vit_tiny")
PRECISIONS: dict[str, DType] = {"": "float32", "bf16-": "bfloat16"}


def recipes(data: Data = IMAGENETTE) -> tuple[Recipe, ...]:
    """The seven nets, then what is run when it is named."""
    nets = [_full(data, net) for net in PARAMETERS]
    scaled = replace(_full(data, "convnext_t"), arm="full-scale1e-6", layer_scale=1e-6, optional=True)
    return (*nets, scaled, *ablation(data))


def ablation(data: Data = IMAGENETTE) -> tuple[Recipe, ...]:
    """The nine arms of ResNet-34, `ablation-<change>`, then the same in bfloat16, `ablation-bf16-<change>`."""
    full = replace(_full(data, "resnet34"), optional=True)
    changed = {
        "full": full,
        "nowd": replace(full, optimiser=Optimiser("adamw")),
        "nowarm": replace(full, schedule=replace(COSINE, warmup=0)),
        "nols": replace(full, smoothing=0.0),
        "noadam": replace(full, optimiser=MOMENTUM, schedule=replace(COSINE, rate=0.01)),
        "nocos": replace(full, schedule=replace(COSINE, name="constant"), margin=CONSTANT_RATE),
        "noaug": replace(full, augment=()),
        "bare": replace(full, optimiser=MOMENTUM, schedule=Schedule(0.01), margin=CONSTANT_RATE),
        "sgd10": replace(full, optimiser=SGD, schedule=replace(COSINE, rate=0.1)),
    }
    return tuple(
        replace(recipe, arm=f"ablation-{short}{change}", dtype=dtype)
        for short, dtype in PRECISIONS.items()
        for change, recipe in changed.items()
    )


def _full(data: Data, net: str) -> Recipe:
    return Recipe(
        rung="imagenette",
        net=net,
        arm="full",
        data=data,
        optimiser=ADAMW,
        schedule=Schedule(3e-4, "cosine", warmup=5) if net == "vit_tiny" else COSINE,
        batch=32,
        epochs=80,
        init="published",
        norm=NORMS.get(net, "batch"),
        order="shuffled",
        pixels="imagenet",
        augment=("crop", "flip"),
        smoothing=0.1,
        margin=WIDE if net in WIDE_NETS else MARGIN,
        parameters=PARAMETERS[net],
    )
