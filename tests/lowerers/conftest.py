"""Programs through IREE: a walk over two flag sets, once a session; and programs made by hand."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ladder.lowerers import Executable, Lowerer, make
from ladder.lowerers.iree import flags
from ladder.train.artifact import Function, Program

TWO_SETS = tuple(one for one in flags.CPU_SETS if one.name in ("O1", "O1+tiling"))


@pytest.fixture(scope="session")
def iree() -> Lowerer:
    """The iree lowerer on this process's CPU."""
    return make("iree", "cpu")


@pytest.fixture(scope="session")
def tuned(program: Callable[[str], Program], iree: Lowerer, shared_cache: Path) -> Callable[[str], Executable]:
    """tuned(net): the tiny program through IREE, its flag sets walked once a session."""
    made: dict[str, Executable] = {}

    def get(net: str) -> Executable:
        if net not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("LADDER_CACHE", str(shared_cache))
                patch.setattr(flags, "CPU_SETS", TWO_SETS)
                made[net] = iree.compile(program(net))
        return made[net]

    return get


@pytest.fixture
def by_hand(tmp_path: Path) -> Callable[[Any, tuple[Any, ...]], Program]:
    """by_hand(function, shapes): a program of that one function, named step, as the export child writes it."""
    import jax

    from ladder.train.export import text_without_locations

    def build(function: Any, shapes: tuple[Any, ...]) -> Program:
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*shapes)
        text = text_without_locations(exported)
        (tmp_path / "step.mlir").write_text(text)
        (tmp_path / "step.bin").write_bytes(bytes(exported.serialize()))
        fields: dict[str, Any] = dict.fromkeys((f.name for f in dataclasses.fields(Program)), "cpu")
        fields |= {"folder": tmp_path, "sha": hashlib.sha256(text.encode()).hexdigest(), "leaves": ()}
        fields["functions"] = {"step": Function((), ())}
        return Program(**fields)

    return build
