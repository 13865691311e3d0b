"""What ``prototrt triton`` reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototrt.caffe_proto.common.sizes import text_of_bytes
from prototrt.surgery.ir.shapes import sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prototrt.converter.triton.repository import WrittenModel
    from prototrt.converter.triton.served import Served


@dataclass(frozen=True)
class ModelFolder:
    """A model that was written into a repository. ``seconds`` are those of all steps."""

    written: WrittenModel
    repository: str
    seconds: float

    @property
    def summary(self) -> str:
        """What clients send and get, what is in the folder, and what to do next."""
        written, served = self.written, self.written.served
        size = sum(file.stat().st_size for file in written.folder.rglob("*") if file.is_file())
        lines = [
            f"{written.folder.name}: {self.written.platform}, {_batch(served)}",
            *(f"send     {value.name} {sizes(served.of_request(value))}" for value in served.inputs),
            *(f"receive  {value.name} {sizes(served.of_request(value))}" for value in served.outputs),
            *(f"left out {layer.origin.note}" for layer in served.graph.left_out),
            f"{written.folder}: {text_of_bytes(size)}, {self.seconds:.1f} s",
            *(f"next     {step}" for step in self._next()),
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The content of the summary, for programs."""
        served = self.written.served
        return {
            "folder": str(self.written.folder),
            "platform": self.written.platform,
            "max_batch_size": served.batch,
            "is_stateful": served.is_stateful,
            "inputs": {value.name: list(served.of_request(value)) for value in served.inputs},
            "outputs": {value.name: list(served.of_request(value)) for value in served.outputs},
            "needs_plan": self.written.needs_plan,
            "seconds": round(self.seconds, 3),
            "manifest": dict(self.written.manifest),
        }

    def _next(self) -> Iterator[str]:
        """What is left to do until the server runs."""
        if self.written.needs_plan:
            yield f"run {self.written.script} in the container of Triton: it builds the plan"
        if self.written.platform == "python":
            extra = "gpu" if "plan" in self.written.manifest else "onnx"
            yield f"install prototrt with its extra {extra} in the Python of Triton"
        yield f"tritonserver --model-repository={Path(self.repository).resolve()}"


def _batch(served: Served) -> str:
    if not served.batch:
        return f"requests one by one, because {served.unbatched}"
    what = "requests"
    if served.is_stateful:
        what = "sequences, whose state the server keeps; give sequence_id, sequence_start and sequence_end"
    return f"up to {served.batch} {what}"
