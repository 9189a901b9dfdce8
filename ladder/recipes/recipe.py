"""What a training is, as data: a frozen, typed, hashable description, and the hash that makes finals comparable."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from ladder.errors import LadderError

Norm = Literal["none", "example", "batch"]
DType = Literal["float32", "bfloat16"]
OUTSIDE = "outside the hash"
Outside = {OUTSIDE: True}


@dataclass(frozen=True)
class Data:
    """The ordered dataset a recipe trains on. `identity` is the SHA-256 of the ordered bytes (ladder.data)."""

    name: str
    identity: str
    train: int
    test: int
    classes: int
    shape: tuple[int, int, int]  # height, width, channels of a stored uint8 image
    test_shape: tuple[int, int, int] | None = None  # of a stored test image, where that differs: what a net reads

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width, channels of what a net reads: training images are cropped to the test images' size."""
        return self.test_shape or self.shape

    @property
    def bytes(self) -> int:
        """Of the images, decoded."""
        return self.train * math.prod(self.shape) + self.test * math.prod(self.image)


@dataclass(frozen=True)
class Optimiser:
    """Plain SGD unless a field says otherwise; the formulas are in ladder.train.optimiser."""

    name: Literal["sgd", "nesterov", "adamw"] = "sgd"
    momentum: float = 0.0  # nesterov
    decay: float = 0.0  # adamw: decoupled weight decay, on every parameter


@dataclass(frozen=True)
class Schedule:
    """The rate as a function of the 1-based step; see ladder.train.schedule."""

    rate: float
    name: Literal["constant", "cosine"] = "constant"
    warmup: int = 0  # epochs in which the rate rises to `rate`


@dataclass(frozen=True)
class Recipe:
    """One training, whole. The *comparability fields* are all fields not marked outside the hash.

    They are what changes the distribution of finals. A field at its default is at its neutral value and is left
    out of the hash, so a field added later with a neutral default never changes an old hash.
    """

    rung: str = field(metadata=Outside)  # where it is run from
    net: str
    arm: str
    data: Data
    optimiser: Optimiser
    schedule: Schedule
    batch: int
    epochs: int
    init: Literal["published", "zero"]  # ladder.train.init
    norm: Norm = "none"  # over what a net's norm takes statistics: each example, or the batch; none: over neither
    statistics: int = 0  # examples that batch statistics are taken over; 0: the whole batch
    width: int = 0  # of a net's dense layers; 0: the net's own
    layer_scale: float = 1.0  # initial value of a net's layer scales
    order: Literal["file", "shuffled"] = "file"  # of the training images; shuffled: anew each epoch
    remainder: Literal["drop"] = "drop"  # the last, short training batch
    pixels: Literal["x/255", "imagenet"] = "x/255"  # imagenet: x/255 normalised by ImageNet's mean and deviation
    augment: tuple[
        Literal["crop", "flip"], ...
    ] = ()  # without "crop", a larger training image is cropped at its centre
    smoothing: float = 0.0
    score: Literal["last epoch, every test image, first maximum"] = "last epoch, every test image, first maximum"
    dtype: DType = "float32"  # bfloat16: of convolutions and dense layers only
    seed_scope: Literal["init"] = "init"  # what the seed changes
    margin: float = field(kw_only=True, metadata=Outside)  # percentage points; 0: exact, to the image
    parameters: int = field(kw_only=True, metadata=Outside)  # asserted against the net at export
    optional: bool = field(default=False, kw_only=True, metadata=Outside)  # run only when it is named
    accumulate: int = field(default=1, kw_only=True, metadata=Outside)  # parts of a batch, one after another in a step

    @property
    def name(self) -> str:
        """`cnn-sgd`: unique within a rung."""
        return f"{self.net}-{self.arm}"

    @property
    def steps(self) -> int:
        """Training steps in one epoch."""
        return self.data.train // self.batch

    @property
    def hash(self) -> str:
        """`h1:` + SHA-256 of the canonical JSON of the comparability fields: equal hashes, comparable finals."""
        text = json.dumps(comparability(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return "h1:" + hashlib.sha256(text.encode()).hexdigest()

    def accumulated(self, parts: int) -> Self:
        """The same training with each batch in `parts`, for a device that cannot hold it whole.

        Without batch statistics it is the same recipe, by its hash. With them, they are taken over a part: another
        recipe, which stands in for this one. Raises LadderError unless the batch divides.
        """
        if parts < 1 or self.batch % parts:
            raise LadderError(f"a batch of {self.batch} cannot be accumulated in {parts} equal parts")
        over = self.batch // parts if self.norm == "batch" and parts > 1 else 0
        return replace(self, accumulate=parts, statistics=over)

    @property
    def stands_in_for(self) -> tuple[Self, str] | None:
        """The recipe whose reference this one is held against for want of its own, and why that is not the same."""
        if not self.statistics:
            return None
        why = f"batch statistics over {self.statistics} of the {self.batch} examples of a step"
        return replace(self, accumulate=1, statistics=0), why

    def to_json(self) -> dict[str, Any]:
        """All fields, for a record or a worker; `from_json` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The recipe that `to_json` wrote; a field that did not exist then has its neutral value."""
        values: dict[str, Any] = dict(fields)
        data: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields["data"].items()}
        values["data"] = Data(**data)
        values["optimiser"] = Optimiser(**fields["optimiser"])
        values["schedule"] = Schedule(**fields["schedule"])
        values["augment"] = tuple(fields.get("augment", ()))
        return cls(**values)


def comparability(value: Any) -> dict[str, Any]:
    """The comparability fields of a recipe, or of a dataclass inside it, without those at their neutral value.

    A dataset's name is a label: two with one identity are one dataset.
    """
    kept: dict[str, Any] = {}
    for f in dataclasses.fields(value):
        item = getattr(value, f.name)
        item = float(item) if f.type is float else item  # a rate of 1 is a rate of 1.0
        if f.metadata.get(OUTSIDE) or (isinstance(value, Data) and f.name == "name"):
            continue
        if dataclasses.is_dataclass(item):
            if inner := comparability(item):
                kept[f.name] = inner
        elif f.default is dataclasses.MISSING or item != f.default:
            kept[f.name] = item
    return kept
