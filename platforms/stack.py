"""The distributions that a platform's stack is made of, which versions go together, and whether an install kept them.

    python platforms/stack.py save FILE      before an install: the stack as it is, as constraints for pip
    python platforms/stack.py check FILE     after it: exit 1, with the list, where the stack is not the one saved

Standard library only, so that it runs under an interpreter in which Ladder is not installed yet.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from platforms.profile import Profile, Triple

CORE = ("jax", "jaxlib")
VENDOR = re.compile(
    r"(jax.*|libtpu.*|nvidia-.*|cuda-.*|rocm.*|amdsmi|intel-.*|oneapi.*|dpcpp.*|onemkl.*|metal-pjrt.*"
    r"|iree-.*|torch|triton.*|pytorch-triton.*)"
)

Level = Literal["OK", "WARN", "FAIL"]


def installed() -> dict[str, str]:
    """Distribution -> version, of all that belongs to an accelerator's stack; of two of a name, the one imported."""
    found: dict[str, str] = {}
    for name, number in _distributions():
        if VENDOR.fullmatch(name):
            found.setdefault(name, number)
    return dict(sorted(found.items()))


def _distributions() -> Iterator[tuple[str, str]]:
    for distribution in distributions():
        metadata: Any = distribution.metadata  # empty, or None, for what a broken installation left
        name, number = (metadata.get("Name"), metadata.get("Version")) if metadata else (None, None)
        if name and number:
            yield re.sub(r"[-_.]+", "-", name.lower()), number


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """`jaxlib: 0.11.0 -> 0.12.0`, for each distribution that is not what it was."""
    names = sorted(before.keys() | after.keys())
    return [
        f"{n}: {before.get(n, 'absent')} -> {after.get(n, 'absent')}" for n in names if before.get(n) != after.get(n)
    ]


def plugins(profile: "Profile", found: Mapping[str, str]) -> dict[str, str]:
    """The profile's own distributions that are installed."""
    return {name: found[name] for name in profile.plugins if name in found}


def judge(profile: "Profile", found: Mapping[str, str]) -> tuple[Level, str]:
    """Whether jax, jaxlib and the profile's plugin go together, and why."""
    jax, jaxlib = (found.get(name, "not installed") for name in CORE)
    mine = plugins(profile, found)
    told = f"jax {jax}, jaxlib {jaxlib}" + "".join(f", {name} {number}" for name, number in mine.items())
    if "not installed" in (jax, jaxlib):
        return "FAIL", told
    if jax != jaxlib and _release(jax) != _release(jaxlib):
        return "FAIL", f"{told}: jax and jaxlib are not of one release"
    if profile.plugins and not mine:
        return "FAIL", f"{told}; none of this platform's plugins is installed ({', '.join(profile.plugins)})"
    versions = {number.split("+")[0] for number in mine.values()}
    if not profile.follows_jax and len(versions) > 1 and profile.lowerer == "iree":
        return "FAIL", f"{told}: compiler and runtime are pinned together, and these differ"
    if profile.follows_jax and (odd := [f"{n} {v}" for n, v in mine.items() if _release(v) != _release(jax)]):
        return "FAIL", f"{told}: {odd[0]} is for another jax; the versions seen together are {seen(profile)}"
    for triple in profile.triples:
        if _is(triple, jax, jaxlib, mine):
            part = "" if triple.jax != "unknown" else ", beside a jax that no source names"
            return "OK", f"{told}: seen on {triple.seen}{part}"
    if profile.plugins:
        return "WARN", f"{told}: not among the versions seen together: {seen(profile)}"
    return "OK", told


def seen(profile: "Profile") -> str:
    """The triples that were seen to work, in words."""
    return "; ".join(f"jax {t.jax} / jaxlib {t.jaxlib} / {t.plugin}" for t in profile.triples) or "none was"


def system_version(profile: "Profile", found: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """The vendor stack outside Python: `here`, and the `wanted` version that the plugin's own version names."""
    if profile.system_stack is None:
        return {}
    try:
        here = (root / profile.system_stack.file.lstrip("/")).read_text("utf-8").strip()
    except (OSError, ValueError):
        return {}
    wanted = [
        m[1] for number in plugins(profile, found).values() if (m := re.search(profile.system_stack.wanted, number))
    ]
    return {"here": here} | ({"wanted": wanted[0]} if wanted else {})


def older(here: str, wanted: str) -> bool:
    """Whether version `here` is older than `wanted`."""
    return _numbers(here) < _numbers(wanted)


def _is(triple: "Triple", jax: str, jaxlib: str, mine: Mapping[str, str]) -> bool:
    name, _, number = triple.plugin.partition("==")
    return triple.jax in ("unknown", jax) and triple.jaxlib in ("unknown", jaxlib) and mine.get(name) == number


def _release(version: str) -> list[int]:
    return _numbers(version)[:2]


def _numbers(version: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", re.split(r"[+-]", version)[0])]


def main(argv: Sequence[str]) -> int:
    """0; 1 when the stack is not the one saved; 2 for anything but `save FILE` and `check FILE`."""
    if len(argv) != 2 or argv[0] not in ("save", "check"):
        print("usage: stack.py save|check FILE", file=sys.stderr)
        return 2
    file, found = Path(argv[1]), installed()
    if argv[0] == "save":
        file.write_text("".join(f"{name}=={number}\n" for name, number in found.items()), "utf-8")
        print(f"the stack before: {', '.join(f'{n} {v}' for n, v in found.items()) or 'nothing of it is installed'}")
        return 0
    try:
        lines = [line.partition("==") for line in file.read_text("utf-8").splitlines()]
    except OSError as error:
        print(f"the stack before the install is not known: {error}", file=sys.stderr)
        return 1
    before = {name: number for name, _, number in lines if number}
    if not before:
        print("FAIL: nothing of a vendor's stack was there before the install, so nothing was preserved")
        return 1
    if changed := changes(before, found):
        print("FAIL: the install changed the vendor's stack:", *changed, sep="\n  ")
        return 1
    print(f"the stack is the one there was: {len(before)} distributions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
