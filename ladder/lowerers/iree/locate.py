"""Where in the net an operation comes from. A child with jax: the text that is compiled and hashed has no locations.

`python -m ladder.lowerers.iree.locate`, {file, operation} on stdin -> ["Cnn/pool", ...] on stdout.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import jax.export
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

_NAME = re.compile(r'"(jit\([^"]*)"')
_WRAPPED = re.compile(r"^(?:transpose|jvp|vmap|remat|checkpoint|custom_vjp)\((.*)\)$")


def scope(name: str) -> str:
    """`jit(step)/transpose(jvp(Cnn))/pool/select_and_scatter_add` -> `Cnn/pool`."""
    parts: list[str] = []
    for part in name.split("/")[:-1]:
        while found := _WRAPPED.match(part):
            part = found[1]
        if part and "(" not in part:
            parts.append(part)
    return "/".join(parts)


def places(module: Any, operation: str) -> list[str]:
    """The scopes of the operations of that name, each once."""
    found: list[str] = []

    def look(op: Any) -> Any:
        if op.name == operation and (named := _NAME.search(str(op.location))):
            found.append(scope(named[1]) or named[1])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return list(dict.fromkeys(found))


def main() -> None:
    """Serve the one request on stdin."""
    request = json.load(sys.stdin)
    exported = jax.export.deserialize(bytearray(Path(request["file"]).read_bytes()))
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
        print(json.dumps(places(module, request["operation"])))


if __name__ == "__main__":
    main()
