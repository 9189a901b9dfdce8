#!/usr/bin/env python3
"""Make or check ladder/data/mnist_order.npy from the original IDX files.

python scripts/mnist_order_table.py --from DIR           writes the table
python scripts/mnist_order_table.py --from DIR --check   exits 1 if the committed table is not what DIR gives
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from ladder.data import idx, order
from ladder.data.identity import MNIST_IDENTITY, identity

TABLE = Path(__file__).resolve().parents[1] / "ladder" / "data" / order.TABLE


def main() -> int:
    """0: written, or equal. 1: the committed table is another one. 2: DIR does not hold the published MNIST."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, required=True, help="folder with the four IDX files")
    parser.add_argument("--check", action="store_true", help="compare with the committed table and write nothing")
    arguments = parser.parse_args()
    found = idx.look(arguments.source)
    if isinstance(found, str):
        print(f"{arguments.source}: {found}")
        return 2
    arrays = found.decode()
    if (got := identity(arrays)) != MNIST_IDENTITY:
        print(f"{arguments.source} is not the published MNIST: identity {got}, expected {MNIST_IDENTITY}")
        return 2
    table = order.table(arrays)
    if not arguments.check:
        np.save(TABLE, table)
        print(f"wrote {TABLE.name}: {len(table)} places")
        return 0
    same = np.array_equal(table, np.load(TABLE))
    print(f"{TABLE.name} {'is' if same else 'is NOT'} the file order of the published MNIST")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
