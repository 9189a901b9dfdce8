"""What this box is and why, what is missing for a platform, and the line that puts it right.

Nothing here imports a runtime: vendor tools and runtimes are asked in children with a deadline, and however those end
is an answer. The words are the same for every vendor; names come from the profiles.
"""

import os
import platform as host
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from platforms import detect, probing, profile, redact, stack
from platforms.detect import Detection
from platforms.probe import RELATIVE
from platforms.probing import Probed
from platforms.profile import Profile
from platforms.stack import Level

PROBE_S = 50.0


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, why, and what to do next where it is not well."""

    name: str
    level: Level
    detail: str
    next: str = ""


@dataclass(frozen=True)
class Report:
    """A platform on this box. `state`: ready, not ready (a check failed), not here, or here but not set up."""

    platform: str
    title: str
    state: Literal["ready", "not ready", "not set up", "not here"]
    reason: str
    devices: tuple[dict[str, str], ...] = ()
    environment: Mapping[str, str] | None = None
    checks: tuple[Check, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examination:
    """The whole answer. `shell` is what plain jax does in this shell, whatever the platform."""

    box: Mapping[str, Any]
    shell: tuple[Check, ...]
    reports: tuple[Report, ...]

    @property
    def healthy(self) -> bool:
        """No check failed."""
        checks = [*self.shell, *(check for report in self.reports for check in report.checks)]
        return all(check.level != "FAIL" for check in checks)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, nothing secret in them."""
        reports = [asdict(report) for report in self.reports]
        told = {
            "box": self.box,
            "healthy": self.healthy,
            "shell": [asdict(c) for c in self.shell],
            "platforms": reports,
        }
        return redact.redact(told, os.environ)


def examine(
    wanted: str | None,
    environ: Mapping[str, str],
    need: int = 1,
    root: Path = Path("/"),
    probe_s: float = PROBE_S,
    ask: detect.Ask = detect.ask,
) -> Examination:
    """Examine this box for one platform, or for all: then those that are not here are no failure.

    `need`: how many devices that platform must have; virtual ones never count. Raises UnknownProfile.
    """
    profiles = [profile.load(wanted)] if wanted else profile.load_all()
    asked, found = detect.ask_all(profiles, ask), stack.installed()
    detected = {p.name: detect.detect(p, asked, root) for p in profiles}
    chosen = [p for p in profiles if wanted or (detected[p.name].found and (stack.plugins(p, found) or not p.plugins))]
    with ThreadPoolExecutor(len(chosen) + 1) as pool:
        by_default = pool.submit(probing.probe, profiles[0], environ, probe_s, True)
        probes = {p.name: pool.submit(probing.probe, p, {**environ, **p.environment}, probe_s).result for p in chosen}
        probed = {name: result() for name, result in probes.items()}
    whose = [p.name for p in profiles if p.lowerer == "xla" and stack.plugins(p, found)]
    shell = _shell(by_default.result(), next(iter(chosen), None) if wanted else None, probed, whose)
    reports = [
        _report(p, detected[p.name], probed[p.name], environ, need, root, found)
        if p in chosen
        else _absent(p, detected[p.name])
        for p in profiles
    ]
    return Examination(_box(environ, found), shell, tuple(reports))


def _box(environ: Mapping[str, str], found: Mapping[str, str]) -> dict[str, Any]:
    return {
        "system": f"{host.system()} {host.release()} {host.machine()}",
        "python": host.python_version(),
        "processor": detect.processor(),
        "cores": os.cpu_count(),
        "stack": dict(found),
        "environment": redact.environment(environ),
    }


def _absent(p: Profile, detection: Detection) -> Report:
    if not detection.found:
        return Report(p.name, p.title, "not here", detection.reason)
    check = Check("plugin", "WARN", f"none of {', '.join(p.plugins)} is installed", f"bash {p.setup}")
    return Report(p.name, p.title, "not set up", detection.reason, checks=(check,))


