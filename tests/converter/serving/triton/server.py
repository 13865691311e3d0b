"""A real Triton server on this machine: the one in the wheel ``nvidia-pytriton``, with its Python backend."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prototrt.tests.fresh_python import ROOT

_WHEEL = importlib.util.find_spec("pytriton")
_PACKAGES = Path(_WHEEL.origin).resolve().parents[1] if _WHEEL and _WHEEL.origin else Path()
_TRITON = _PACKAGES / "pytriton" / "tritonserver"
_START_SECONDS = 120
"""A loaded machine needs a while to import NumPy and onnxruntime."""


def why_not() -> str | None:
    """Why there is no server here, as the reason of a skipped test."""
    missing = [name for name in ("pytriton", "tritonclient") if importlib.util.find_spec(name) is None]
    if missing:
        return f"no {' and '.join(missing)} here: see `make test-triton`"
    found = subprocess.run(["ldd", str(_stub())], capture_output=True, text=True, env=_environment())
    lost = [line.split()[0] for line in found.stdout.splitlines() if "not found" in line]
    return f"the Python backend lacks {', '.join(lost)}" if lost else None


@dataclass(frozen=True)
class Server:
    """A server that runs. ``log`` is what it prints."""

    process: subprocess.Popen[bytes]
    grpc: str
    log: Path

    def client(self) -> Any:
        from tritonclient import grpc

        return grpc.InferenceServerClient(self.grpc)


@contextmanager
def running_server(repository: Path, folder: Path, *arguments: str) -> Iterator[Server]:
    """A server of the models in a repository, until the block ends. ``folder`` is for its own files."""
    ports = _free_ports(3)
    log = folder / "server.log"
    options = [f"--{kind}-port={port}" for kind, port in zip(("grpc", "http", "metrics"), ports, strict=True)]
    command = [
        str(_TRITON / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={_backends(folder)}",
        "--exit-on-error=false",
        *options,
        *arguments,
    ]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=_environment()) as process,
    ):
        server = Server(process, f"localhost:{ports[0]}", log)
        try:
            _wait_for(server)
            yield server
        finally:
            process.terminate()


def _wait_for(server: Server) -> None:
    """Until it listens, whether its models are ready or not."""
    from tritonclient.utils import InferenceServerException

    client = server.client()
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if client.is_server_live():
                return
        except InferenceServerException:
            time.sleep(0.1)
    raise AssertionError(f"the server does not start:\n{server.log.read_text(errors='replace')}")


def _environment() -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(_PACKAGES / "nvidia_pytriton.libs")}


def _stub() -> Path:
    """The program that runs a model, for the version of Python that runs here."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return _TRITON / "python_backend_stubs" / version / "triton_python_backend_stub"


def _backends(folder: Path) -> Path:
    """A folder of backends with that for Python. The stub heeds no PYTHONPATH, but finds packages beside it."""
    place = folder / "backends" / "python"
    place.mkdir(parents=True)
    for source in (*(_TRITON / "backends" / "python").iterdir(), _stub(), ROOT / ".dev" / "prototrt"):
        (place / source.name).symlink_to(source)
    for package in _PACKAGES.iterdir():
        if not (place / package.name).exists():
            (place / package.name).symlink_to(package)
    return place.parent


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
