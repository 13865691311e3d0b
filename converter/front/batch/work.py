"""What a worker does with one entry: read, rewrite, check, build, write."""

from __future__ import annotations

import os
import time
import traceback
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError, silent
from prototrt.caffe_proto.common.wording import worded
from prototrt.converter.checking.machines.memory import refuse_large_values
from prototrt.converter.checking.verification.verify import verify_files
from prototrt.converter.conversion import PreparedConversion, begin_conversion, doubts_of
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.keys import options_of
from prototrt.converter.front.batch.watch import too_large_a_file
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.options import VerifyOptions

_COUNTED_ROLES = ("prototxt", "weights")

_NO_MEMORY = ("bad_alloc", "out of memory", "outofmemory", "cannot allocate memory")


def work(entry: Entry) -> Outcome:
    """Convert the entry. Whatever goes wrong is reported, not raised."""
    began = time.perf_counter()
    try:
        with silent():  # the outcome has them
            warnings, facts = _conversion_facts(entry)
        return Outcome(entry, Status.CONVERTED, 0, time.perf_counter() - began, "", warnings, facts)
    except Exception as error:
        status, exit_code, message = _failure(entry, error)
        return Outcome(entry, status, exit_code, time.perf_counter() - began, message)


def refusal_of(entry: Entry) -> str | None:
    """Why the entry would fail before anything is made of its graph; None if it would not."""
    try:
        with silent():
            conversion = _begun(entry)
            conversion.product.refuse(conversion.graph)
    except Exception as error:
        _, _, message = _failure(entry, error)
        return message
    return None


def _begun(entry: Entry) -> PreparedConversion:
    return begin_conversion(entry.prototxt, entry.conversion, lambda graph: graph.in_words_of(list_words))


def _conversion_facts(entry: Entry) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The warnings, and the facts for a report."""
    conversion = _begun(entry)
    graph = conversion.graph
    checking = options_of(VerifyOptions, entry.options)
    warnings, checks = graph.warnings, None
    if checking.inputs or checking.expect:
        refuse_large_values(graph, conversion.rewriting)
        verification = verify_files(graph, checking, conversion.truth)
        verification.refuse()
        warnings, checks = (*warnings, *verification.warnings), verification.as_dict()
    manifest = conversion.write()
    doubts = [worded(doubt, list_words) for doubt in doubts_of(manifest)]
    return (*warnings, *doubts), {
        "caffe_layers": len(conversion.model.layers),
        "nodes": manifest["nodes"],
        "bytes": sum(map(os.path.getsize, entry.written_files().values())),
        "verification": checks or manifest.get("verification"),
        "left_out": manifest["left_out"],
        "further_files": [
            os.path.abspath(source.file) for source in graph.sources if source.role not in _COUNTED_ROLES
        ],
    }


def _failure(entry: Entry, error: Exception) -> tuple[Status, int, str]:
    text = error.text.by(list_words) if isinstance(error, ConversionError) else str(error)
    if isinstance(error, MemoryError) or any(words in text.lower() for words in _NO_MEMORY):
        return Status.OUT_OF_MEMORY, 4, f"{entry.prototxt}: {out_of_memory(entry)}"
    if too_large := too_large_a_file(entry, error):
        return Status.FAILED, 4, f"{entry.prototxt}: {too_large}"
    if isinstance(error, OptionsError):
        return Status.FAILED, 3, f"{entry.where}: {text}"
    if isinstance(error, ConversionError):
        return Status.FAILED, error.exit_code, text
    return Status.FAILED, 1, f"internal error\n{traceback.format_exc()}"


def out_of_memory(entry: Entry) -> str:
    """The message about it."""
    if entry.memory is None:
        return "the machine does not have enough memory\n  fix: run fewer models at once"
    return f"it took more than {entry.memory / 1e6:,.0f} MB\n  fix: allow more memory in {entry.where}"
