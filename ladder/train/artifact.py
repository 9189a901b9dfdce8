"""A program on disk: what the export child wrote and the worker runs. NumPy and the standard library only."""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as once
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ladder import children, paths
from ladder.errors import LadderError
from ladder.recipes import Recipe
from ladder.train.layout import Leaf

PLAIN = "plain"
VARIANTS = (PLAIN, "matmul-gradient")  # formulations of one arithmetic; a profile names the one that pays there
FUNCTIONS = ("feed", "test_feed", "step", "eval")
TEST_BATCH = 1000  # small images scored at a time; it changes no score, since padding has weight 0
SMALL = 64  # pixels a side; of larger ones two training batches are scored at a time, since 1000 fill a card
EXPORT_LIMIT_S = 300.0
TRACED_WITH = ("jax", "jaxlib", "flax", "optax")


@dataclass(frozen=True)
class Array:
    """Name, shape and dtype of one array at a program's boundary."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Function:
    """One exported function: its inputs and outputs in the order of the StableHLO signature.

    Names carry the argument: `state:params/fc1/w`, `batch:image`, `lr`; outputs likewise: `state:…`, `loss`.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@dataclass(frozen=True)
class Program:
    """An exported recipe. `sha` is the SHA-256 of the StableHLO texts without locations.

    `plain_sha` is that of the plain variant for the same platform: the same where the variant changes nothing.
    """

    folder: Path
    sha: str
    plain_sha: str
    variant: str
    platform: str  # jax platform it was exported for
    leaves: tuple[Leaf, ...]
    functions: Mapping[str, Function]
    test_batch: int
    versions: Mapping[str, str]
    streamed: bool = False  # its feeds take the images of one batch, not the whole dataset

    def exported(self, function: str) -> bytes:
        """The serialised `jax.export.Exported`, for a runtime that has jax."""
        return (self.folder / f"{function}.bin").read_bytes()

    def stablehlo(self, function: str) -> str:
        """The StableHLO text without locations: what `sha` hashes."""
        return (self.folder / f"{function}.mlir").read_text()

    @property
    def parameters(self) -> int:
        """Count of trained numbers."""
        return sum(_size(leaf.shape) for leaf in self.leaves if leaf.name.startswith("params/"))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def read(folder: Path) -> Program:
    """The program in a folder. Raises LadderError when it is not whole or its contents are not what it says."""
    try:
        meta = json.loads((folder / "program.json").read_text())
        texts = {f: (folder / f"{f}.mlir").read_text() for f in FUNCTIONS}
        binaries = {f: sha256((folder / f"{f}.bin").read_bytes()) for f in FUNCTIONS}
        program = Program(
            folder,
            meta["sha"],
            meta["plain_sha"],
            meta["variant"],
            meta["platform"],
            tuple(Leaf.from_json(leaf) for leaf in meta["leaves"]),
            {
                name: Function(tuple(map(_array, f["inputs"])), tuple(map(_array, f["outputs"])))
                for name, f in meta["functions"].items()
            },
            meta["test_batch"],
            meta["versions"],
            meta.get("streamed", False),
        )
        told = meta["binaries"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LadderError(f"program {folder.name} in the cache is not whole: {error!r}", f"rm -r {folder}") from error
    changed = [f"{f}.bin" for f in FUNCTIONS if binaries[f] != told.get(f)]
    if text_sha(texts) != program.sha:
        changed.append("its text")
    if changed:
        raise LadderError(f"program {folder.name} in the cache was changed: {', '.join(changed)}", f"rm -r {folder}")
    return program


def sha256(content: bytes) -> str:
    """The hex SHA-256 of a function's serialised bytes, which are what runs."""
    return hashlib.sha256(content).hexdigest()


def _array(fields: dict[str, Any]) -> Array:
    return Array(fields["name"], tuple(fields["shape"]), fields["dtype"])


def text_sha(texts: Mapping[str, str]) -> str:
    """SHA-256 over the functions' StableHLO texts, by name."""
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(f"{name}\n{texts[name]}\n".encode())
    return digest.hexdigest()


@once
def source_sha() -> str:
    """SHA-256 of the sources that a program is traced from: models/, ladder/train/ and ladder/recipes/."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    folders = ("models", "ladder/train", "ladder/recipes")
    for path in sorted(path for folder in folders for path in (root / folder).glob("*.py")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def batch_tested(recipe: Recipe) -> int:
    """How many test images are scored at a time."""
    return TEST_BATCH if max(recipe.data.image[:2]) <= SMALL else min(TEST_BATCH, 2 * recipe.batch)


def cache_key(recipe: Recipe, platform: str, variant: str = PLAIN, streamed: bool = False) -> str:
    """What decides a program: the recipe's traced fields, the sources, the tracing versions, target and variant."""
    traced = {
        "net": recipe.net,
        "arm": recipe.arm,
        "data": {k: v for k, v in recipe.to_json()["data"].items() if k not in ("name", "identity")},
        "optimiser": recipe.to_json()["optimiser"],
        "batch": recipe.batch,
        "init": recipe.init,
        "norm": recipe.norm,
        "width": recipe.width,
        "layer_scale": recipe.layer_scale,
        "pixels": recipe.pixels,
        "augment": recipe.augment,
        "smoothing": recipe.smoothing,
        "dtype": recipe.dtype,
        "accumulate": recipe.accumulate,
        "mixing": recipe.to_json()["mixing"],
        "erasing": recipe.erasing,
        "loss": recipe.loss,
        "threshold": recipe.threshold,
        "drop_path": recipe.drop_path,
        "dropout": recipe.dropout,
        "average": recipe.average,
        "norm_keep": recipe.norm_keep,
        "norm_epsilon": recipe.norm_epsilon,
        "zero_gamma": recipe.zero_gamma,
        "streamed": streamed,
        "platform": platform,
        "variant": variant,
        "test_batch": batch_tested(recipe),
        "source": source_sha(),
        "versions": {name: version(name) for name in TRACED_WITH},
    }
    return hashlib.sha256(json.dumps(traced, sort_keys=True).encode()).hexdigest()[:24]


def program_for(recipe: Recipe, platform: str, variant: str = PLAIN, streamed: bool = False) -> tuple[Program, bool]:
    """The recipe's program for a jax platform in a variant, exported now in a child or cached; and whether it was.

    `streamed`: for a dataset that does not lie on the device whole.
    One process exports, others wait; a damaged program is exported again. Raises LadderError for an unknown variant,
    when the export fails or takes longer than EXPORT_LIMIT_S, or when the cache cannot be written.
    """
    if variant not in VARIANTS:
        raise LadderError(f"there is no program variant '{variant}'; the variants are: {', '.join(VARIANTS)}")
    root = paths.cache() / "programs"
    folder = root / f"{recipe.net}-{recipe.arm}-{platform}-{variant}-{cache_key(recipe, platform, variant, streamed)}"
    if program := _whole(folder):
        return program, True
    lock = root / f".{folder.name}.lock"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=EXPORT_LIMIT_S):
            if program := _whole(folder):
                return program, True
            _export(recipe, platform, variant, folder, streamed)
    except Timeout:
        raise LadderError(
            f"waited {EXPORT_LIMIT_S:.0f} s for another process to export {recipe.name}",
            f"wait for the process that holds {lock}, or end it",
        ) from None
    except OSError as error:
        raise LadderError(
            f"the program cache {root} cannot be written: {error.strerror}", "set LADDER_CACHE to a folder that can"
        ) from error
    return read(folder), False


def _whole(folder: Path) -> Program | None:
    try:
        return read(folder)
    except LadderError:
        return None  # not exported yet, or damaged, which costs one more export


def _export(recipe: Recipe, platform: str, variant: str, folder: Path, streamed: bool) -> None:
    where = {"platform": platform, "variant": variant, "folder": str(folder)}
    request = {"recipe": recipe.to_json(), **where, "test_batch": batch_tested(recipe), "streamed": streamed}
    # jax reads its settings from JAX_*, and some of them change what is traced.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_") and k != "XLA_FLAGS"}
    try:
        child = subprocess.run(
            children.command("ladder.train.export"),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=EXPORT_LIMIT_S,
            env=children.environment({**plain, "JAX_PLATFORMS": "cpu"}),
        )
    except subprocess.TimeoutExpired:
        raise LadderError(f"export of {recipe.name} for {platform} took longer than {EXPORT_LIMIT_S:.0f} s") from None
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["no output"])[-1]
        raise LadderError(f"export of {recipe.name} for {platform} failed (exit {child.returncode}): {last}")
