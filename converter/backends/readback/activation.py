"""Activations, element by element. Formulas: TensorRT's API documentation of ``ActivationType``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from prototrt.converter.backends.readback.elementwise import erf
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates, open_for_nan


def _gelu_tanh(x: Array) -> Array:
    inner: Array = math.sqrt(2 / math.pi) * (0.044715 * x**3 + x)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


_FORMULAS: dict[str, Callable[[Array, float, float], Array]] = {
    "CLIP": lambda x, alpha, beta: np.maximum(alpha, np.minimum(beta, x)),
    "ELU": lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(x)),
    "GELU_ERF": lambda x, alpha, beta: 0.5 * x * (1 + erf(math.sqrt(0.5) * x)),
    "GELU_TANH": lambda x, alpha, beta: _gelu_tanh(x),
    "HARD_SIGMOID": lambda x, alpha, beta: np.maximum(0, np.minimum(1, alpha * x + beta)),
    "LEAKY_RELU": lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    "RELU": lambda x, alpha, beta: np.maximum(x, 0),
    "SCALED_TANH": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "SELU": lambda x, alpha, beta: beta * np.where(x > 0, x, alpha * np.expm1(x)),
    "SIGMOID": lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    "SOFTPLUS": lambda x, alpha, beta: alpha * np.logaddexp(beta * x, 0),
    "SOFTSIGN": lambda x, alpha, beta: x / (1 + np.abs(x)),
    "TANH": lambda x, alpha, beta: np.tanh(x),
    # NVIDIA's operator page has max(0, x - alpha) instead. The API documentation is followed: it agrees
    # with ONNX ThresholdedRelu, which NVIDIA's own parser maps onto this activation.
    "THRESHOLDED_RELU": open_for_nan(lambda x, alpha, beta: np.where(x > alpha, x, np.zeros_like(x))),
}


@evaluates("ACTIVATION")
def activation(layer: Layer) -> Evaluate:
    formula, alpha, beta = _FORMULAS[layer.type.name], float(layer.alpha), float(layer.beta)
    return lambda x: formula(x, alpha, beta)


@evaluates("PARAMETRIC_RELU")
def parametric_relu(layer: Layer) -> Evaluate:
    return lambda x, slopes: np.where(x >= 0, x, slopes * x)
