"""From any source of a session to an engine on a device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.files.companions.pinning import Trusted, pin_of
from prototrt.converter.running.runtime.device import Device
from prototrt.converter.running.runtime.devices import find_device
from prototrt.converter.running.runtime.engine import Engine
from prototrt.converter.running.runtime.kernel_cache import KernelCache, cache_beside
from prototrt.converter.running.runtime.plan_file import PlanFile, load_plan, plan_with_manifest
from prototrt.surgery.ir import Graph

if TYPE_CHECKING:
    from prototrt.converter.backends.tensorrt.builder import Plan


def engine_of(
    source: Graph | Plan | Engine | str | os.PathLike[str],
    device: Device | str | None,
    trust: Trusted,
    runtime_cache: str | os.PathLike[str] | None = None,
) -> Engine:
    """The engine itself, or one that is loaded, or built and loaded.

    ``runtime_cache`` is the file of kernels; without it one beside the file of the plan, unless ``trust`` is a digest:
    no manifest lists the file beside the plan, and whoever can write there could replace it. ``runtime_cache`` must
    then be a file that nobody else can change.
    """
    if isinstance(source, Engine):
        if device is not None or runtime_cache is not None:
            raise ValueError("an engine is loaded already: give no device and no runtime_cache with it")
        return source
    if isinstance(source, (str, os.PathLike)):
        file = load_plan(source, trust, lambda backend: find_backend(backend).version)
        place = _device(device)
        if pin_of(trust) is not None:
            return _load(file, place, KernelCache(runtime_cache, is_private=True))
        return _load(file, place, KernelCache(runtime_cache or cache_beside(file.file, file.sha256)))
    place = _device(device)  # nothing is built where nothing can run
    plan = _build(source) if isinstance(source, Graph) else source
    file = plan_with_manifest("the plan", plan.plan, plan.manifest)
    return _load(file, place, KernelCache(runtime_cache))


def _device(device: Device | str | None) -> Device:
    return find_device(device) if device is None or isinstance(device, str) else device


def _build(graph: Graph) -> Plan:
    from prototrt.converter.backends.tensorrt.builder import build

    return build(graph)


def _load(file: PlanFile, device: Device, kernels: KernelCache) -> Engine:
    return Engine(
        find_backend(file.backend),
        file.plan,
        device,
        file.signature,
        has_loops=file.has_loops,
        built_with=file.version,
        kernels=kernels,
    )