def _report(
    p: Profile,
    detection: Detection,
    probed: Probed,
    environ: Mapping[str, str],
    need: int,
    root: Path,
    found: Mapping[str, str],
) -> Report:
    checks = [
        _device(p, detection, probed),
        *_hidden(p, environ),
        _stack(p, found),
        *_system_stack(p, found, root),
        *_overridden(p, environ),
        _runs(p, probed),
        *_count(p, probed, need),
    ]
    state = "not ready" if any(check.level == "FAIL" for check in checks) else "ready"
    devices = tuple(probed.devices)
    return Report(p.name, p.title, state, detection.reason, devices, p.environment, tuple(checks), p.unknown)


def _device(p: Profile, detection: Detection, probed: Probed) -> Check:
    if detection.found and not detection.sick:
        return Check("device", "OK", detection.reason)
    if probed.works and _own(p, probed):
        return Check("device", "WARN", f"{detection.reason}; yet the runtime starts it", f"see {p.runbook}")
    return Check("device", "FAIL", detection.reason, f"check the device and its driver; see {p.runbook}")


def _own(p: Profile, probed: Probed) -> Sequence[dict[str, str]]:
    """The devices that count for a profile: a CPU counts only where a CPU is what the profile is."""
    return probed.devices if p.detect.everywhere else probed.accelerators


def _hidden(p: Profile, environ: Mapping[str, str]) -> list[Check]:
    value = environ.get(p.device_variable) if p.device_variable else None
    if value is None:
        return []
    what = "hides every device" if value.strip() in ("", "-1") else f"leaves only device {value}"
    return [Check("visible", "WARN", f"{p.device_variable}={value} {what}", f"unset {p.device_variable}")]


def _stack(p: Profile, found: Mapping[str, str]) -> Check:
    level, told = stack.judge(p, found)
    return Check(
        "stack", level, told, "" if level == "OK" else f"bash {p.setup}" if level == "FAIL" else f"see {p.runbook}"
    )


def _system_stack(p: Profile, found: Mapping[str, str], root: Path) -> list[Check]:
    version = stack.system_version(p, found, root)
    if not version or p.system_stack is None:
        return []
    told = f"{p.system_stack.file} says {version['here']}"
    if "wanted" in version and stack.older(version["here"], version["wanted"]):
        told += f", older than the {version['wanted']} that the plugin is for: its libraries can shadow the plugin's"
        return [Check("system stack", "WARN", told, f"see {p.runbook}")]
    return [Check("system stack", "OK", told)]


def _overridden(p: Profile, environ: Mapping[str, str]) -> list[Check]:
    odd = [f"{k}={environ[k]}" for k, v in p.environment.items() if k in environ and environ[k] != v]
    if not odd:
        return []
    mine = ", ".join(
        f"{k}={p.environment[k]}" for k in p.environment if k in environ and environ[k] != p.environment[k]
    )
    return [
        Check("variables", "WARN", f"this shell has {', '.join(odd)}; a run sets {mine}", "nothing, if that is meant")
    ]


def _runs(p: Profile, probed: Probed) -> Check:
    """The platform's own environment, a device of its own, and one result that is right."""
    put_right = f"bash {p.setup}; see {p.runbook}"
    if why := probing.trouble(probed):
        mine = "XLA_FLAGS" in p.environment
        what = "unset XLA_FLAGS" if why.startswith("XLA_FLAGS") and not mine else put_right
        return Check("runs", "FAIL", why, probing.crowded(probed, os.getloadavg()[0]) or what)
    if not (own := _own(p, probed)):
        cause = "; ".join(probing.idle(probed)) or f"nothing installed provides '{p.driver or p.jax_platform}'"
        there = f"only {', '.join(d['id'] for d in probed.devices)}" if probed.devices else "no device"
        return Check("runs", "FAIL", f"{there} started: {cause}", put_right)
    names = ", ".join(f"{d['id']} ({d['kind']})" for d in own)
    if "error" not in probed.told:
        return Check("runs", "WARN", f"{names} started; nothing was compiled", f"ladder run suite --platform {p.name}")
    where, error = ", ".join(probed.told["ran_on"]), probed.told["error"]
    if not error <= RELATIVE:
        return Check("runs", "FAIL", f"what {where} computes is wrong: relative error {error:.1e}", f"see {p.runbook}")
    right = f"right to {error:.0e}" if error else "exact"
    return Check("runs", "OK", f"{names}; what {where} computes is {right}")


