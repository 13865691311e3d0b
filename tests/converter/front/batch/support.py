"""Entries of small nets for the tests of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prototrt.converter.front.batch.entry import Entry, Outcome
from prototrt.converter.front.batch.keys import default_options
from prototrt.converter.front.batch.work import work

NET = """name: "small"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 4 } }
"""
LONG = """name: "long"
layer { name: "x" type: "Input" top: "x" top: "cont"
  input_param { shape { dim: 3000 dim: 1 dim: 8 } shape { dim: 3000 dim: 1 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 8 } }
"""
"""Takes minutes to build when it is unrolled."""


def entry(folder: Path, name: str = "small", net: str = NET, **changes: Any) -> Entry:
    """A net with invented weights; options may be changed by name."""
    prototxt = folder / f"{name}.prototxt"
    prototxt.write_text(net)
    own = {
        key: changes.pop(key)
        for key in ("timeout", "memory", "cpu_time", "file_size", "needs")
        if key in changes
    }
    options = {**default_options(), "backend": "rtx", "random_weights": 1, **changes}
    target = str(folder / f"{name}.plan")
    return Entry(name, "models.yaml:2", str(prototxt), None, target, options, **own)


def long_entry(folder: Path, **changes: Any) -> Entry:
    return entry(folder, "long", LONG, sequence="unroll", force=True, **changes)


class InThisProcess:
    """A worker that takes no second to start, and whose calls to the system can be counted."""

    def run(self, entry: Entry) -> Outcome:
        return work(entry)

    def close(self) -> None: ...

    def stop(self) -> None: ...
