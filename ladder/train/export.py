"""The export child: traces a recipe's program on CPU jax and writes it.

`python -m ladder.train.export`, with the request on stdin:

    {recipe, platform, variant, folder, test_batch, streamed}
    -> folder/{program.json, <function>.bin, <function>.mlir}
"""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ladder.recipes import Recipe
from ladder.train.artifact import FUNCTIONS, PLAIN, TRACED_WITH, Array, sha256, text_sha
from ladder.train.program import Traced, build

NAMES: dict[str, tuple[str, ...]] = {
    "feed": ("images", "labels", "idx", "draws"),
    "step": ("state", "batch", "lr", "key"),
    "eval": ("state", "batch"),
}
RESULTS: dict[str, tuple[str | None, ...] | None] = {
    "feed": None,
    "step": ("state", None),
    "eval": ("correct", "top5", "loss_sum"),
}


def text_without_locations(exported: jax.export.Exported) -> str:
    """The StableHLO text of the exported bytes, without source locations, so that moving the source changes nothing."""
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
        return str(module.operation.get_asm(enable_debug_info=False))


def boundary(tree: Any, names: tuple[str | None, ...] | None) -> list[dict[str, Any]]:
    """The named arrays of a function's arguments or results, as they flatten: `state:params/fc1/w`, `lr`, `loss`."""
    arrays: list[dict[str, Any]] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        keys = [p.idx if isinstance(p, jax.tree_util.SequenceKey) else p.key for p in path]
        if names is not None:
            keys[0] = names[keys[0]]
        name = ":".join(str(k) for k in keys if k is not None)
        arrays.append(dataclasses.asdict(Array(name, tuple(leaf.shape), str(leaf.dtype))))
    return arrays


def export(recipe: Recipe, platform: str, variant: str, folder: Path, test_batch: int, streamed: bool = False) -> None:
    """Write the recipe's program into `folder`, whole or not at all. One process at a time may."""
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)  # what a killed export left
    scratch.mkdir(parents=True)
    try:
        _write(recipe, platform, variant, scratch, test_batch, streamed)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _exported(function: str, traced: Traced, platform: str) -> jax.export.Exported:
    # keep_unused: the StableHLO signature is the boundary, whole, for a runtime that knows nothing of jax.
    jitted = jax.jit(traced[0], keep_unused=True, donate_argnums=(0,) if function == "step" else ())
    return jax.export.export(jitted, platforms=[platform])(*traced[1])


def _plain_sha(recipe: Recipe, platform: str, test_batch: int, streamed: bool) -> str:
    _, functions = build(recipe, PLAIN, test_batch, streamed)
    return text_sha({name: text_without_locations(_exported(name, f, platform)) for name, f in functions.items()})


def _write(recipe: Recipe, platform: str, variant: str, folder: Path, test_batch: int, streamed: bool) -> None:
    leaves, functions = build(recipe, variant, test_batch, streamed)
    texts: dict[str, str] = {}
    binaries: dict[str, str] = {}
    signatures: dict[str, Any] = {}
    for name, (function, shapes) in functions.items():
        exported = _exported(name, (function, shapes), platform)
        serialised = bytes(exported.serialize())
        (folder / f"{name}.bin").write_bytes(serialised)
        binaries[name] = sha256(serialised)
        texts[name] = text_without_locations(exported)
        (folder / f"{name}.mlir").write_text(texts[name])
        kind = name.removeprefix("test_")
        signatures[name] = {
            "inputs": boundary(shapes, NAMES[kind]),
            "outputs": boundary(jax.eval_shape(function, *shapes), RESULTS[kind]),
        }
    assert set(texts) == set(FUNCTIONS)
    meta = {
        "sha": text_sha(texts),
        "plain_sha": text_sha(texts) if variant == PLAIN else _plain_sha(recipe, platform, test_batch, streamed),
        "variant": variant,
        "binaries": binaries,
        "platform": platform,
        "test_batch": test_batch,
        "streamed": streamed,
        "leaves": [dataclasses.asdict(leaf) for leaf in leaves],
        "functions": signatures,
        "versions": {name: sys.modules[name].__version__ for name in TRACED_WITH},
    }
    (folder / "program.json").write_text(json.dumps(meta, indent=1))


def main() -> None:
    """Serve the one request on stdin."""
    request = json.load(sys.stdin)
    jax.config.update("jax_threefry_partitionable", True)  # recorded by being fixed here
    jax.config.update("jax_default_prng_impl", "threefry2x32")
    recipe = Recipe.from_json(request["recipe"])
    where = request["platform"], request["variant"], Path(request["folder"])
    export(recipe, *where, request["test_batch"], request["streamed"])


if __name__ == "__main__":
    main()
