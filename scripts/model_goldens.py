"""Write the nets' goldens from torchvision's and timm's own nets, in float64 on the CPU.

    python -m venv /tmp/goldens && /tmp/goldens/bin/pip install -r scripts/model_goldens.txt
    PYTHONPATH=. /tmp/goldens/bin/python scripts/model_goldens.py [NET ...]           tests/models/goldens/*.json
    PYTHONPATH=. /tmp/goldens/bin/python scripts/model_goldens.py [NET ...] --check   write nothing; 1 if one differs

Each net is built by the library, changed to the recipe where it differs (scripts/torch_nets.py), filled with the seeded
weights of tests/models/seeded.py and taken through one training forward and backward of the mean cross-entropy. A
golden keeps logits, loss, and of every gradient and batch statistic the L2 norm and a few seeded places, under our
names and in our layout.
"""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional
from torch_nets import NETS, SIZE, Net

from tests.models import seeded

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "models" / "goldens"
BATCH = 4
AGREES = 1e-9  # relative to the array: what another CPU may differ by

Array = np.ndarray


@dataclass(frozen=True)
class Form:
    """How a torch parameter becomes ours, and back."""

    ours: Callable[[Array], Array]
    torch: Callable[[Array], Array]


CONV = Form(lambda a: a.transpose(2, 3, 1, 0), lambda a: a.transpose(3, 2, 0, 1))  # OIHW, HWIO
DENSE = Form(lambda a: a.T, lambda a: a.T)
VECTOR = Form(lambda a: a, lambda a: a)
TOKEN = Form(lambda a: a[0], lambda a: a[None])
CHANNEL = Form(lambda a: a[:, 0, 0], lambda a: a[:, None, None])
CONV_AS_DENSE = Form(lambda a: a[:, :, 0, 0].T, lambda a: a.T[:, :, None, None])
DENSE_AS_CONV = Form(lambda a: a.T[None, None], lambda a: a[0, 0].T)
QKV = ("query", "key", "value")


def form_of(net: str, ours: str, dims: int) -> Form:
    """By our name and the number of torch's dimensions."""
    if ours.endswith(("/squeeze/w", "/excite/w")):
        return CONV_AS_DENSE
    if net == "convnext_t" and ours.endswith(("/expand/w", "/project/w")):
        return DENSE_AS_CONV
    if ours.endswith("/scale"):
        return CHANNEL
    if ours in ("cls", "pos"):
        return TOKEN
    return {4: CONV, 2: DENSE, 1: VECTOR}[dims]


def our_name(net: Net, module: nn.Module, path: str, leaf: str) -> str:
    """Our name of a torch module's parameter."""
    norm = isinstance(module, nn.BatchNorm2d | nn.LayerNorm)
    tail = {"weight": "gamma" if norm else "w", "bias": "beta" if norm else "b"}
    own = {"layer_scale": "scale", "cls_token": "cls", "pos_embed": "pos"}
    return "/".join(part for part in (net.path(path), own.get(leaf) or tail[leaf]) if part)


def parameters(net: Net, module: nn.Module) -> Iterator[tuple[nn.Parameter, list[str]]]:
    """Each torch parameter with ours, stacked along its first axis: one, or query, key and value."""
    for path, part in module.named_modules():
        for leaf, value in part.named_parameters(recurse=False):
            name = our_name(net, part, path, leaf)
            yield value, [name.replace("/qkv/", f"/{p}/") for p in QKV] if "/qkv/" in name else [name]


