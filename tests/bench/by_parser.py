"""The sample's ONNX file through TensorRT's own parser, beside NumPy, which a program with data needs anyway."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def main(model: str, target: str) -> None:
    importlib.import_module("numpy")
    trt: Any = importlib.import_module("tensorrt_rtx")
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, trt.Logger(trt.Logger.ERROR))
    assert parser.parse_from_file(model), parser.get_error(0).desc()
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    with open(target, "wb") as stream:
        stream.write(builder.build_serialized_network(network, config))


if __name__ == "__main__":
    main(*sys.argv[1:])
