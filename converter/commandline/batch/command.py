"""The command ``batch``, from options to exit code."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import prototrt
from prototrt.caffe_proto.errors import ConversionError
from prototrt.caffe_proto.options import LoadOptions
from prototrt.caffe_proto.wording import Option
from prototrt.converter.batch.cache import Cache
from prototrt.converter.batch.cluster import ClusterPool, is_exposed
from prototrt.converter.batch.entry import Entry
from prototrt.converter.batch.keys import files_of, options_of
from prototrt.converter.batch.reports import (
    BatchResult,
    json_report,
    junit_report,
    markdown_report,
    write_report,
)
from prototrt.converter.batch.runner import LocalPool, Pool, run_entries, usable_cores
from prototrt.converter.batch.spec import read_models
from prototrt.converter.batch.versions import versions
from prototrt.converter.commandline.batch.display import display
from prototrt.converter.commandline.batch.options import BatchOptions
from prototrt.converter.commandline.stopping import stoppable
from prototrt.converter.files import product_files, refuse_overwriting
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.survey.survey import Survey


def run_batch(options: BatchOptions, quiet: bool = False) -> BatchResult:
    """Convert all models of the list, and write the reports."""
    began, clock = datetime.now(timezone.utc), time.perf_counter()
    entries = read_models(options.models, options.folder)
    _refuse_overwriting(options, entries)
    _make_folder(options.folder)
    pool: Pool
    if options.scheduler is None:
        pool, installed = LocalPool(options.jobs or usable_cores()), versions
    else:
        pool = cluster = ClusterPool(options.scheduler, options.jobs)
        installed = cluster.versions
    try:
        backends = {entry.options["backend"] for entry in entries}
        cache = Cache(options.cache, installed(backends), options.verify_cache) if options.cache else None
        with stoppable(), display(len(entries), quiet) as listener:
            outcomes = run_entries(entries, pool, cache, options.keep_going, listener)
    finally:
        pool.close()
    result = BatchResult(options.models, began, time.perf_counter() - clock, outcomes)
    _write_reports(options, result)
    return result


def survey_list(options: BatchOptions) -> Survey:
    """Which models of the list would convert, and what stops the others; nothing is written."""
    from prototrt.converter.survey.survey import Survey, surveyed

    nets = []
    for entry in read_models(options.models, options.folder):
        loading = options_of(LoadOptions, {**entry.options, "weights": entry.weights})
        found = surveyed(entry.prototxt, loading, options_of(RewriteOptions, entry.options))
        nets.append(replace(found, file=entry.name))
    return Survey(tuple(nets))


def warnings_of(options: BatchOptions, result: BatchResult) -> list[str]:
    """What models warn of, and what was asked in vain."""
    told = [f"{outcome.entry.name}: {warning}" for outcome in result.outcomes for warning in outcome.warnings]
    needy = [outcome.entry.name for outcome in result.outcomes if outcome.entry.needs]
    if needy and options.scheduler is None:
        told.append(f"needs: applies only with --scheduler; ignored for {', '.join(needy)}")
    if options.scheduler is not None and is_exposed(options.scheduler):
        told.append(
            f"{options.scheduler}: whoever reaches this port can run code on the workers and here; use tls://, "
            "as docs/batch.md shows"
        )
    return told


def warnings_of_left_out(result: BatchResult) -> list[str]:
    """Those of the warnings about layers that engines lack, which ``-q`` does not silence."""
    return [
        f"{outcome.entry.name}: {layer['warning']}"
        for outcome in result.outcomes
        for layer in outcome.facts.get("left_out", ())
    ]


def _refuse_overwriting(options: BatchOptions, entries: Sequence[Entry]) -> None:
    """Raise ``OptionsError`` if an engine or a report would overwrite a source file of any model."""
    read = [options.models, *(file for entry in entries for file in _read(entry))]
    reports = ("report_junit", "report_json", "report_md")
    written = [(Option(name), path) for name in reports if (path := getattr(options, name)) is not None]
    engines = Option("folder")
    written += [(engines, file) for entry in entries for file in product_files(entry.target)]
    refuse_overwriting(written, read)


def _read(entry: Entry) -> list[str]:
    weights = [] if entry.weights is None else [entry.weights]
    return [entry.prototxt, *weights, *files_of(entry.options), *_mean_files(entry)]


def _mean_files(entry: Entry) -> list[str]:
    """What the net of an entry names. A net that cannot be read is reported when it is converted."""
    if not entry.options["preprocess"]:
        return []
    from prototrt.surgery.layers.preprocessing import mean_files

    try:
        return mean_files(prototrt.load(entry.prototxt, options=options_of(LoadOptions, entry.options)))
    except ConversionError:
        return []


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        problem = (
            "is a file, expected a folder" if os.path.isfile(folder) else f"cannot be made: {error.strerror}"
        )
        raise ConversionError(problem, where=folder or '""', fix="give -o another folder") from error


def _write_reports(options: BatchOptions, result: BatchResult) -> None:
    for path, report in (
        (options.report_junit, junit_report),
        (options.report_json, json_report),
        (options.report_md, markdown_report),
    ):
        if path is not None:
            write_report(path, report(result))
