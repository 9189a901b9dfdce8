"""What a lowerer promises, and gate G4: no dropped state."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ladder.errors import LadderError
from ladder.train.artifact import Array, Program

Value = Any  # an array on the lowerer's device
Arrays = dict[str, Value]


@dataclass(frozen=True)
class Compiled:
    """How a program was compiled: seconds per function, and whether each came from the compilation cache.

    `options` is what the lowerer chose for this program, and why, for the record; nothing where there is no choice.
    """

    seconds: Mapping[str, float]
    cached: Mapping[str, bool]
    options: Mapping[str, str] = field(default_factory=dict[str, str])


class Executable(Protocol):
    """A program compiled for one device. State and dataset stay on the device between calls."""

    compiled: Compiled

    def put(self, array: np.ndarray) -> Value:
        """Copy a host array to the device."""
        ...

    def get(self, value: Value) -> np.ndarray:
        """Wait for a value and copy it to the host; the copy is the caller's."""
        ...

    def feed(self, images: Value, labels: Value, idx: np.ndarray, draws: Mapping[str, np.ndarray]) -> Arrays:
        """A training batch from the resident dataset; `idx` [batch] i32."""
        ...

    def test_feed(self, images: Value, labels: Value, idx: np.ndarray, draws: Mapping[str, np.ndarray]) -> Arrays:
        """A test batch; `idx` [test_batch] i32, -1 pads."""
        ...

    def step(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        """One training step. The state passed in is consumed. `key` u32[2]. Returns the new state and the metrics."""
        ...

    def eval(self, state: Arrays, batch: Arrays) -> tuple[Value, Value, Value]:
        """Correct i32, top-5 correct i32 and summed loss f32 of a test batch."""
        ...


class Lowerer(Protocol):
    """Compiles programs for one device."""

    @property
    def name(self) -> str:
        """As it stands in a record, a fault included."""
        ...

    def describe(self) -> dict[str, str]:
        """The device and what drives it, for the record: device, device_kind, runtime, platform_version."""
        ...

    def compile(self, program: Program) -> Executable:
        """Compile every function of a program. Raises Unsupported when an operation cannot be lowered."""
        ...


class Unsupported(LadderError):
    """The lowerer cannot compile the program: which operation, where, and what to do."""


class DroppedState(LadderError):
    """Gate G4: an output without a destination or an input without a source."""


def check_boundary(program: Program) -> None:
    """Gate G4 on a program: every output has a destination, every input a source, of the same shape and dtype.

    Raises DroppedState naming the arrays.
    """
    f = program.functions
    layout = {f"state:{leaf.name}": Array(f"state:{leaf.name}", leaf.shape, leaf.dtype) for leaf in program.leaves}
    batch = {f"batch:{a.name}": Array(f"batch:{a.name}", a.shape, a.dtype) for a in f["feed"].outputs}
    test = {f"batch:{a.name}": Array(f"batch:{a.name}", a.shape, a.dtype) for a in f["test_feed"].outputs}
    host = {"lr": Array("lr", (), "float32"), "key": Array("key", (2,), "uint32")}
    _same("step reads", f["step"].inputs, {**layout, **batch, **host})
    _same("step returns", f["step"].outputs, {**layout, "loss": Array("loss", (), "float32")})
    _same("eval reads", f["eval"].inputs, {**layout, **test})
    counts = {"correct": "int32", "top5": "int32", "loss_sum": "float32"}
    _same("eval returns", f["eval"].outputs, {name: Array(name, (), dtype) for name, dtype in counts.items()})
    for name, fed in (("feed", batch), ("test_feed", test)):
        size = fed["batch:label"].shape if "batch:label" in fed else ()
        images = next((a.shape for a in f[name].inputs if a.name == "images"), ())
        reads = {
            "images": Array("images", images, "uint8"),
            "labels": Array("labels", images[:1], "int32"),
            "idx": Array("idx", size, "int32"),
        }
        _same(f"{name} reads", tuple(a for a in f[name].inputs if not a.name.startswith("draws:")), reads)


def check_state(program: Program, state: Mapping[str, np.ndarray]) -> None:
    """Gate G4 on values: the state is the program's, by name, shape and dtype. Raises DroppedState."""
    given = tuple(Array(name, value.shape, str(value.dtype)) for name, value in state.items())
    _same("the state holds", given, {leaf.name: Array(leaf.name, leaf.shape, leaf.dtype) for leaf in program.leaves})


def _same(what: str, found: tuple[Array, ...], wanted: Mapping[str, Array]) -> None:
    names = Counter(a.name for a in found)
    faults = [f"{name} is there {count} times" for name, count in names.items() if count > 1]
    faults += [f"{name} is missing" for name in wanted if name not in names]
    faults += [f"{a.name} has no place" for a in found if a.name not in wanted]
    faults += [
        f"{a.name} is {a.dtype}{list(a.shape)}, not {wanted[a.name].dtype}{list(wanted[a.name].shape)}"
        for a in found
        if a.name in wanted and a != wanted[a.name]
    ]
    if faults:
        raise DroppedState(f"dropped state (gate G4): {what}: {'; '.join(sorted(faults))}")
