"""Calling a net: its inputs, its outputs, and the state that is carried from call to call."""
