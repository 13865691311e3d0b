"""Where a graph comes from: the files that it was made from, and the layers of the net that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.files import Identity
from prototrt.caffe_proto.common.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A file that a graph was made from. ``digest`` reads it whole: SHA-256, in hexadecimal.

    ``identity`` is what ``identity_of`` said of the file when it was read.
    """

    role: str
    file: str
    digest: Callable[[], str | None]
    identity: Identity | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its digest: the file may not be there where it is unpickled."""
        return _source, (self.role, self.file, self.digest())


def _source(role: str, file: str, digest: str | None) -> Source:
    return Source(role, file, lambda: digest)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A layer before which the graph ends, so that the graph lacks outputs of the net.

    Not a layer behind outputs that the user chose. ``warning`` says why, and is one of the graph's warnings.
    ``lacking`` is the type that has no rule, as in ``UnsupportedLayerError``.
    """

    origin: Origin
    warning: str
    lacking: str | None = None
