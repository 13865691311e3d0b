"""What a look at a file finds: its kind, facts, and rows of a table."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.recognition import OpenFile

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
    MODULE = "a PyTorch module that prototrt wrote"
    PROGRAM = "a program that builds an engine through TensorRT's API, which prototrt wrote"
    SAFETENSORS = "weights in a safetensors file"
    STATE_DICT = "a state dict of PyTorch"
    ONNX_WEIGHTS = "the weights of an ONNX model"
    SCRIPT = "a script that builds an engine with trtexec"
    HEADER = "a C++ header for an engine or a model"
    KERNELS = "kernels that TensorRT for RTX has compiled for a plan"
    LAYERS = "the layers of an engine, as TensorRT lists them"
    MANIFEST = "the manifest of an engine or a model"
    SCALES = "a file of scales"
    TABLE = "a calibration table"
    VERIFICATION = "the result of a verification"
    MODEL_LIST = "a list of models"
    REPORT = "the report of a list of models"
    CACHED = "a conversion in a cache"
    RESULT = "the result of a command, for programs"
    SELFTEST = "the results of a self-test"
    PAGE = "a page that shows a net"
    DRAWING = "a drawing by Graphviz"
    RULE = "a rule for a layer"
    RULE_TEST = "a test of a rule"
    SERVER_CONFIG = "the config of a model in Triton"
    SERVER_MODEL = "a model for Triton's Python backend"
    VIDEO_CONFIG = "a config of DeepStream's Gst-nvinfer"
    VIDEO_PARSER = "a parser of boxes for DeepStream's Gst-nvinfer"
    IMAGE = "an image"
    FOLDER = "a folder"
    OTHER = "another file"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: ``title`` says what it lists, and each row has a fact for each column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Fact]]

    def as_dicts(self) -> list[dict[str, Fact]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file is and holds. ``size`` is in bytes; ``facts`` has a title for each fact.

    ``words`` say what the file is; ``other`` replaces the words of the kind. ``advice`` says what to do with a file
    that prototrt cannot use. ``mentions`` has the names of other files, by their role for this one. ``command`` has
    the words of the next command, where the manifest beside the file says it.
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
    command: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        file: OpenFile,
        kind: FileKind,
        facts: Mapping[str, Fact] | None = None,
        rows: Rows | None = None,
        **others: Any,
    ) -> FileFacts:
        """What an open file is and holds; ``others`` are further fields."""
        return cls(file.name, kind, file.size, facts or {}, rows, **others)

    @property
    def words(self) -> str:
        """What the file is, as in ``a caffemodel``."""
        return self.other or self.kind.value

    def _repr_html_(self) -> str:
        rows = [
            (name, fact if isinstance(fact, str | int) else ", ".join(fact))
            for name, fact in self.facts.items()
        ]
        return table(f"{self.file}: {self.words}", ("", ""), rows, self.warnings)

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON: names of facts have underscores for spaces."""
        facts = {name.replace(" ", "_"): fact for name, fact in self.facts.items()}
        rows = {} if self.rows is None else {self.rows.title: self.rows.as_dicts()}
        head = {"file": self.file, "kind": self.kind.name.lower(), "words": self.words, "bytes": self.size}
        advice = {} if self.advice is None else {"advice": self.advice}
        return {**head, **facts, **rows, **advice, "warnings": [*self.warnings]}
