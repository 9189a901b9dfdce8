"""The flag sets that are tried for a program, as data. No one set compiles every net, and none is fastest for all."""

from dataclasses import dataclass

from ladder.lowerers.iree.targets import Target

IM2COL = ("--iree-global-opt-use-im2col-for-convs",)
DATA_TILING = (
    "--iree-opt-data-tiling",
    "--iree-llvmcpu-enable-ukernels=all",
    "--iree-llvmcpu-stack-allocation-limit=1mib",
)


@dataclass(frozen=True)
class FlagSet:
    """A named list of the compiler's flags; tried only where the step holds the operation `needs`."""

    name: str
    flags: tuple[str, ...]
    needs: str = ""


def _sets(level: str) -> tuple[FlagSet, ...]:
    o = (f"--iree-opt-level={level}",)
    return (
        FlagSet(f"{level}+im2col+tiling", (*o, *IM2COL, *DATA_TILING), "stablehlo.convolution"),
        FlagSet(f"{level}+im2col", (*o, *IM2COL), "stablehlo.convolution"),
        FlagSet(f"{level}+tiling", (*o, *DATA_TILING)),
        FlagSet(level, o),
    )


# Likely winners first, since the walk has a deadline; O1 compiled every net that was tried, O3 did not.
CPU_SETS = (*_sets("O1"), *_sets("O3"), *_sets("O2"))
DEVICE_SETS = tuple(FlagSet(level, (f"--iree-opt-level={level}",)) for level in ("O3", "O2", "O1"))


def flag_sets(target: Target, step: str) -> tuple[FlagSet, ...]:
    """The sets to try for a target, in order; `step` is the step's StableHLO text."""
    sets = CPU_SETS if target.name == "llvm-cpu" else DEVICE_SETS
    return tuple(one for one in sets if one.needs in step)
