"""The builder's options: passed on to each TensorRT and to trtexec, or refused with a reason."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from prototrt import TargetName
from prototrt.caffe_proto.common.errors import BuildError, OptionsError
from prototrt.caffe_proto.common.wording import Option
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.configuration import configure
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.builder_options import (
    BUILDER_OPTIONS,
    COMPATIBILITY,
    POOLS,
    ProfilingVerbosity,
    chosen_options,
    refuse_for,
    refuse_without_gpu,
    trtexec_words,
)
from prototrt.converter.checking.machines.targets import find_target
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.options import BuildOptions, ConvertOptions
from prototrt.converter.product import Product
from prototrt.tests.builder_values import VALUES
from prototrt.tests.command_line import DEPLOY, WEIGHTS, run
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.small_nets import tanh

OF_PROTOTRT = {"backend", "keep_batch_norm", "tf32", "tile", "progress"}


def options(name: str) -> BuildOptions:
    """Options with that one, and what it needs."""
    needed = {"use_dla_core": 0} if name == "allow_gpu_fallback" else {}
    return BuildOptions(**{name: VALUES[name], **needed})


def test_every_option_is_in_the_table() -> None:
    names = [option.name for option in BUILDER_OPTIONS]
    assert names == [each.name for each in fields(BuildOptions) if each.name not in OF_PROTOTRT]
    assert {*names} == VALUES.keys()
    assert list(chosen_options(BuildOptions())) == []
    for name in names:
        assert (name, VALUES[name]) in [
            (option.name, value) for option, value in chosen_options(options(name))
        ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"timing_cache_file": "a b"}, ["--timingCacheFile=a b"]),
        ({"mem_pool_size": VALUES["mem_pool_size"]}, ["--memPoolSize=workspace:536870912B,dlaSRAM:1048576B"]),
        ({"builder_optimization_level": 0}, ["--builderOptimizationLevel=0"]),
        ({"version_compatible": True}, ["--versionCompatible"]),
        ({"hardware_compatibility_level": "ampere+"}, ["--hardwareCompatibilityLevel=ampere+"]),
        (
            {"hardware_compatibility_level": "same_compute_capability"},
            ["--hardwareCompatibilityLevel=sameComputeCapability"],
        ),
        ({"strip_weights": True, "refit": True}, ["--stripWeights", "--refit"]),
        ({"profiling_verbosity": "none"}, ["--profilingVerbosity=none"]),
        ({"export_layer_info": "l.json"}, ["--exportLayerInfo=l.json"]),
        ({"use_dla_core": 1, "allow_gpu_fallback": True}, ["--useDLACore=1", "--allowGPUFallback"]),
    ],
)
def test_trtexec_is_told(given: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    assert trtexec_words(BuildOptions(**given), (10, 0)) == words
    target: TargetName = "datacenter" if "hardware_compatibility_level" in given else "jetson"
    product = Product(
        file=str(tmp_path / "a.onnx"),
        precision="fp16" if "use_dla_core" in given else "fp32",
        building=BuildOptions(**given),
        converting=ConvertOptions(target=target),
    )
    command = product.write(tanh())["trtexec"]
    assert command == ["trtexec", "--onnx=a.onnx", "--saveEngine=a.plan", "--noTF32", *words]


# ---------------------------------------------------------------- what builders are told


SETTINGS: dict[str, Callable[[Any, Any], bool]] = {
    "mem_pool_size": lambda trt, config: (
        config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 512 << 20
        and config.get_memory_pool_limit(trt.MemoryPoolType.DLA_MANAGED_SRAM) == 1 << 20
    ),
    "builder_optimization_level": lambda trt, config: config.builder_optimization_level == 0,
    "version_compatible": lambda trt, config: config.get_flag(trt.BuilderFlag.VERSION_COMPATIBLE),
    "hardware_compatibility_level": lambda trt, config: (
        config.hardware_compatibility_level == trt.HardwareCompatibilityLevel.AMPERE_PLUS
    ),
    "compute_capabilities": lambda trt, config: (
        [config.get_compute_capability(place) for place in range(config.num_compute_capabilities)]
        == [trt.ComputeCapability.SM75, trt.ComputeCapability.SM89]
    ),
    "strip_weights": lambda trt, config: config.get_flag(trt.BuilderFlag.STRIP_PLAN),
    "refit": lambda trt, config: config.get_flag(trt.BuilderFlag.REFIT),
    "profiling_verbosity": lambda trt, config: config.profiling_verbosity == trt.ProfilingVerbosity.DETAILED,
    "use_dla_core": lambda trt, config: (
        (config.default_device_type, config.DLA_core) == (trt.DeviceType.DLA, 0)
    ),
    "allow_gpu_fallback": lambda trt, config: config.get_flag(trt.BuilderFlag.GPU_FALLBACK),
}
"""Whether a configuration has the values of ``VALUES``. It takes them all, whatever the builder then says."""


NOT_OF_RTX = {
    "mem_pool_size": "does not take 1048576 bytes for the pool dlaSRAM",
    "hardware_compatibility_level": "does not take the hardware compatibility level AMPERE_PLUS",
    "use_dla_core": "has no DLA core 0 here",
}
"""What the configuration of TensorRT for RTX does not hold, although it has the names."""


@pytest.mark.trt
@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - NOT_OF_RTX.keys() - {"allow_gpu_fallback"}))
def test_rtx_is_told(name: str) -> None:
    network = Network(find_backend("rtx"))
    config = network.builder.create_builder_config()
    assert not SETTINGS[name](network.trt, config)
    configure(config, network, options(name))
    assert SETTINGS[name](network.trt, config)


@pytest.mark.trt
@pytest.mark.parametrize("name", NOT_OF_RTX)
def test_what_is_not_set_is_no_silence(name: str) -> None:
    network = Network(find_backend("rtx"))
    with pytest.raises(BuildError, match=f"^TensorRT {NOT_OF_RTX[name]}\n"):
        configure(network.builder.create_builder_config(), network, options(name))


class Enterprise:
    """A configuration that takes everything, as that of TensorRT itself does on a Jetson."""

    def __init__(self) -> None:
        self.flags: set[object] = set()
        self.pools: dict[object, int] = {}
        self.get_flag, self.set_flag, self.clear_flag = (
            self.flags.__contains__,
            self.flags.add,
            self.flags.discard,
        )
        self.get_memory_pool_limit, self.set_memory_pool_limit = self.pools.get, self.pools.__setitem__


@pytest.mark.trt
@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - {"compute_capabilities"}))
def test_tensorrt_itself_is_told(name: str) -> None:
    network, config = Network(find_backend("rtx")), Enterprise()
    configure(config, network, options(name))
    assert SETTINGS[name](network.trt, config)


LISTINGS = sorted((GOLDENS / "tensorrt_api").glob("*.json"))
NEWER = {"10.0.1": {"SAME_COMPUTE_CAPABILITY"}}
"""What a release lacks, which a message then says."""


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("MemoryPoolType", POOLS.values()),
        ("HardwareCompatibilityLevel", COMPATIBILITY.values()),
        ("ProfilingVerbosity", map(str.upper, get_args(ProfilingVerbosity))),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_tensorrt_has_these_names(listing: Path, kind: str, members: Any) -> None:
    facts = json.loads(listing.read_text())
    assert {*members} - {*facts["names"][kind]["members"]} <= NEWER.get(facts["version"], set())


@pytest.mark.parametrize(
    ("sizes", "release", "words"),
    [
        ({"workspace": "512MiB"}, (8, 2), ["--workspace=512"]),
        ({"workspace": "512MiB", "dlaSRAM": 1 << 19}, (8, 5), ["--memPoolSize=workspace:512,dlaSRAM:0.5"]),
        ({"workspace": "1GiB"}, (8, 6), ["--memPoolSize=workspace:1024"]),
        ({"workspace": "2TiB"}, (8, 6), ["--memPoolSize=workspace:2097152"]),
        ({"workspace": "1KiB"}, (10, 0), ["--memPoolSize=workspace:1024B"]),
        ({"workspace": "1024B"}, (10, 0), ["--memPoolSize=workspace:1024B"]),
    ],
)
def test_each_release_of_trtexec_reads_its_own_words(
    sizes: dict[str, str | int], release: tuple[int, int], words: list[str]
) -> None:
    assert trtexec_words(BuildOptions(mem_pool_size=sizes), release) == words


def test_an_old_trtexec_limits_one_pool() -> None:
    building = BuildOptions(mem_pool_size={"workspace": "1MiB", "dlaSRAM": "1MiB"})
    with pytest.raises(OptionsError) as error:
        trtexec_words(building, (8, 2))
    assert str(error.value) == (
        "mem_pool_size names other pools than workspace\n"
        "  because trtexec of TensorRT 8.2 limits the workspace alone\n"
        '  fix: use mem_pool_size={"workspace": "512MiB"}'
    )


# ---------------------------------------------------------------- refusals

_OF_JETPACK_6 = {"profiles", "compute_capabilities", "hardware_compatibility_level", "strip_weights"}
REFUSED = {
    "rtx": {
        "timing_cache_file",
        "version_compatible",
        "hardware_compatibility_level",
        "use_dla_core",
        "allow_gpu_fallback",
    },
    "enterprise": {"compute_capabilities"},
    "datacenter": {"profiles", "compute_capabilities", "use_dla_core", "allow_gpu_fallback"},
    "triton": {"profiles", "compute_capabilities", "use_dla_core", "allow_gpu_fallback"},
    "jetson": {"profiles", "compute_capabilities", "hardware_compatibility_level"},
    "jetpack4": {*_OF_JETPACK_6, "builder_optimization_level", "version_compatible"},
    "jetpack5": {*_OF_JETPACK_6, "builder_optimization_level", "version_compatible"},
    "jetpack6": _OF_JETPACK_6,
    "jetpack7": {"profiles", "compute_capabilities", "hardware_compatibility_level"},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("place", REFUSED)
def test_an_option_is_passed_on_or_refused(place: str, name: str) -> None:
    is_backend = place in ("rtx", "enterprise")
    where = Option("backend" if is_backend else "target", place)
    release = None if is_backend else find_target(place).release
    if name not in REFUSED[place]:
        refuse_for(where, place, options(name), release)
        return
    with pytest.raises(
        OptionsError, match=rf'^{re.escape(name)}|^use_dla_core is not for {where.name}="{place}"\n'
    ):
        refuse_for(where, place, options(name), release)


@pytest.mark.parametrize("name", VALUES)
def test_some_options_need_a_gpu(name: str) -> None:
    for backend, needs in (
        ("rtx", {"strip_weights", "refit", "export_layer_info"}),
        ("enterprise", {"export_layer_info"}),
    ):
        if name in needs:
            with pytest.raises(OptionsError, match=rf"^{name} needs a GPU, and there is none here\n"):
                refuse_without_gpu(backend, options(name), lambda: False)
        else:
            refuse_without_gpu(backend, options(name), lambda: False)


@pytest.mark.parametrize(
    ("file", "given", "message"),
    [
        (
            "a.plan",
            ["--backend", "rtx", "--timing-cache-file", "t"],
            "--timing-cache-file is not for --backend rtx\n"
            "  because TensorRT for RTX times no kernels when it builds\n"
            "  fix: leave it out: what `prototrt run` compiles it keeps with --runtime-cache\n",
        ),
        (
            "a.onnx",
            ["--refit", "--tf32"],
            "--refit, --tf32 are for engines, but FILE ends in .onnx\n"
            "  fix: choose a FILE that ends in .plan, or use --target datacenter for an engine elsewhere\n",
        ),
        (
            "a.plan",
            ["--mem-pool-size", "workspace:512"],
            "--mem-pool-size of workspace is '512', expected a size with its unit\n"
            "  fix: write it as in --mem-pool-size workspace:512MiB\n",
        ),
        (
            "a.plan",
            ["--mem-pool-size", "workspce:1GB"],
            "--mem-pool-size has the pool 'workspce', expected one of workspace, dlaSRAM, dlaLocalDRAM, dlaGlobalDRAM,"
            " tacticSharedMem\n"
            "  fix: use --mem-pool-size workspace:1GB\n",
        ),
        (
            "a.plan",
            ["--mem-pool-size", "1GB"],
            "Invalid value for '--mem-pool-size': \"1GB\" is not a list of pools: write a pool, a colon, and a size"
            " with its unit, as in workspace:512MiB\n",
        ),
        (
            "a.plan",
            ["--profile", "T=1:8"],
            "Invalid value for '--profile': \"T=1:8\" is not a range: write a name and its sizes, of 1 or more, as in"
            " T=1..16..64\n",
        ),
        (
            "a.plan",
            ["--compute-capabilities", "9.0"],
            "--compute-capabilities is '9.0', expected one of 7.5, 8.0, 8.6, 8.9, 12.0, 12.1\n"
            "  fix: use --compute-capabilities 7.5\n",
        ),
        (
            "a.plan",
            ["--allow-gpu-fallback"],
            "--allow-gpu-fallback is for layers that a DLA cannot run, but no DLA is asked for\n"
            "  fix: also give --use-dla-core 0\n",
        ),
    ],
)
def test_messages(file: str, given: list[str], message: str, tmp_path: Path) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / file), *given)
    assert result.stderr.partition("Error: ")[2] == message
    assert result.exit_code == 2
    assert os.listdir(tmp_path) == []


def test_a_list_of_models_has_them(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(
        f"models:\n- prototxt: {DEPLOY}\n  weights: {WEIGHTS}\n  mem-pool-size: {{workspace: 1GB}}\n"
        "  profiles: [{T: [1, 1, 1]}, 'T=2..40..100,N=1..4']\n"
        "  compute-capabilities: [7.5, 8.9]\n  builder-optimization-level: 4\n  timing-cache-file: times\n"
        f"- prototxt: {DEPLOY}\n  weights: {WEIGHTS}\n  name: b\n  mem-pool-size: 'workspace:1GB,dlaSRAM:1MB'\n"
    )
    first, second = read_models(str(tmp_path / "list.yaml"), "out")
    assert first.options["mem_pool_size"] == {"workspace": "1GB"}
    assert first.options["compute_capabilities"] == ("7.5", "8.9")
    assert first.options["builder_optimization_level"] == 4
    assert first.options["profiles"] == ({"T": (1, 1, 1)}, {"T": (2, 40, 100), "N": (1, 4, 4)})
    assert first.options["timing_cache_file"] == str(tmp_path / "times")
    assert second.options["mem_pool_size"] == {"workspace": "1GB", "dlaSRAM": "1MB"}
