"""A plan and its manifest, read from their files and compared."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import EngineError, UnreadableFileError
from prototrt.caffe_proto.common.files import open_regular, read_regular
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.files.companions.manifest_reading import (
    WRONG,
    foreign_manifest_error,
    signature_of_manifest,
)
from prototrt.converter.files.companions.pinning import Trusted, pin_of, trusted_manifest
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import ENGINE_SUFFIXES, BackendName

_GIVE_PLAN = Worded("give a plan written by {}", Command("convert"))
BACKENDS: tuple[BackendName, ...] = ("rtx", "enterprise")
_RTX = b"vtrt"
_MAGICS = (_RTX, b"ftrt", b"ptrt")
"""The first bytes of plans: of TensorRT for RTX, of TensorRT, and of old versions of TensorRT."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanFile:
    """A serialized engine with the facts of its manifest; without a manifest, ``signature`` is None."""

    file: str
    plan: bytes | memoryview
    backend: BackendName
    version: str | None
    signature: Signature | None
    has_loops: bool | None
    sha256: str


def is_plan(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a plan, by its suffix or by how it begins."""
    if Path(path).suffix.lower() in ENGINE_SUFFIXES:
        return True
    try:
        with open_regular(path, "a plan") as stream:
            return stream.read(4) in _MAGICS
    except (OSError, UnreadableFileError):
        return False


def load_plan(
    path: str | os.PathLike[str],
    trust: Trusted = False,
    version_of: Callable[[BackendName], str] | None = None,
) -> PlanFile:
    """Read a plan and ``PATH.json``; the plan must have the size and the SHA-256 that the manifest states.

    A plan is a program: one without a manifest is refused unless ``trust``. If ``trust`` is a digest, the manifest must
    have it. ``version_of`` gives the version of a TensorRT that is here:
    the plan is not read if another has built it. Raises ``OptionsError``, ``EngineError`` and ``UnreadableFileError``.
    """
    file = os.fspath(path)
    pin = pin_of(trust)
    size = _size(file)
    if not Path(f"{file}.json").exists():
        if trust is not True:
            raise _no_manifest(file, is_pinned=pin is not None)
        plan = _read(file)
        backend: BackendName = "rtx" if plan[: len(_RTX)] == _RTX else "enterprise"
        return PlanFile(file, plan, backend, None, None, None, hashlib.sha256(plan).hexdigest())
    manifest = trusted_manifest(file, pin)
    plan_file = _plan_of(file, manifest)
    here = plan_file.version if version_of is None else version_of(plan_file.backend)
    if _release(here) != _release(plan_file.version):
        raise EngineError(
            f"was built by TensorRT {plan_file.version} ({plan_file.backend}), but {here} is installed here",
            where=file,
            fix="convert the model again with the TensorRT, and for the GPU, that will run it",
        )
    if size != manifest["plan"]["bytes"]:
        raise _another_plan(file, f"it has {size} bytes, expected {manifest['plan']['bytes']}")
    return _with_plan(plan_file, _read(file))


def _release(version: str | None) -> list[str]:
    """The first three numbers: which builds of one release load each other's plans, TensorRT itself decides."""
    return str(version).split(".")[:3]


def _no_manifest(file: str, is_pinned: bool) -> EngineError:
    fix = "put the manifest beside it"
    return EngineError(
        f'has no manifest: there is no "{Path(file).name}.json" beside it',
        where=file,
        because="a plan is a program, and nothing says where this one comes from",
        fix=fix
        if is_pinned
        else Worded("{}; or, if you trust whoever made it, use {}", fix, Option("trust", True)),
    )


def plan_with_manifest(file: str, plan: bytes | memoryview, manifest: Mapping[str, Any]) -> PlanFile:
    """A plan and its manifest. Raises ``EngineError`` if it is about another plan."""
    return _with_plan(_plan_of(file, manifest), plan)


def _plan_of(file: str, manifest: Mapping[str, Any]) -> PlanFile:
    """A plan that is not read yet, by its manifest."""
    where = f"{file}.json"
    try:
        tensorrt = manifest["tensorrt"]
        if tensorrt.get("strip_weights"):
            raise EngineError(
                "has no weights",
                where=file,
                because="it was built to get them from the application that runs it",
                fix=Worded("convert the model without {}", Option("strip_weights")),
            )
        return PlanFile(
            file,
            b"",
            _backend(tensorrt["flavour"]),
            str(tensorrt["version"]),
            signature_of_manifest(manifest),
            _has_loops(manifest.get("has_loops")),
            _sha256(manifest["plan"]),
        )
    except WRONG as error:
        raise foreign_manifest_error(where, error) from error


def _with_plan(plan_file: PlanFile, plan: bytes | memoryview) -> PlanFile:
    digest = hashlib.sha256(plan).hexdigest()
    if digest != plan_file.sha256:
        raise _another_plan(plan_file.file, f"its SHA-256 is {digest}, expected {plan_file.sha256}")
    return replace(plan_file, plan=plan)


def _another_plan(file: str, difference: str) -> EngineError:
    return EngineError(
        f"is not the plan that its manifest describes: {difference}",
        where=file,
        fix="convert the model again, or find the files that belong together",
    )


def _sha256(plan: Mapping[str, Any]) -> str:
    if not isinstance(plan["bytes"], int):
        raise ValueError(f"the size of the plan is {plan['bytes']!r}, expected a number of bytes")
    return str(plan["sha256"])


def _backend(value: object) -> BackendName:
    for backend in BACKENDS:
        if backend == value:
            return backend
    raise ValueError(f"the flavour {value!r} of TensorRT, expected {' or '.join(BACKENDS)}")


def _has_loops(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"has_loops is {value!r}, expected true or false")
    return value


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadableFileError(
            f"cannot be read: {error.strerror or error}", where=path, fix=_GIVE_PLAN
        ) from error


def _size(path: str) -> int:
    with _errors_of(path), open_regular(path, "a plan") as stream:
        return os.fstat(stream.fileno()).st_size


def _read(path: str) -> bytes:
    with _errors_of(path):
        return read_regular(path, "a plan", most=None)
