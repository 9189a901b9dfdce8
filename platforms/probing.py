"""The probe child: started with an environment of its own, read when it has ended, and told in words."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platforms import process
from platforms.detect import first_line
from platforms.process import Ended
from platforms.profile import Profile
from platforms.redact import redact

ROOT = str(Path(__file__).resolve().parents[1])
VIRTUAL = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
SMALL = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # a probe beside another, or beside a training, takes no whole card
FATAL_FLAGS = (  # what XLA prints when it ends the process over XLA_FLAGS, and what that means
    (r"Unknown flags? in XLA_FLAGS: (.+)", "XLA_FLAGS has {0}, which this jaxlib does not know: it ends the process"),
    (r"Couldn't interpret value (\S*) for flag (\S+?)\.?$", "XLA_FLAGS gives --{1} the value '{0}', which is none"),
    (r'Could not open file "(.*?)" to read flags', "XLA_FLAGS is '{0}', taken for a file's name: it begins with no --"),
)


@dataclass(frozen=True)
class Probed:
    """What the child found (`told`, see platforms.probe), how it ended, and the variables it was given."""

    ended: Ended
    told: Mapping[str, Any]
    platforms: str | None  # JAX_PLATFORMS, as given
    flags: str | None  # XLA_FLAGS, as given

    @property
    def works(self) -> bool:
        """It came to the end."""
        return self.ended.state == "done" and self.told.get("stage") == "done"

    @property
    def devices(self) -> list[dict[str, str]]:
        """All devices that started; virtual ones too."""
        return self.told.get("devices", [])

    @property
    def accelerators(self) -> list[dict[str, str]]:
        """Those that are not a CPU."""
        return [device for device in self.devices if device["platform"] != "cpu"]

    @property
    def setting(self) -> str:
        """`JAX_PLATFORMS=…`, or that it is not set."""
        return f"JAX_PLATFORMS={self.platforms}" if self.platforms else "JAX_PLATFORMS is not set"


def probe(profile: Profile, environ: Mapping[str, str], deadline_s: float, by_default: bool = False) -> Probed:
    """Probe the profile's runtime in a child with this environment; `by_default`: what jax chooses by itself."""
    python_path = os.pathsep.join(filter(None, (ROOT, environ.get("PYTHONPATH"))))
    platform = "" if by_default else profile.jax_platform
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-P", "-m", "platforms.probe", str(file)]
        command += ["xla" if by_default else profile.lowerer, platform, profile.driver, profile.backend]
        ended = process.run(command, deadline_s, {**environ, **SMALL, "PYTHONPATH": python_path})
        try:
            told = redact(json.loads(file.read_text("utf-8")), environ)
        except (OSError, ValueError):
            told = {}
    return Probed(ended, told, environ.get("JAX_PLATFORMS"), environ.get("XLA_FLAGS"))


def virtual_devices(environ: Mapping[str, str]) -> int:
    """How many virtual devices this environment makes of the host's cores; 0 if none."""
    count = VIRTUAL.findall(environ.get("XLA_FLAGS", "")) or [environ.get("JAX_NUM_CPU_DEVICES", "")]
    return int(count[-1]) if count[-1].isdecimal() and int(count[-1]) > 1 else 0


def trouble(probed: Probed) -> str:
    """Why the child did not come to the end, in words; "" when it did."""
    stage, ended = probed.told.get("stage", "start"), probed.ended
    if probed.works:
        return ""
    if ended.state == "hanging":
        return f"it did not answer within {ended.seconds:.0f} s and was killed, in stage '{stage}'"
    for pattern, words in FATAL_FLAGS:
        if match := re.search(pattern, ended.err, re.MULTILINE):
            return words.format(*match.groups())
    if raised := probed.told.get("exception"):
        if raised["type"] == "AssertionError" and not raised["text"]:
            cause = "; ".join(idle(probed)) or "nothing installed provides that"
            return f"{probed.setting}, and jax ends with an empty AssertionError: {cause}"
        said = first_line(raised["text"]) or "without a word"
        if raised["type"] in ("ImportError", "ModuleNotFoundError"):
            return f"stage '{stage}' failed: {said}"
        given = f"{probed.setting}, and " if "jax" in probed.told else ""
        return f"{given}stage '{stage}' ended with {raised['type']}: {said}"
    said = f": {first_line(ended.err)}" if ended.err.strip() else ""
    return f"it died of {ended.died_of} in stage '{stage}'{said}"


def crowded(probed: Probed, load: float) -> str:
    """What to do about a child that hung while the box had more than two processes a core waiting; "" otherwise.

    Under load 20 on two cores, a first `import jax` took longer than the limit (2026-12-01).
    """
    cores = os.cpu_count() or 1
    if probed.ended.state != "hanging" or load <= 2 * cores:
        return ""
    return f"ladder doctor again when the box is less busy: its load is {load:.0f} on {cores} cores"


def idle(probed: Probed) -> list[str]:
    """The installed plugins that started no device, each with jax's reason where it gave one."""
    if probed.accelerators:
        return []
    log, errors = probed.told.get("log", []), probed.told.get("errors", {})
    found: list[str] = []
    for plugin in probed.told.get("plugins", []):
        reasons = [line.split("initialize(): ")[-1] for line in log if plugin in line]
        reasons += [text for platform, text in errors.items() if platform in plugin]
        why = first_line(reasons[0]) if reasons else "jax gives no reason"
        found.append(f"plugin '{plugin}' is installed but started no device: {why}")
    return found


def late_flags(probed: Probed) -> tuple[str, bool]:
    """What is wrong about when XLA_FLAGS was set, and whether it was too late; ("", False) if all is well."""
    told, given = probed.told, probed.flags
    if "flags_at_start" in told and told["flags_at_start"] != given:
        if told.get("started_before"):
            return (
                f"XLA_FLAGS={told['flags_at_start']} was set too late: Python's start-up had started jax before",
                True,
            )
        return f"XLA_FLAGS={told['flags_at_start']} comes from Python's start-up code, not from this shell", False
    if "flags" in told and told["flags"] != given:
        return f"XLA_FLAGS became {told['flags']} while jax started its plugins: what had started ignores it", False
    if told.get("started_before"):
        return "Python's start-up code starts jax before any program can set a variable", False
    wanted = virtual_devices({"XLA_FLAGS": told.get("flags") or ""})
    if probed.works and wanted and not probed.accelerators and len(probed.devices) != wanted:
        return (
            f"XLA_FLAGS asks for {wanted} virtual devices and jax has {len(probed.devices)}: it was set too late",
            True,
        )
    return "", False
