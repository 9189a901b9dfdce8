"""The imagenet rung: seven nets on ImageNet's 1,281,167 images, each under the recipe that made it known.

Published recipes (brettkoonce/lean4-mlir, reference/recipes.md section 4). Where that page says nothing, a value is
from the trainers' own text: jax/MainResnetImagenet.lean @14516df2, MainResnet50Imagenet.lean @ae0f40bb (recipe
rsb-faithful; its emitted jax/generated/generated_resnet50_imagenet_rsbfaithful.py @45e7317a for the arithmetic), at
@0ccd6ad9 MainMobilenetV2-, MainMobilenetV4-, MainEfficientNet- and MainVitImagenet.lean, and MainConvNeXtImagenet.lean
@09ed4b15. `assumed` marks what none of them says.

Common to all: images cropped and resized at random and flipped, one by one; mean and deviation of ImageNet; float32
parameters, bfloat16 convolutions and matmuls; scored on all 50,000, cropped at the centre. Every published figure is of
a single run, which gives context and no verdict; top-1 in % of 50,000, batch statistics over all cards:
ResNet-34 74.168, ResNet-50 77.160 (2018) and 78.330 (RSB-A3), MobileNetV2 71.124, MobileNetV4-Conv-M 76.678,
EfficientNet-B0 76.878, ConvNeXt-T 81.302 (not averaged), ViT-Tiny 72.416. Days to weeks on four cards.

By name only: ResNet-50's reruns with gammas from 0 (`2018-zero-gamma`, 76.796; `rsb-a3-threshold`, 77.914).

Margin, fixed before any of our own finals existed, in percentage points of the mean. No recipe has two published seeds;
the rows of one recipe by several trainers (ResNet-34 five, ResNet-50 three of 2018 and three of RSB-A3) have a pooled
deviation of 0.11, which holds the differences between the trainers too. With five seeds on each side, two one-sided
tests at 5 % pass with probability 0.8 at a margin of 2.06 deviations, 0.23; doubled, for so few rows: 0.5.
"""

from dataclasses import replace

from ladder.recipes.recipe import Data, Mixing, Norm, Optimiser, Policy, Recipe, Schedule

# The identity is not known yet: no machine that had the files has told it, so no data of ours has a reference.
IMAGENET = Data("imagenet", "unknown", 1_281_167, 50_000, classes=1_000, shape=(224, 224, 3))
PARAMETERS = {
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "mobilenetv2": 3_504_872,
    "mobilenetv4_conv_m": 9_715_512,
    "efficientnet_b0": 5_288_548,
    "convnext_t": 28_589_128,
    "vit_tiny": 5_717_416,
}
NORMS: dict[str, Norm] = {"convnext_t": "none", "vit_tiny": "none"}  # the others: batch
MARGIN = 0.5
# The magnitude's deviation and the increasing mappings: timm's `rand-m9-mstd0.5-inc1`; two layers, timm's default.
DEIT_POLICY = Policy("rand-increasing", layers=2, magnitude=9.0, deviation=0.5)
DEIT_MIXING = Mixing(mixup=0.8, cutmix=1.0)


def recipes(data: Data = IMAGENET) -> tuple[Recipe, ...]:
    """The rung's eight, then the two reruns, which are run when they are named."""
    second, a3 = _resnet50(data), _rsb_a3(data)
    return (
        _resnet34(data),
        second,
        a3,
        _mobilenetv2(data),
        _mobilenetv4(data),
        _efficientnet(data),
        _convnext(data),
        _vit(data),
        replace(second, arm="2018-zero-gamma", zero_gamma=True, optional=True),
        replace(a3, arm="rsb-a3-threshold", threshold=0.2, zero_gamma=True, optional=True),
    )


def _resnet34(data: Data) -> Recipe:
    return replace(
        _common(data, "resnet34", "2018"),
        # Heavy-ball: He et al. 2015, section 3.4 (assumed: the table says momentum). Decay on every tensor, as there.
        optimiser=Optimiser("momentum", momentum=0.9, decay=1e-4),
        schedule=Schedule(0.1, "cosine", warmup=5),
        batch=256,
        epochs=90,
        smoothing=0.1,
        norm_keep=0.99,
    )


def _resnet50(data: Data) -> Recipe:
    return replace(
        _resnet34(data),
        net="resnet50",
        norm_keep=0.9,
        parameters=PARAMETERS["resnet50"],
    )


