"""torchvision's and timm's nets changed into the recipes' (reference/recipes.md section 3), and where in our nets each
of their modules is. Imported by scripts/model_goldens.py only, in its environment.
"""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional

SIZE, CLASSES = 64, 10


@dataclass(frozen=True)
class Net:
    """A library's net made into the recipe's, its forward, and our path of a module's."""

    build: Callable[[], nn.Module]
    path: Callable[[str], str]
    forward: Callable[[Any, torch.Tensor], torch.Tensor] = lambda net, x: net(x)


def plus_one(number: str) -> int:
    """The libraries count from 0, we from 1."""
    return int(number) + 1


def late_padding(conv: nn.Conv2d) -> None:
    """No zeros before, one after, in place of one on each side."""
    assert conv.padding == (1, 1)
    assert conv.stride == (2, 2)
    conv.padding = (0, 0)
    conv.register_forward_pre_hook(lambda _, x: (functional.pad(x[0], (0, 1, 0, 1)),))


def resnet(make: Callable[..., nn.Module]) -> Net:
    def path(name: str) -> str:
        if m := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)", name):
            return f"stage{m[1]}_block{plus_one(m[2])}/conv{m[4]}/{'conv' if m[3] == 'conv' else 'norm'}"
        if m := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.([01])", name):
            return f"stage{m[1]}_block{plus_one(m[2])}/shortcut/{('conv', 'norm')[int(m[3])]}"
        return {"conv1": "stem/conv", "bn1": "stem/norm", "fc": "head"}[name]

    return Net(lambda: make(num_classes=CLASSES), path)


def build_mobilenetv2() -> nn.Module:
    net = torchvision.models.mobilenet_v2(num_classes=CLASSES, dropout=0.0)
    strided = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2)]
    assert len(strided) == 5
    for conv in strided:
        late_padding(conv)
    return net


# The paper's stages, and the first block of each in torchvision's one list.
MOBILENETV2_BLOCKS = [f"stage{s}_block{b}" for s, n in enumerate((1, 2, 3, 4, 3, 3, 1), 1) for b in range(1, n + 1)]


def mobilenetv2_path(name: str) -> str:
    if m := re.fullmatch(r"features\.(0|18)\.([01])", name):
        return f"{'stem' if m[1] == '0' else 'last'}/{('conv', 'norm')[int(m[2])]}"
    if m := re.fullmatch(r"features\.(\d+)\.conv\.(.+)", name):
        parts = ("expand", "depthwise", "project") if m[1] != "1" else ("depthwise", "project")
        places = [f"{i}.{j}" for i in range(len(parts) - 1) for j in (0, 1)] + [str(len(parts) - 1), str(len(parts))]
        at = places.index(m[2])
        return f"{MOBILENETV2_BLOCKS[int(m[1]) - 1]}/{parts[at // 2]}/{('conv', 'norm')[at % 2]}"
    return {"classifier.1": "head"}[name]


def build_efficientnet() -> nn.Module:
    net = timm.create_model("efficientnet_b0", num_classes=CLASSES)
    late_padding(net.conv_stem)
    return net


def efficientnet_path(name: str) -> str:
    if m := re.fullmatch(r"blocks\.(\d)\.(\d)\.(.+)", name):
        first = ["depthwise", "project"] if m[1] == "0" else ["expand", "depthwise", "project"]
        parts = {f"bn{i}": f"{part}/norm" for i, part in enumerate(first, 1)} | {
            "conv_dw": "depthwise/conv",
            "conv_pwl": "project/conv",
            "conv_pw": "project/conv" if m[1] == "0" else "expand/conv",
            "se.conv_reduce": "squeeze_excite/squeeze",
            "se.conv_expand": "squeeze_excite/excite",
        }
        return f"stage{plus_one(m[1])}_block{plus_one(m[2])}/{parts[m[3]]}"
    return {
        "conv_stem": "stem/conv",
        "bn1": "stem/norm",
        "conv_head": "last/conv",
        "bn2": "last/norm",
        "classifier": "head",
    }[name]


