"""Scales of quantized values: our file of them, the tables of other programs, and which value a name means."""