def _rsb_a3(data: Data) -> Recipe:
    """Wightman et al., "ResNet strikes back", 2021, procedure A3: trained at 160 pixels."""
    whole = replace(
        _common(replace(data, shape=(160, 160, 3), test_shape=data.image), "resnet50", "rsb-a3"),
        optimiser=Optimiser("lamb", decay=0.02, decayed="weights", epsilon=1e-6, clip=1.0),
        schedule=Schedule(8e-3, "cosine", warmup=5),
        batch=2048,
        epochs=100,
        policy=Policy("rand-increasing", layers=2, magnitude=6.0, deviation=0.5),
        mixing=Mixing(mixup=0.1, cutmix=1.0),
        test_crop=0.95,
        loss="sigmoid",
        norm_keep=0.9,
    )
    return whole.accumulated(4)  # as published: four parts of 512, each with its own batch statistics


def _mobilenetv2(data: Data) -> Recipe:
    return replace(
        _common(data, "mobilenetv2", "full"),
        optimiser=Optimiser("rmsprop", momentum=0.9, decay=4e-5, decayed="weights", epsilon=1.0),
        schedule=Schedule(0.045, "staircase", factor=0.98),
        batch=256,
        epochs=350,
        dropout=0.2,
        norm_keep=0.997,
        norm_epsilon=1e-3,
    )


def _mobilenetv4(data: Data) -> Recipe:
    whole = replace(
        _common(data, "mobilenetv4_conv_m", "full"),
        optimiser=Optimiser("adamw", decay=0.05, decayed="weights"),
        schedule=Schedule(4e-3, "cosine", warmup=5),
        batch=4096,
        epochs=100,
        smoothing=0.1,
        policy=Policy("rand", layers=2, magnitude=9.0),
        dropout=0.1,
        average=0.9999,
        norm_keep=0.99,  # assumed: the net's own, said here so that it is compensated for the parts
    )
    return whole.accumulated(8)  # as published: eight parts of 512


def _efficientnet(data: Data) -> Recipe:
    return replace(
        _common(data, "efficientnet_b0", "full"),
        optimiser=Optimiser("rmsprop", momentum=0.9, decay=1e-5, epsilon=1e-3),
        schedule=Schedule(0.016, "exponential", warmup=5, factor=0.97, every=2.4),
        batch=256,
        epochs=350,
        smoothing=0.1,
        policy=Policy("auto"),
        drop_path=0.2,
        dropout=0.2,
        average=0.9999,
    )


def _convnext(data: Data) -> Recipe:
    return replace(
        _common(data, "convnext_t", "full"),
        optimiser=Optimiser("adamw", decay=0.05, decayed="weights", clip=1.0),
        schedule=Schedule(2.5e-4, "cosine", warmup=20),
        batch=256,
        epochs=300,
        init="sigma0.02",
        layer_scale=1e-6,  # Liu et al. 2022, table 5 (assumed: the published code says 1e-6 from 2026-09-13)
        smoothing=0.1,
        policy=DEIT_POLICY,
        mixing=DEIT_MIXING,
        erasing=0.25,
        drop_path=0.1,
        average=0.9999,
    )


def _vit(data: Data) -> Recipe:
    return replace(
        _common(data, "vit_tiny", "full"),
        optimiser=Optimiser("adamw", decay=0.05, decayed="weights", clip=1.0),
        schedule=Schedule(5e-4, "cosine", warmup=5, end=1e-5),
        batch=512,
        epochs=300,
        init="sigma0.02",
        smoothing=0.1,
        policy=DEIT_POLICY,
        mixing=DEIT_MIXING,
        erasing=0.25,
        repeats=3,
        drop_path=0.1,
        average=0.99996,
        norm_epsilon=1e-6,
    )


def _common(data: Data, net: str, arm: str) -> Recipe:
    """What every recipe of the rung has; the optimiser, the schedule, batch and epochs are each one's own."""
    return Recipe(
        rung="imagenet",
        net=net,
        arm=arm,
        data=data,
        optimiser=Optimiser(),
        schedule=Schedule(0.0),
        batch=256,
        epochs=0,
        init="published",  # section 0's rule
        norm=NORMS.get(net, "batch"),
        order="shuffled",
        pixels="imagenet",
        augment=("resized-crop", "flip"),
        resampling="bicubic",  # read for RSB-A3, assumed for the others: one emitter writes the input of all
        test_crop=0.875,  # assumed: 224 of 256 pixels, torchvision's and timm's default; the emitter's own default
        dtype="bfloat16",
        margin=MARGIN,
        parameters=PARAMETERS[net],
    )
