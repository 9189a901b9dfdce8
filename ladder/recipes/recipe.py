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

    name: Literal["sgd", "nesterov", "adamw", "momentum", "rmsprop", "lamb"] = "sgd"
    momentum: float = 0.0  # nesterov, momentum, rmsprop
    decay: float = 0.0  # of weights; adamw: decoupled; lamb: before the trust ratio; momentum, rmsprop: in the gradient
    decayed: Literal["all", "weights"] = "all"  # weights: no bias, no norm's vector, no class token, no position
    epsilon: float = 1e-8  # adamw, lamb: beside the root; rmsprop: inside it
    clip: float = 0.0  # what the gradient's norm, over every parameter, is scaled down to; 0: it is left as it is


@dataclass(frozen=True)
class Schedule:
    """The rate as a function of the 1-based step; see ladder.train.schedule."""

    rate: float
    name: Literal["constant", "cosine", "staircase", "exponential"] = "constant"
    warmup: int = 0  # epochs in which the rate rises to `rate`
    end: float = 0.0  # cosine: the rate at the last step
    factor: float = 1.0  # staircase, exponential: what the rate is multiplied by ...
    every: float = 1.0  # ... each time that so many epochs have gone by since the warm-up


@dataclass(frozen=True)
class Policy:
    """Which operations change a training image; the operations and their tables are in ladder.data.augment.policies.

    `rand`: RandAugment; `rand-increasing`: with the mappings that grow with the magnitude. `auto`: AutoAugment's
    policy for ImageNet, which has layers and magnitudes of its own.
    """

    name: Literal["none", "rand", "rand-increasing", "auto"] = "none"
    layers: int = 0  # operations an image
    magnitude: float = 0.0  # 0 to 10
    deviation: float = 0.0  # of the magnitude


@dataclass(frozen=True)
class Mixing:
    """Neighbours in a batch are mixed: by mixup on the even steps, by cutmix on the odd ones, counted from 0."""

    mixup: float = 0.0  # both parameters of the beta distribution that the share is drawn from; 0: never
    cutmix: float = 0.0


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
    init: Literal["published", "zero", "sigma0.02"]  # ladder.train.layout
    norm: Norm = "none"  # over what a net's norm takes statistics: each example, or the batch; none: over neither
    statistics: int = 0  # examples that batch statistics are taken over; 0: the whole batch
    width: int = 0  # of a net's dense layers; 0: the net's own
    layer_scale: float = 1.0  # initial value of a net's layer scales
    order: Literal["file", "shuffled"] = "file"  # of the training images; shuffled: anew each epoch
    remainder: Literal["drop"] = "drop"  # the last, short training batch
    pixels: Literal["x/255", "imagenet"] = "x/255"  # imagenet: x/255 normalised by ImageNet's mean and deviation
    augment: tuple[
        Literal["crop", "flip", "resized-crop"], ...
    ] = ()  # without a crop, a larger training image is cropped at its centre
    smoothing: float = 0.0
    score: Literal["last epoch, every test image, first maximum"] = "last epoch, every test image, first maximum"
    dtype: DType = "float32"  # bfloat16: of convolutions and dense layers only
    seed_scope: Literal["init"] = "init"  # what the seed changes
    policy: Policy = Policy()
    mixing: Mixing = Mixing()
    erasing: float = 0.0  # probability that a rectangle of a training image becomes noise
    repeats: int = 1  # times that an image stands in an epoch, each with its own draws; the epoch is no longer for it
    resampling: Literal["bilinear", "bicubic"] = "bilinear"  # when an image is resized
    test_crop: float = 0.0  # share of a test image's shorter side that its centre crop takes; 0: stored as it is read
    loss: Literal["softmax", "sigmoid"] = "softmax"  # cross-entropy over the classes, or of each class by itself
    threshold: float = 0.0  # sigmoid: a target above it counts as 1, another as 0; 0: as it is
    drop_path: float = 0.0  # probability that the last block's branch is left out for an example; linear from 0
    dropout: float = 0.0  # before the last dense layer
    average: float = 0.0  # decay of the moving average of parameters and statistics, which are scored too; 0: none
    norm_keep: float = 0.0  # what a step keeps of batch norm's running statistics; 0: the net's own
    norm_epsilon: float = 0.0  # of the net's norms; 0: the net's own
    zero_gamma: bool = False  # the last norm of each residual branch starts at 0
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
    def made_on_host(self) -> bool:
        """Whether each training image is made on the host from its file, with its own crop, flip and policy."""
        return "resized-crop" in self.augment

    @property
    def train_image(self) -> tuple[int, int, int]:
        """Height, width, channels of a training image that the net reads."""
        return self.data.shape if self.made_on_host else self.data.image

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
        values["policy"] = Policy(**fields.get("policy", {}))
        values["mixing"] = Mixing(**fields.get("mixing", {}))
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
