"""An old config of Gst-nvinfer, of a Caffe net: which of its keys a config with an ONNX model takes over.

Source: the keys of "Gst-nvinfer" in the guides of DeepStream 4 to 8.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.files import errors_for_user, read_regular
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.serving.deepstream.key_file import (
    Groups,
    KeyFileError,
    escape,
    groups_of,
    list_of,
    unescape,
)

PROPERTY = "property"
_REPLACED = {
    "model-file": "onnx-file",
    "proto-file": "onnx-file",
    "is-classifier": "network-type",
    "enable-dbscan": "cluster-mode",
    "input-dims": "infer-dims",
    "uff-input-dims": "infer-dims",
}
"""Keys whose meaning has another key now; 1 is the same mode of clusters as ``enable-dbscan=1``."""
_DROPPED = {
    "model-engine-file": "the engine was built from another model",
    "output-blob-names": "all outputs of the ONNX model are read",
    "int8-calib-file": "its tensors had other names",
    "parse-func": "parse-bbox-func-name names the parser",
    "force-implicit-batch-dim": "an ONNX model states its batch",
    "uff-file": "it is of another format",
    "uff-input-order": "it is of another format",
    "uff-input-blob-name": "it is of another format",
    "tlt-model-key": "it is of another format",
    "tlt-encoded-model": "it is of another format",
}
_PIXELS = ("net-scale-factor", "offsets", "mean-file")
"""What the old config knows of pixels counts only if nothing else does."""
_FILES = ("mean-file", "labelfile-path", "custom-lib-path")
_NEW_NAMES = {"threshold": "pre-cluster-threshold"}
"""Of groups ``[class-attrs-...]``."""


@dataclass(frozen=True, slots=True)
class OldConfig:
    """The groups of an old file."""

    file: str
    groups: Mapping[str, Mapping[str, str]]

    @property
    def outputs(self) -> list[str]:
        """The blobs that were parsed; none if the file does not say."""
        names = list_of(self.groups.get(PROPERTY, {}).get("output-blob-names", ""))
        return [name.strip() for name in names if name.strip()]

    def carry_over(self, new: Groups, folder: Path) -> tuple[Groups, list[str]]:
        """The new config with what the old one adds to it, and a line for each key that is not just kept.

        What ``new`` states of a net stays. Paths become relative to ``folder``.
        """
        result = {name: dict(keys) for name, keys in new.items()}
        fixed_keys = set(new[PROPERTY]) | (set(_PIXELS) if "net-scale-factor" in new[PROPERTY] else set())
        notes: list[str] = []
        for key, value in self.groups[PROPERTY].items():
            notes += self._property(result[PROPERTY], fixed_keys, key, value, folder)
        for name, keys in self.groups.items():
            if name != PROPERTY:
                result[name] = result.get(name, {}) | {_NEW_NAMES.get(key, key): keys[key] for key in keys}
                notes += [f"[{name}] {key} -> {_NEW_NAMES[key]}" for key in keys if key in _NEW_NAMES]
        return result, notes

    def _property(
        self, new: dict[str, str], fixed_keys: Container[str], key: str, value: str, folder: Path
    ) -> Iterator[str]:
        if key in _DROPPED or (key, value) == ("network-mode", "1"):
            yield f"{key} dropped: {_DROPPED.get(key, 'the scales of int8 were those of the old model')}"
            return
        name = _REPLACED.get(key, key)
        if name not in fixed_keys:
            new[name] = self._path_from(folder, value) if key in _FILES else value
        if name not in new:
            yield f"{key} dropped: the new config knows it from the net or the options"
        elif name != key or new[name] != value:
            yield f"{key} -> {name}={new[name]}"

    def _path_from(self, folder: Path, value: str) -> str:
        return escape(os.path.relpath(Path(self.file).parent / unescape(value), folder))


def read_config(file: str) -> OldConfig:
    """An old config. Raises ``OptionsError`` for a file that is none, and ``UnreadableFileError``."""
    with errors_for_user(file, "a config of Gst-nvinfer"):
        content = read_regular(file, "a config of Gst-nvinfer")
    try:
        groups = groups_of(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _no_config(file, "it is not UTF-8") from error
    except KeyFileError as error:
        raise _no_config(file, str(error)) from error
    if PROPERTY not in groups:
        raise _no_config(file, f"it has no group [{PROPERTY}]")
    return OldConfig(file, groups)


def _no_config(file: str, reason: str) -> OptionsError:
    return OptionsError(
        Worded('{} "{}" is not a config of Gst-nvinfer: {}', Option("old_config"), file, reason),
        fix="give the file that config-file names in the [primary-gie] of your pipeline",
    )
