"""A process that a runtime test starts: one of several with a coordinator, or the collective as it is without others.

    python -m ladder.suite.peer collective PLATFORM DEVICES                 a sharded sum on every device
    python -m ladder.suite.peer control PLATFORM DEVICES                    the same sum on one device
    python -m ladder.suite.peer member PLATFORM COUNT INDEX PORT LOCAL      one process with one device
    python -m ladder.suite.peer act right|wrong|raise|abort|hang|mute       how a process can end, without a runtime

Its last line is `RESULT <json>`; without it there is no result, whatever the exit status.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from ladder.suite import faults

MARK = "RESULT "
VALUES = 4  # of each member or shard


def collective(platform: str, devices: str) -> list[float]:
    """The sum of `i + 1` over every element of shard i, as each device holds it."""
    import numpy as np

    from ladder.suite import parallel

    return [float(np.asarray(part)) for part in parallel.sharded_sum(platform, int(devices))]


def control(platform: str, devices: str) -> list[float]:
    """The same numbers, summed on one device: no collective."""
    import jax
    import numpy as np

    from ladder.suite import parallel

    rows = parallel.rows(int(devices))
    found = jax.jit(lambda x: x.sum())(jax.device_put(rows, jax.devices(platform)[0]))
    return [float(np.asarray(found))]


def member(platform: str, count: str, index: str, port: str, local: str) -> list[float]:
    """One of `count` processes with one device each: the sum over all of them, as this one holds it."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    ids = None if platform == "cpu" else [int(local)]
    jax.distributed.initialize(
        f"127.0.0.1:{port}", int(count), int(index), local_device_ids=ids, initialization_timeout=30
    )
    found, own = jax.devices(platform), jax.local_devices(backend=platform)
    if len(found) != int(count) or len(own) != 1 or jax.process_index() != int(index):
        raise RuntimeError(f"process {jax.process_index()} sees {len(own)} of its own and {len(found)} devices")
    mesh = Mesh(np.array(found), ("all",))
    mine = np.full(VALUES, int(index) + 1, np.float32)
    every = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("all")), mine)
    total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))(every)
    return [float(np.asarray(total.addressable_data(0)))]


def act(how: str) -> list[float]:
    """End in a named way."""
    match how:
        case "wrong":
            return [-1.0]
        case "raise":
            raise ImportError("no such module")
        case "abort":
            os.abort()
        case "hang":
            time.sleep(3600)
        case "mute":
            os._exit(0)
        case _:
            pass
    return [1.0]


ROLES: dict[str, Callable[..., list[float]]] = {
    "collective": collective,
    "control": control,
    "member": member,
    "act": act,
}


def main() -> None:
    """Play the role on the command line."""
    faults.inject()
    found = ROLES[sys.argv[1]](*sys.argv[2:])
    print(MARK + json.dumps(found), flush=True)
    if sys.argv[1] == "member":
        import jax

        jax.distributed.shutdown()


if __name__ == "__main__":
    from ladder.suite import peer  # the module that a fault is injected into, not this copy of it

    peer.main()
