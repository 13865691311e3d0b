"""What is found in a file."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from prototrt.caffe_proto.notebook_html import table

Fact: TypeAlias = str | int | Sequence[str]


class FileKind(enum.Enum):
    """The kinds of files that can be looked at."""

    CAFFEMODEL = "a caffemodel"
    SOLVER_STATE = "a solver state of Caffe"
    SOLVER = "a solver of Caffe"
    MEAN = "a mean file, or another blob of Caffe"
    PREDICT_NET = "a Caffe2 net"
    INIT_NET = "the weights of a Caffe2 net"
    DATABASE = "a minidb of Caffe2: a net and its weights"
    ONNX = "an ONNX model"
    PLAN = "a TensorRT engine"
    NPZ_WEIGHTS = "weights in an npz file"
    NPZ = "arrays in an npz file"
    NPY = "an array in an npy file"
    HDF5_WEIGHTS = "weights in an HDF5 file"
    HDF5 = "an HDF5 file"
    MANIFEST = "the manifest of an engine or a model"
    SCALES = "a file of scales"
    TABLE = "a calibration table"
    VERIFICATION = "the result of a verification"
    MODEL_LIST = "a list of models"
    IMAGE = "an image"
    FOLDER = "a folder"
    OTHER = "another file"


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of things of one sort: ``title`` says which, and each row has a fact for each column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Fact]]

    def as_dicts(self) -> list[dict[str, Fact]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file at a glance. ``size`` is in bytes, ``facts`` are by their titles.

    ``words`` say what the file is. ``advice`` is what to do with a file that is of no use here. ``mentions`` are
    other files by what they are to this one.
    """

    file: str
    kind: FileKind
    size: int
    facts: Mapping[str, Fact] = field(default_factory=dict)
    rows: Rows | None = None
    mentions: Mapping[str, str] = field(default_factory=dict)
    other: str | None = None
    advice: str | None = None
    warnings: Sequence[str] = ()

    @property
    def words(self) -> str:
        return self.other or self.kind.value

    def _repr_html_(self) -> str:
        rows = [
            (name, fact if isinstance(fact, str | int) else ", ".join(fact))
            for name, fact in self.facts.items()
        ]
        return table(f"{self.file}: {self.words}", ("", ""), rows, self.warnings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts = {name.replace(" ", "_"): fact for name, fact in self.facts.items()}
        rows = {} if self.rows is None else {self.rows.title: self.rows.as_dicts()}
        head = {"file": self.file, "kind": self.kind.name.lower(), "words": self.words, "bytes": self.size}
        advice = {} if self.advice is None else {"advice": self.advice}
        return {**head, **facts, **rows, **advice, "warnings": [*self.warnings]}
