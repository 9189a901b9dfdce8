"""Platform profiles: a kind of machine and stack, as data. One TOML file each in profiles/."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

FOLDER = Path(__file__).parent / "profiles"


class UnknownProfile(Exception):
    """No profile has this name, or it is read from a broken file."""


@dataclass(frozen=True)
class Profile:
    """What a platform runs with. `environment` is applied by whoever starts a process, before Python starts."""

    name: str
    backend: str
    kind: str
    lowerer: str
    jax_platform: str
    device: str
    slots: int
    runbook: str
    environment: dict[str, str]
    why: dict[str, str]
    variant: str = "plain"  # the program's formulation that pays here


def names() -> list[str]:
    """The profiles there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Profile:
    """The profile `name`. Raises UnknownProfile naming those there are, or what is wrong with its file."""
    if name not in names():
        raise UnknownProfile(f"there is no platform '{name}'; the platforms are: {', '.join(names())}")
    try:
        values = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
        environment = values.pop("environment", {})
        profile = Profile(
            **values,
            environment={k: v["value"] for k, v in environment.items()},
            why={k: v["why"] for k, v in environment.items()},
        )
        for f in fields(Profile):
            if f.type in (int, str) and not isinstance(getattr(profile, f.name), f.type):
                raise TypeError(f"{f.name} is {getattr(profile, f.name)!r}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UnknownProfile(f"platform '{name}' cannot be read from {name}.toml: {what}") from error
    return profile
