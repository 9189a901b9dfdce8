"""Let TFDS download and prepare a dataset: it needs TensorFlow and a network, and runs in a process of its own.

python -m ladder.data.tfds_download NAME DIR    prepares it in DIR as array_record; ends when its standard input does
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from ladder.data import tfds
from ladder.data.cache import locked
from ladder.data.source import Found

HOSTS = {"mnist": "storage.googleapis.com", "cifar10": "www.cs.toronto.edu"}  # from where TFDS takes them
CONNECT_SECONDS = 3.0
PREPARE_SECONDS = 900.0


def look(name: str, tfds_dir: Path, where: str, say: Callable[[str], None]) -> Found | str:
    """What TFDS prepares now in `tfds_dir`, or the one line that says why it cannot."""
    if find_spec("tensorflow") is None:
        return "preparing needs TensorFlow, which is not installed: pip install '.[tfds]' in the checkout"
    if problem := unreachable(HOSTS[name]):
        return problem
    try:
        tfds_dir.mkdir(parents=True, exist_ok=True)
        with locked(tfds_dir / f"ladder-{name}.lock", f"lets TFDS prepare {name}", say, PREPARE_SECONDS):
            if isinstance(found := tfds.look(name, tfds_dir, where), Found):  # another process has just prepared it
                return found
            say(f"TFDS downloads and prepares {name} in {where}, for up to {PREPARE_SECONDS / 60:.0f} min")
            problem = run([sys.executable, "-m", __name__, name, str(tfds_dir)], PREPARE_SECONDS)
            return problem.replace(str(tfds_dir), where) if problem else tfds.look(name, tfds_dir, where)
    except OSError as error:
        return f"{where} cannot be written: {error.strerror}"


def unreachable(host: str, port: int = 443, seconds: float = CONNECT_SECONDS) -> str:
    """Why a download from `host` would fail, or nothing: a TCP connect to it, or to its proxy, within `seconds`."""
    if proxy := getproxies().get("https"):
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host, port = parts.hostname or host, parts.port or 3128
    answer = [f"no network: {host}:{port} did not answer in {seconds:g} s"]

    def connect() -> None:
        try:
            socket.create_connection((host, port), seconds).close()
            answer[0] = ""
        except OSError as error:
            answer[0] = f"no network: {host}:{port}: {error.strerror or error}"

    # In a thread, since resolving a name has no deadline of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0]


def run(command: Sequence[str], seconds: float) -> str:
    """Run to the end, or kill at the deadline; an empty string, or what went wrong in one line.

    The child holds the reading end of a pipe as its standard input, which ends when this process does.
    """
    reading, writing = os.pipe()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}  # it computes nothing
    try:
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command, stdin=reading, stdout=output, stderr=output, env=environment)
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                return f"TFDS had not prepared it after {seconds:g} s and was ended"
            finally:
                child.kill()
                child.wait()
            output.seek(0)
            lines = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    finally:
        os.close(reading)
        os.close(writing)
    return (
        "" if code == 0 else f"TFDS failed with code {code}: {lines[-1].strip()[:300] if lines else 'it said nothing'}"
    )


def main() -> None:
    """Prepare the dataset named first in the folder named second."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import tensorflow_datasets

    name, folder = sys.argv[1:]
    tensorflow_datasets.builder(name, data_dir=folder, file_format="array_record").download_and_prepare()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


if __name__ == "__main__":
    main()
