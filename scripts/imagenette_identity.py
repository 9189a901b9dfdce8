"""Tell the identity of the published Imagenette, from its original archive.

    python scripts/imagenette_identity.py imagenette2-320.tgz

The archive is the one whose SHA-256 TFDS records; another is refused. What it prints goes into
ladder/recipes/imagenette.py and ladder/data/identity.py; then `python scripts/published_references.py` binds anew.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

from ladder.data import imagenette
from ladder.data.files import sha256
from ladder.data.source import Found

# tensorflow_datasets/datasets/imagenette/checksums.tsv, imagenette2-320.tgz of 341,663,724 bytes.
ARCHIVE = "569b4497c98db6dd29f335d1f109cf315fe127053cedf69010d047f0188e158c"


def main() -> int:
    """0, or 1 when the archive is another one."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    archive = Path(sys.argv[1])
    if (found := sha256(archive)) != ARCHIVE:
        print(f"{archive.name} has sha256 {found}, the published archive has {ARCHIVE}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        tree = imagenette.look(Path(folder))
    assert isinstance(tree, Found), tree
    print(f"sha256:{tree.fingerprint}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
