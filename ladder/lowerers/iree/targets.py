"""What IREE compiles for, as data; and that its compiler and runtime are there, in one version."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ladder.errors import LadderError

COMPILER, RUNTIME = "iree-base-compiler", "iree-base-runtime"
TARGET, CHIP = "LADDER_IREE_TARGET", "LADDER_IREE_CHIP"  # set by a profile, before Python starts


@dataclass(frozen=True)
class Target:
    """A target of the compiler, by the name it has there, and the runtime's driver for it.

    `chip` is what code is made for where LADDER_IREE_CHIP names no other; `{chip}` in a flag stands for it.
    """

    name: str
    driver: str
    flags: tuple[str, ...] = ()
    chip: str = ""
    runtime_flags: tuple[str, ...] = ()
    check: str = ""  # the command that shows whether the driver sees a device

    def compile_flags(self) -> list[str]:
        """The flags that every compilation for this target is given."""
        return [f"--iree-hal-target-backends={self.name}", *(flag.format(chip=self.chip) for flag in self.flags)]


TARGETS = {
    target.name: target
    for target in (
        # Data-tiled code keeps tiles on the stack: with the default stack of a task worker the process dies (SIGSEGV).
        Target(
            "llvm-cpu",
            "local-task",
            ("--iree-llvmcpu-target-cpu=host",),
            runtime_flags=("--task_worker_stack_size=8388608",),
        ),
        Target("cuda", "cuda", ("--iree-cuda-target={chip}",), "sm_80", check="nvidia-smi"),
        Target("rocm", "hip", ("--iree-rocm-target={chip}",), "gfx1100", check="rocminfo"),
        Target("vulkan-spirv", "vulkan", ("--iree-vulkan-target={chip}",), "rdna3", check="vulkaninfo --summary"),
        Target(
            "metal-spirv",
            "metal",
            ("--iree-metal-compile-to-metallib=false",),
            check="system_profiler SPDisplaysDataType",
        ),
    )
}


def target(environment: Mapping[str, str]) -> Target:
    """The target that an environment asks for, else the CPU. Raises LadderError naming those there are."""
    name = environment.get(TARGET, "llvm-cpu")
    if name not in TARGETS:
        raise LadderError(f"{TARGET} is '{name}'; IREE's targets are: {', '.join(TARGETS)}")
    return replace(TARGETS[name], chip=environment.get(CHIP) or TARGETS[name].chip)


def installed_version() -> str:
    """The one version of IREE's compiler and runtime. Raises LadderError when one is missing or they differ."""
    found: dict[str, str] = {}
    for name in (COMPILER, RUNTIME):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            raise LadderError(f"{name} is not installed; lowerer iree needs it", "pip install 'ladder[iree]'") from None
    if found[COMPILER] != found[RUNTIME]:
        raise LadderError(
            f"{COMPILER} is {found[COMPILER]} and {RUNTIME} is {found[RUNTIME]}; they must be one version",
            f"pip install {RUNTIME}=={found[COMPILER]}",
        )
    return found[COMPILER]


def compiler() -> str:
    """The path of the compiler's executable. Raises LadderError when it is not there."""
    spec = importlib.util.find_spec("iree.compiler")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        tool = Path(folder) / "_mlir_libs" / "iree-compile"
        if tool.is_file():
            return str(tool)
    raise LadderError(f"{COMPILER} has no iree-compile", f"pip install --force-reinstall {COMPILER}")
