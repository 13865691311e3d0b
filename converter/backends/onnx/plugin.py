"""Lowering of a layer to a custom operator, as TensorRT's ONNX parser and onnxruntime's TensorRT provider read it."""

from __future__ import annotations

from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import Plugin

_USUAL_DOMAIN = "trt.plugins"
"""The domain of a plugin without a namespace: ONNX's own operators have none."""


@lowers(Plugin)
def plugin(model: OnnxModel, op: Plugin, *inputs: Tensor | Array) -> list[str]:
    """TensorRT finds the plugin by the operator's name and the attributes of its version and namespace."""
    tensors = [each for each in inputs if isinstance(each, Tensor)]
    arrays = [each for each in inputs if not isinstance(each, Tensor)]
    blobs = dict(zip(op.array_fields, (array.reshape(-1).tolist() for array in arrays), strict=True))
    attributes = {**dict(op.fields), **blobs}
    domain = op.namespace or _USUAL_DOMAIN
    model.domains.add(domain)
    return model.add_all(
        op.name,
        tensors,
        op.outputs,
        domain=domain,
        plugin_version=op.version,
        plugin_namespace=op.namespace,
        **attributes,
    )
