"""A graph becomes a file, verified if that is asked for: an engine or an ONNX model.

What only one of them needs is imported when it is made: imports are most of what a small
conversion costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prototrt.converter.tensorrt.builder import Progress
    from prototrt.surgery.ir import Graph

CHECKED_CALLS = 2
"""Calls of a net that are compared before it is written: the second one starts with a state."""


def write_engine(
    graph: Graph,
    target: str,
    *,
    backend: str = "auto",
    tf32: bool = False,
    tile: str = "native",
    progress: Progress | None = None,
    check: bool = False,
    truth: Graph | None = None,
) -> dict[str, Any]:
    """Build and write an engine and its manifest, which is given."""
    from prototrt.converter.tensorrt.builder import build_file

    notes = checked(graph, "network", truth) if check else {}
    return build_file(graph, target, backend, progress=progress, tf32=tf32, tile=tile, notes=notes)


def write_onnx(
    graph: Graph, target: str, *, onnx_lstm: bool = False, check: bool = False, truth: Graph | None = None
) -> dict[str, Any]:
    """Write an ONNX model and its manifest, which is given."""
    from prototrt.converter.onnx.export import export_onnx

    notes = checked(graph, "onnx-lstm" if onnx_lstm else "onnx", truth) if check else {}
    return export_onnx(graph, target, onnx_lstm=onnx_lstm, notes=notes)


def checked(graph: Graph, way: str, truth: Graph | None = None) -> dict[str, Any]:
    """What the manifest says of a verification on invented inputs; raises where a tolerance is broken.

    ``truth`` as for ``verify``.
    """
    from prototrt.converter.verification.seeded import seeded_feeds
    from prototrt.converter.verification.verify import verify

    verification = verify(graph, seeded_feeds(graph, CHECKED_CALLS), ways=[way], truth=truth)
    verification.refuse()
    return {"verification": verification.as_dict()}
