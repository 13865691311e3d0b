"""Detectors of single forks."""
