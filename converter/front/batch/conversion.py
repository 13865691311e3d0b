"""A list of models, from the file to outcomes and reports."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.files.writing.files import refuse_overwriting
from prototrt.converter.files.writing.side_files import product_files, refuse_foreign
from prototrt.converter.files.writing.texts import atomic_text, json_value, xml
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.cluster import ClusterPool, is_exposed
from prototrt.converter.front.batch.entry import Entry
from prototrt.converter.front.batch.keys import files_of, options_of
from prototrt.converter.front.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.converter.front.batch.runner import LocalPool, Pool, run_entries, usable_cores
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.front.batch.versions import versions
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.front.batch.work import refusal_of
from prototrt.converter.options import BatchOptions, BatchProgress
from prototrt.converter.product import Product
from prototrt.converter.running.data.data import files_in
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.showing.survey.survey import Survey


def convert_models(models: str, options: BatchOptions, begun: BatchProgress) -> BatchResult:
    """Convert all models of a list, and write the reports."""
    began, clock = datetime.now(timezone.utc), time.perf_counter()
    folder = os.fspath(options.folder)
    entries = read_models(models, folder)
    _refuse_overwriting(models, options, entries)
    _make_folder(folder)
    pool: Pool
    if options.scheduler is None:
        pool, installed = LocalPool(options.jobs or usable_cores()), versions
    else:
        pool = cluster = ClusterPool(options.scheduler, options.jobs)
        installed = cluster.versions
    try:
        backends = {entry.options["backend"] for entry in entries}
        cache = Cache(options.cache, installed(backends)) if options.cache else None
        outcomes = run_entries(entries, pool, cache, options.keep_going, begun(len(entries)))
    finally:
        pool.close()
    result = BatchResult(models, began, time.perf_counter() - clock, outcomes)
    result = replace(result, warnings=tuple(warnings_of(options, result)))
    _write_reports(options, result)
    return result


def survey_models(models: str, options: BatchOptions) -> Survey:
    """Which models of a list would convert, and what stops the others; nothing is written."""
    from prototrt.converter.showing.survey.survey import Survey, Verdict, survey_net

    entries, nets = read_models(models, os.fspath(options.folder)), []
    _refuse_overwriting(models, options, entries)
    for entry in entries:
        asked = entry.conversion
        rewriting = Product.of(asked).rewrite_options(asked.part(RewriteOptions))
        survey = survey_net(entry.prototxt, asked.part(LoadOptions), rewriting, tries_shapes=False)
        if refusal := entry.fault or refusal_of(entry):
            verdict = Verdict.NOT if survey.verdict is Verdict.CONVERTS else survey.verdict
            survey = replace(survey, verdict=verdict, message=refusal)
        nets.append(replace(survey.by(list_words), file=entry.name))
    return Survey(tuple(nets))


def warnings_of(options: BatchOptions, result: BatchResult) -> list[str]:
    """What models warn of, each warning once, and what was asked in vain."""
    named: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        for warning in dict.fromkeys(outcome.warnings):
            named.setdefault(warning, []).append(outcome.entry.name)
    texts: list[str] = [Worded("{}: {}", listed(names), warning) for warning, names in named.items()]
    needy = [outcome.entry.name for outcome in result.outcomes if outcome.entry.needs]
    if needy and options.scheduler is None:
        texts.append(
            Worded("needs: applies only with {}; ignored for {}", Option("scheduler"), ", ".join(needy))
        )
    if options.scheduler is not None and is_exposed(options.scheduler):
        texts.append(
            f"{options.scheduler}: whoever reaches this port can run code on the workers and here; use tls://, "
            "as docs/batch.md shows"
        )
    return texts


def _refuse_overwriting(models: str, options: BatchOptions, entries: Sequence[Entry]) -> None:
    """Raise ``OptionsError`` if an engine, its header or a report would overwrite a source file of any model,
    or if a file beside an engine is the user's."""
    read = [models, *(file for entry in entries for file in _read(entry))]
    reports = ("report_junit", "report_json", "report_md")
    written = [(Option(name), path) for name in reports if (path := getattr(options, name)) is not None]
    engines = Option("folder")
    written += [(engines, file) for entry in entries for file in product_files(entry.target)]
    written += [(Option(name), file) for entry in entries for name, file in entry.outputs.items()]
    refuse_overwriting(written, read)
    for entry in entries:
        refuse_foreign(engines, entry.target)


def _read(entry: Entry) -> list[str]:
    weights = [] if entry.weights is None else [entry.weights]
    named = [str(file) for source in files_of(entry.options) for file in files_in(Path(source))]
    return [entry.prototxt, *weights, *named, *_mean_files(entry)]


def _mean_files(entry: Entry) -> list[str]:
    """What the net of an entry names. A net that cannot be read is reported when it is converted."""
    if not entry.options["preprocess"]:
        return []
    from prototrt.surgery.layers.inputs.preprocessing import mean_files

    try:
        return mean_files(load(entry.prototxt, options=options_of(LoadOptions, entry.options)))
    except Exception:  # also an internal error is one of this model alone
        return []


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        problem = (
            "is a file, expected a folder" if os.path.isfile(folder) else f"cannot be made: {error.strerror}"
        )
        raise ConversionError(
            problem, where=folder or '""', fix=Worded("give another folder as {}", Option("folder"))
        ) from error


def _write_reports(options: BatchOptions, result: BatchResult) -> None:
    for path, report, reader in (
        (options.report_junit, junit_report, xml),
        (options.report_json, json_report, json_value),
        (options.report_md, markdown_report, None),
    ):
        if path is not None:
            atomic_text(path, report(result), reader)