def build_mobilenetv4() -> nn.Module:
    """timm strides the second depthwise, has no activation after the first and none of swish."""
    net = timm.create_model("mobilenetv4_conv_medium", num_classes=CLASSES)
    late_padding(net.conv_stem)
    net.blocks[0][0].bn1.act = nn.SiLU()
    strided = 0
    for module in net.modules():
        first: Any = getattr(module, "dw_start", None)
        second: Any = getattr(module, "dw_mid", None)
        if first is None or isinstance(first, nn.Identity):
            continue
        first.bn.act = nn.ReLU()
        if not isinstance(second, nn.Identity) and second.conv.stride == (2, 2):
            first.conv.stride, second.conv.stride = (2, 2), (1, 1)
            strided += 1
    assert strided == 3
    return net


def mobilenetv4_forward(net: Any, x: torch.Tensor) -> torch.Tensor:
    """timm pools before the last convolution; the recipe after it."""
    x = net.norm_head(net.conv_head(net.forward_features(x)))  # the norm's own activation is ReLU
    return net.classifier(x.mean((2, 3)))


MOBILENETV4_FIRST = {"1": 1, "2": 3, "3": 11}  # our number of the first block of timm's stages 1 to 3


def mobilenetv4_path(name: str) -> str:
    if m := re.fullmatch(r"blocks\.([123])\.(\d+)\.(\w+)\.(conv|bn)", name):
        part = {"dw_start": "depthwise1", "pw_exp": "expand", "dw_mid": "depthwise2", "pw_proj": "project"}[m[3]]
        number = MOBILENETV4_FIRST[m[1]] + int(m[2])
        return f"block{number}/{part}/{'conv' if m[4] == 'conv' else 'norm'}"
    return {
        "conv_stem": "stem/conv",
        "bn1": "stem/norm",
        "blocks.0.0.conv_exp": "fused/expand/conv",
        "blocks.0.0.bn1": "fused/expand/norm",
        "blocks.0.0.conv_pwl": "fused/project/conv",
        "blocks.0.0.bn2": "fused/project/norm",
        "blocks.4.0.conv": "last1/conv",
        "blocks.4.0.bn1": "last1/norm",
        "conv_head": "last2/conv",
        "norm_head": "last2/norm",
        "classifier": "head",
    }[name]


def with_tanh_gelu(net: nn.Module) -> nn.Module:
    for module in net.modules():
        if isinstance(module, nn.GELU):
            module.approximate = "tanh"
    return net


def build_convnext() -> nn.Module:
    return with_tanh_gelu(torchvision.models.convnext_tiny(num_classes=CLASSES, stochastic_depth_prob=0.0))


def convnext_path(name: str) -> str:
    if m := re.fullmatch(r"features\.([1357])\.(\d)(?:\.block\.([0235]))?", name):
        block = f"stage{(int(m[1]) + 1) // 2}_block{plus_one(m[2])}"
        return f"{block}/{ {'0': 'depthwise', '2': 'norm', '3': 'expand', '5': 'project'}[m[3]] }" if m[3] else block
    if m := re.fullmatch(r"features\.([246])\.([01])", name):
        return f"down{int(m[1]) // 2 + 1}{('_norm', '')[int(m[2])]}"
    return {
        "features.0.0": "stem",
        "features.0.1": "stem_norm",
        "classifier.0": "head_norm",
        "classifier.2": "head",
    }[name]


def build_vit() -> nn.Module:
    norm = functools.partial(nn.LayerNorm, eps=1e-5)
    net = timm.create_model("vit_tiny_patch16_224", img_size=SIZE, num_classes=CLASSES, norm_layer=norm)
    return with_tanh_gelu(net)


def vit_path(name: str) -> str:
    if m := re.fullmatch(r"blocks\.(\d+)\.(.+)", name):
        part = {"attn.qkv": "attention/qkv", "attn.proj": "attention/out", "mlp.fc1": "fc1", "mlp.fc2": "fc2"}
        return f"block{plus_one(m[1])}/{part.get(m[2], m[2])}"
    return {"patch_embed.proj": "patches", "norm": "norm", "head": "head", "": ""}[name]


NETS = {
    "resnet34": resnet(torchvision.models.resnet34),
    "resnet50": resnet(torchvision.models.resnet50),
    "mobilenetv2": Net(build_mobilenetv2, mobilenetv2_path),
    "efficientnet_b0": Net(build_efficientnet, efficientnet_path),
    "mobilenetv4_conv_m": Net(build_mobilenetv4, mobilenetv4_path, mobilenetv4_forward),
    "convnext_t": Net(build_convnext, convnext_path),
    "vit_tiny": Net(build_vit, vit_path),
}
