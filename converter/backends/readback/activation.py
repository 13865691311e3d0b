"""Activations, element by element. Formulas: TensorRT's API documentation of ``ActivationType``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates, kind_among

_FORMULAS: dict[str, Callable[[Array, float, float], Array]] = {
    "CLIP": lambda x, alpha, beta: np.maximum(alpha, np.minimum(beta, x)),
    "ELU": lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(x)),
    "HARD_SIGMOID": lambda x, alpha, beta: np.maximum(0, np.minimum(1, alpha * x + beta)),
    "LEAKY_RELU": lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    "RELU": lambda x, alpha, beta: np.maximum(x, 0),
    "SCALED_TANH": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "SIGMOID": lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    "SOFTSIGN": lambda x, alpha, beta: x / (1 + np.abs(x)),
    "TANH": lambda x, alpha, beta: np.tanh(x),
}


@evaluates("ACTIVATION")
def activation(layer: Layer) -> Evaluate:
    formula = kind_among(_FORMULAS, layer.type, "an activation")
    alpha, beta = float(layer.alpha), float(layer.beta)
    return lambda x: formula(x, alpha, beta)


@evaluates("PARAMETRIC_RELU")
def parametric_relu(layer: Layer) -> Evaluate:
    return lambda x, slopes: np.where(x >= 0, x, slopes * x)