def fill(name: str, net: Net, module: nn.Module) -> None:
    """Set every parameter to the seeded weights of its place in our net."""
    for value, ours in parameters(net, module):
        parts: list[Array] = []
        for own in ours:
            form = form_of(name, own, value.dim())
            shape = form.ours(np.empty((value.shape[0] // len(ours), *value.shape[1:]))).shape
            parts.append(form.torch(seeded.weight(name, own, shape)))
        value.data = torch.from_numpy(np.concatenate(parts))


def watch_statistics(net: Net, module: nn.Module) -> dict[str, Array]:
    """Batch mean and biased variance of what every batch norm reads, filled by the next forward."""
    seen: dict[str, Array] = {}

    def hook(path: str) -> Callable[..., None]:
        def keep(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            x = inputs[0].detach().numpy()
            seen[f"{net.path(path)}/mean"], seen[f"{net.path(path)}/var"] = x.mean((0, 2, 3)), x.var((0, 2, 3))

        return keep

    for path, part in module.named_modules():
        if isinstance(part, nn.BatchNorm2d):
            part.register_forward_pre_hook(hook(path))
    return seen


def golden(name: str) -> dict[str, Any]:
    """The golden of a net, as it is written."""
    net = NETS[name]
    module = net.build().double().train()
    fill(name, net, module)
    stats = watch_statistics(net, module)
    images = torch.from_numpy(seeded.images(name, BATCH, SIZE).transpose(0, 3, 1, 2).copy())
    logits = net.forward(module, images)
    loss = functional.cross_entropy(logits, torch.from_numpy(seeded.labels(BATCH)))
    loss.backward()
    gradients: dict[str, Array] = {}
    for value, ours in parameters(net, module):
        assert value.grad is not None
        for own, part in zip(ours, np.split(value.grad.numpy(), len(ours)), strict=True):
            gradients[own] = form_of(name, own, value.dim()).ours(part)
    return {
        "net": name,
        "batch": BATCH,
        "size": SIZE,
        "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__},
        "loss": loss.item(),
        "logits": logits.tolist(),
        "gradients": {k: seeded.digest(name, k, v) for k, v in sorted(gradients.items())},
        "stats": {k: seeded.digest(name, k, v) for k, v in sorted(stats.items())},
    }


def text(made: dict[str, Any]) -> str:
    """JSON, one array a line, 13 digits."""
    rounded = json.loads(json.dumps(made), parse_float=lambda digits: float(f"{float(digits):.12e}"))
    lines: list[str] = []
    for key, value in rounded.items():
        if key in ("gradients", "stats"):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f'"{key}": {{\n{inner}\n}}' if inner else f'"{key}": {{}}')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(made: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Where a golden made anew is not the kept one, beyond AGREES of an array's norm."""
    wrong = [key for key in ("net", "batch", "size") if made[key] != kept[key]]
    wrong += ["logits"] * (not np.allclose(made["logits"], kept["logits"], rtol=0, atol=AGREES))
    for part in ("gradients", "stats"):
        if made[part].keys() != kept[part].keys():
            wrong.append(f"{part}: not the same names")
            continue
        largest = max((leaf["l2"] for leaf in kept[part].values()), default=1.0)
        for name, leaf in made[part].items():
            allowed = AGREES * max(kept[part][name]["l2"], 1e-6 * largest)
            got, want = [leaf["l2"], *leaf["samples"]], [kept[part][name]["l2"], *kept[part][name]["samples"]]
            if not np.allclose(got, want, rtol=0, atol=allowed):
                wrong.append(f"{part}: {name}")
    return wrong


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(NETS), metavar="NET", help=", ".join(NETS))
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    status = 0
    for name in arguments.nets:
        if name not in NETS:
            parser.error(f"no net {name}; the nets are: {', '.join(NETS)}")
        path, made = FOLDER / f"{name}.json", golden(name)
        if not arguments.check:
            path.write_text(text(made))
            print(f"wrote {path.name}: {len(made['gradients'])} gradients, {len(made['stats'])} statistics")
        elif wrong := differences(made, json.loads(path.read_text())):
            print(f"{path.name} differs: {'; '.join(wrong[:5])} ({len(wrong)} in all)")
            status = 1
        else:
            print(f"{path.name} agrees to {AGREES:g}")
    return status


if __name__ == "__main__":
    sys.exit(main())