def _count(p: Profile, probed: Probed, need: int) -> list[Check]:
    """Enough devices, where a number was asked for. The host's cores are one device, however many it pretends to be."""
    virtual = len(probed.devices) - 1 if p.detect.everywhere else len(probed.devices) - len(probed.accelerators)
    have = min(len(probed.devices), 1) if p.detect.everywhere else len(probed.accelerators)
    pretended = f"; {len(probed.devices)} virtual devices do not count" if virtual > 0 else ""
    if have < need and need > 1:
        return [Check("count", "FAIL", f"{need} devices are needed; found {have}{pretended}", f"see {p.runbook}")]
    if virtual > 0:
        told = f"{len(probed.devices)} virtual devices: what runs on them is labelled so and counts for no hardware"
        return [Check("count", "WARN", told, "unset XLA_FLAGS JAX_NUM_CPU_DEVICES")]
    return [Check("count", "OK", f"{have} of {need} devices")] if need > 1 else []


def _shell(probed: Probed, p: Profile | None, own: Mapping[str, Probed], whose: Sequence[str]) -> tuple[Check, ...]:
    """What plain jax does in this shell: it is what every other program gets, and it falls back without a word.

    A failure where it is not what the platform asked for needs, and that platform's own environment does no better.
    `whose`: the platforms that an installed plugin belongs to.
    """
    accelerator = p if p and not p.detect.everywhere and p.lowerer == "xla" else None
    level: Level = "FAIL" if p is None or (accelerator and not own[p.name].works) else "WARN"
    checks: list[Check] = []
    late, too_late = probing.late_flags(probed)
    if late:
        checks.append(Check("flags", "FAIL" if too_late else "WARN", late, "set XLA_FLAGS before Python starts"))
    if why := probing.trouble(probed):
        what = probing.crowded(probed, os.getloadavg()[0]) or (
            "unset XLA_FLAGS"
            if "XLA_FLAGS" in why
            else f"bash {accelerator.setup}"
            if accelerator
            else "unset JAX_PLATFORMS"
        )
        return (*checks, Check("shell", "FAIL" if "XLA_FLAGS" in why else level, why, what))
    there = ", ".join(device["id"] for device in probed.devices)
    asked_cpu = probed.platforms == "cpu" or (p is not None and not accelerator)
    if sleepers := probing.idle(probed):
        told = f"{probed.setting}: jax has only {there}; {'; '.join(sleepers)}"
        fix = f"bash {accelerator.setup}" if accelerator else f"ladder doctor --platform {' or '.join(whose) or 'NAME'}"
        return (*checks, Check("shell", "WARN" if asked_cpu else "FAIL", told, fix))
    listed = [name for name in (probed.platforms or "").split(",") if name not in ("", "cpu")]
    if accelerator and not probed.accelerators:
        chose = "fell back to" if listed else "chose"
        why = f"nothing installed provides '{accelerator.jax_platform}'"
        told = f"{probed.setting}: jax {chose} {there} without a word: {why}"
        return (*checks, Check("shell", level, told, f"bash {accelerator.setup}"))
    if listed and not probed.accelerators:
        told = f"{probed.setting}: jax fell back to {there} without a word"
        return (*checks, Check("shell", "WARN", told, "unset JAX_PLATFORMS"))
    return (*checks, Check("shell", "OK", f"{probed.setting}: jax starts {there}"))
