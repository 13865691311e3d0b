"""The programs that a model may be written for. Light to import."""

from __future__ import annotations

from typing import Literal, TypeAlias

ReaderName: TypeAlias = Literal[
    "opencv", "openvino", "tensorrt-8.2", "tensorrt-8.5", "tensorrt-8.6", "tensorrt-10.1"
]
