"""Fuzzing guided by coverage: ``python tests/fuzz/fuzz.py TARGET CORPUS [options of libFuzzer]``.

The targets stand in targets.py. The corpus begins as ours and the goldens. Whatever leaves a target but a
ConversionError is a crash, and libFuzzer keeps the bytes that made it; so are runs that take more than 20 seconds
or 1.5 GB.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["prototrt"]):
    from prototrt.tests.fuzz.targets import TARGETS, Mutation, run

LIMITS = ("-rss_limit_mb=1500", "-malloc_limit_mb=512", "-timeout=20")
MEMORY = "/dev/shm"


def main(target: str, corpus: str, *options: str) -> None:
    """Run libFuzzer, which ends the process."""
    Path(corpus).mkdir(parents=True, exist_ok=True)
    found = TARGETS[target]
    for name, data in [*found.seeds(), *found.corpus()]:
        Path(corpus, name).write_bytes(data)
    hooks = {} if found.mutated is None else {"custom_mutator": mutator(found.mutated)}
    warnings.simplefilter("ignore")
    memory = MEMORY if os.path.isdir(MEMORY) else None  # a disk takes longer than what is tried
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        arguments = [sys.argv[0], corpus, *LIMITS, *options]
        atheris.Setup(arguments, lambda data: run(target, Path(folder), data), **hooks)
        atheris.Fuzz()


def mutator(mutated: Mutation) -> object:
    """Mostly whole nets; one change in eight is to the bytes, as without a mutator."""

    def changed(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        found = atheris.Mutate(data, most) if chance.random() < 1 / 8 else mutated(data, chance)
        return bytes(found[:most])

    return changed


if __name__ == "__main__":
    main(*sys.argv[1:])
