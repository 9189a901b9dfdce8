"""Nothing secret leaves the process: a list of variables that may be shown, and a look at every text."""

import re
from collections.abc import Mapping
from typing import Any

SHOWN = (
    *("JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_NUM_CPU_DEVICES", "JAX_DEFAULT_MATMUL_PRECISION", "XLA_FLAGS"),
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"),
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
    *("NCCL_P2P_DISABLE", "GLIBC_TUNABLES", "OMP_NUM_THREADS", "LADDER_BOX"),
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL|AUTH|COOKIE|DSN|_URL$", re.IGNORECASE)
IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
LONG = 6


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a report may show."""
    return {name: redact(environ[name], environ) for name in SHOWN if name in environ}


def redact(value: Any, environ: Mapping[str, str]) -> Any:
    """JSON values without the values of variables that are named like secrets, and without passwords in URLs."""
    secrets = [v for name, v in environ.items() if SECRET.search(name) and name not in SHOWN and len(v) >= LONG]
    return _clean(value, sorted(secrets, key=len, reverse=True))


def _clean(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return IN_URL.sub("***@", value)
    if isinstance(value, Mapping):
        return {k: _clean(v, secrets) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(v, secrets) for v in value]
    return value
