"""Ranges of activations, measured on data: what int8 and fp8 need to know of a net."""
