"""Platform profiles: a kind of machine and stack, as data. One TOML file each in profiles/."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

FOLDER = Path(__file__).parent / "profiles"


class UnknownProfile(Exception):
    """No profile has this name, or it is read from a broken file."""


@dataclass(frozen=True)
class Tool:
    """A vendor's tool and how its answer is read: regular expressions, with ^ and $ at every line.

    Each match of `device` is a device, its groups `name`, `driver`, `memory`; `driver` finds a version told once for
    all; `none` is how the tool says that there is no device. `first_line`: the tool prints for ever; one line will do.
    """

    command: tuple[str, ...]
    device: str
    driver: str = ""
    none: str = ""
    first_line: bool = False


@dataclass(frozen=True)
class Detect:
    """How a box is known to be this platform.

    Tools are asked in order until one lists a device; `files` are patterns of device files, of which one will do;
    every pattern of `needs` must be there and none of `without`; `system` is `platform.system()`, "" for any.
    `everywhere`: every box has this one.
    """

    tools: tuple[Tool, ...] = ()
    files: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    system: str = ""
    everywhere: bool = False
    like: str = ""  # detected as this other profile is


@dataclass(frozen=True)
class Triple:
    """Versions that belong together, and where they were seen to; "unknown" where the source does not tell."""

    jax: str
    jaxlib: str
    plugin: str
    seen: str


@dataclass(frozen=True)
class Variable:
    """An environment variable that is set before Python starts."""

    value: str
    why: str


@dataclass(frozen=True)
class SystemStack:
    """A vendor stack outside Python: the file with its version, and where a plugin's version names what it wants."""

    file: str
    wanted: str  # a regular expression on the plugin's version; its first group is the stack's


@dataclass(frozen=True)
class Profile:
    """What a platform runs with. `environment` is applied by whoever starts a process, before Python starts."""

    name: str
    title: str
    backend: str
    kind: str
    lowerer: str
    jax_platform: str
    device: str  # the hardware that a slot stands for; profiles that share it share its slots
    device_variable: str  # chooses devices; "" if there is none
    slots: int
    precision: str  # what a float32 matmul is by default: fp32, tf32-like, unknown
    runbook: str
    setup: str
    plugins: tuple[str, ...]  # distributions, of which one family is installed
    follows_jax: bool  # a plugin's version is that of the jax it is for
    triples: tuple[Triple, ...]
    unknown: tuple[str, ...]  # what no source and no run of ours tells
    not_applicable: dict[str, str]  # rung -> why it cannot run there
    variables: dict[str, Variable]
    detect: Detect
    variant: str = "plain"  # the program's formulation that pays here
    driver: str = ""  # of the iree runtime
    system_stack: SystemStack | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variable -> value."""
        return {name: variable.value for name, variable in self.variables.items()}

    @property
    def why(self) -> dict[str, str]:
        """Variable -> why it is set."""
        return {name: variable.why for name, variable in self.variables.items()}


def names() -> list[str]:
    """The profiles there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Profile:
    """The profile `name`. Raises UnknownProfile naming those there are, or the file and the key that is wrong in it."""
    if name not in names():
        raise UnknownProfile(f"there is no platform '{name}'; the platforms are: {', '.join(names())}")
    try:
        values = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
        profile: Profile = _built(Profile, values, "")
        if profile.name != name:
            raise ValueError(f"name is '{profile.name}'")
    except (OSError, ValueError) as error:
        raise UnknownProfile(f"platform '{name}' cannot be read from {name}.toml: {error}") from error
    if profile.detect.like:
        return replace(profile, detect=replace(load(profile.detect.like).detect, like=profile.detect.like))
    return profile


def load_all() -> list[Profile]:
    """Every profile, by name."""
    return [load(name) for name in names()]


def _built(kind: Any, value: Any, key: str) -> Any:
    """A TOML value as the type that the schema has for its key. Raises ValueError naming the key."""
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_built(get_args(kind)[0], item, f"{key}[{n}]") for n, item in enumerate(value))  # pyright: ignore[reportUnknownArgumentType]
    if get_origin(kind) is dict and isinstance(value, Mapping):
        return {name: _built(get_args(kind)[1], item, f"{key}.{name}") for name, item in value.items()}
    inner = next((k for k in (kind, *get_args(kind)) if is_dataclass(k)), None)
    if inner is not None and isinstance(value, Mapping):
        return _dataclass(inner, dict(value), f"{key}." if key else "")
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise ValueError(f"{key} is {value!r}, not {getattr(kind, '__name__', kind)}")


def _dataclass(kind: Any, values: dict[str, Any], prefix: str) -> Any:
    hints = get_type_hints(kind)
    if unknown := values.keys() - hints.keys():
        raise ValueError(f"{prefix}{min(unknown)} is no key of a profile")
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if missing := needed - values.keys():
        raise ValueError(f"{prefix}{min(missing)} is missing")
    return kind(**{name: _built(hints[name], value, prefix + name) for name, value in values.items()})
