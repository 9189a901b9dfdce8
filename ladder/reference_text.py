"""A reference as text: TOML that people read and git keeps, one line a final.

    name, kind, date, platform, lowerer     what it is; then whatever says where it comes from
    content                                 SHA-256 of all the rest: an edited reference is found out
    [[recipe]] rung, net, arm, total, fields, and `hash` where it is a recipe of ours
    finals = [ { seed = 1, correct = 9867, … }, … ]

In a final, `train_loss` is the last epoch's mean loss and the two curves have a value an epoch; `nan` is a loss that
was not finite, a missing key a figure that was not recorded.
"""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ladder.errors import LadderError

Kind = Literal["published", "measured"]
HEAD = ("name", "kind", "date", "platform", "lowerer")
BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Final:
    """One trial's final. `correct` is None where it diverged without a score."""

    seed: int
    correct: int | None
    top5: int | None = None
    diverged: bool = False
    train_loss: float | None = None
    note: str = ""
    source: str = ""
    epoch_correct: tuple[int, ...] = ()
    epoch_loss: tuple[float, ...] = ()


@dataclass(frozen=True)
class Part:
    """What a reference holds of one net and arm: `fields` is the recipe, as published or in full as it was run.

    `hash` is None while it waits for its recipe (`waiting` says why). For a published one, `hash` and `ours` are the
    recipe that it is bound to, and `differences` what is known to differ.
    """

    rung: str
    net: str
    arm: str
    total: int
    fields: Mapping[str, Any]
    finals: tuple[Final, ...]
    hash: str | None = None
    ours: Mapping[str, Any] | None = None
    differences: tuple[str, ...] = ()
    waiting: str = ""

    @property
    def finite(self) -> tuple[int, ...]:
        """Images correct of the trials that did not diverge."""
        return tuple(f.correct for f in self.finals if f.correct is not None and not f.diverged)

    @property
    def diverged(self) -> int:
        return sum(f.diverged for f in self.finals)


@dataclass(frozen=True)
class Reference:
    """A named, immutable set of finals, and where they came from (`facts`, in words)."""

    name: str
    kind: Kind
    date: str
    platform: str
    lowerer: str
    facts: Mapping[str, Any]
    parts: tuple[Part, ...]
    content: str = field(default="", compare=False)

    def part(self, net: str, arm: str) -> Part | None:
        return next((p for p in self.parts if (p.net, p.arm) == (net, arm)), None)


def dumps(reference: Reference, comment: str) -> str:
    """The text of a reference; the same reference gives the same bytes."""
    lines = [f"{key} = {_value(getattr(reference, key))}" for key in HEAD]
    lines += [f"{key} = {_value(value)}" for key, value in reference.facts.items()]
    body: list[str] = []
    for part in reference.parts:
        keys = ("rung", "net", "arm", "total", *(("hash",) if reference.kind == "measured" else ()), "fields")
        body += ["", "[[recipe]]", *(f"{key} = {_value(getattr(part, key))}" for key in keys), "finals = ["]
        body += [f"  {_value(_line(final))}," for final in part.finals] + ["]"]
    content = _content(tomllib.loads("\n".join((*lines, *body))))
    return "\n".join((*(f"# {line}" for line in comment.splitlines()), *lines, f'content = "{content}"', *body)) + "\n"


def loads(text: str, where: str) -> Reference:
    """The reference that `dumps` wrote. Raises LadderError, naming `where`, for other text or an edited one."""
    try:
        document = tomllib.loads(text)
        content = document.pop("content")
        if content != (found := _content(document)):
            raise LadderError(
                f"reference {where} was edited: it says content {content[:15]}…, it has {found[:15]}…; a reference"
                " never changes once named",
                f"git checkout {where}",
            )
        head = {key: document.pop(key) for key in HEAD}
        parts = tuple(_part(recipe) for recipe in document.pop("recipe"))
        return Reference(**head, facts=document, parts=parts, content=content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LadderError(f"reference {where} cannot be read: {type(error).__name__}: {error}") from error


def _part(recipe: Mapping[str, Any]) -> Part:
    finals: list[Final] = []
    for line in recipe["finals"]:
        values: dict[str, Any] = {"correct": None, **line}
        curves: dict[str, Any] = {key: tuple(values.pop(key, ())) for key in ("epoch_correct", "epoch_loss")}
        finals.append(Final(**values, **curves))
    known = {key: recipe[key] for key in ("rung", "net", "arm", "total", "fields")}
    hash_ = recipe.get("hash")
    return Part(**known, finals=tuple(finals), hash=hash_, ours=known["fields"] if hash_ else None)


def _line(final: Final) -> dict[str, Any]:
    """A final without what is not known of it."""
    line = {
        "seed": final.seed,
        "correct": final.correct,
        "top5": final.top5,
        "diverged": final.diverged or None,
        "train_loss": final.train_loss,
        "epoch_correct": list(final.epoch_correct) or None,
        "epoch_loss": list(final.epoch_loss) or None,
        "note": final.note or None,
        "source": final.source or None,
    }
    return {key: value for key, value in line.items() if value is not None}


def _content(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _value(value: Any) -> str:
    """A TOML value on one line: JSON's strings, integers and arrays are TOML's; its null is a key left out."""
    if isinstance(value, Mapping):
        pairs = (
            f"{key if BARE.fullmatch(key) else json.dumps(key)} = {_value(item)}"
            for key, item in value.items()
            if item is not None
        )
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def table(name: str, values: Mapping[str, Any]) -> str:
    """`[[name]]` and a line a key."""
    lines = (f"{key} = {_value(value)}" for key, value in values.items() if value is not None)
    return "\n".join((f"[[{name}]]", *lines)) + "\n"
