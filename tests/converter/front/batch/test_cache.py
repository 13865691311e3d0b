"""The cache: what is the same is not made again, and nothing false is ever found in it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Status
from prototrt.converter.front.batch.prune import prune
from prototrt.converter.front.batch.versions import versions
from prototrt.tests.converter.front.batch.cached import VERSIONS, keep
from prototrt.tests.converter.front.batch.support import NET, entry


def test_what_was_kept_is_found(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    other = replace(small, target=small.target.replace("small", "other"))
    assert cache.key(other) != key  # the manifest, a script and an ONNX model name the files
    place = Path(small.target).parent / "elsewhere"
    place.mkdir()
    elsewhere = replace(small, target=str(place / Path(small.target).name))
    assert cache.key(elsewhere) == key
    found = cache.fetch(key, elsewhere)
    assert found is not None
    assert (found.status, found.warnings, found.facts) == (Status.CACHED, ("odd",), {"further_files": []})
    assert Path(elsewhere.target).read_text() == "an engine"
    assert Path(f"{elsewhere.target}.json").read_text() == "{}"


def test_a_module_is_kept_with_its_weights(cache: Cache, small: Entry) -> None:
    """It names the file of its weights: under another name it is another one."""
    module = replace(small, target=small.target.replace(".plan", ".py"))
    weights = Path(module.target).with_suffix(".safetensors")
    weights.write_text("weights")
    key = keep(cache, module)
    weights.unlink()
    assert cache.fetch(key, module) is not None
    assert weights.read_text() == "weights"
    assert cache.key(replace(module, target=module.target.replace("small", "other"))) != key
    assert cache.key(small) != key


def test_an_engine_that_was_written_into_is_replaced(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    Path(small.target).write_text("an eNgine")
    assert cache.fetch(key, small) is not None
    assert Path(small.target).read_text() == "an engine"


def test_what_is_kept_is_a_file_of_its_own(cache: Cache, small: Entry) -> None:
    """Whoever writes into an engine does not change the cache."""
    key = keep(cache, small)
    Path(small.target).write_text("spoilt")
    Path(f"{small.target}.json").unlink()
    assert cache.fetch(key, small) is not None
    assert (Path(small.target).read_text(), Path(f"{small.target}.json").read_text()) == ("an engine", "{}")
    assert os.listdir(cache.folder / key[:2]) == [f"{key}.conversion"]


def test_a_header_is_kept(cache: Cache, small: Entry, tmp_path: Path) -> None:
    """Its namespace is its name, so a header of another name is another conversion; its folder is not in it."""

    def with_header(name: str) -> Entry:
        Path(name).parent.mkdir(exist_ok=True)
        return replace(small, options={**small.options, "emit_header": name})

    asked, elsewhere = with_header(str(tmp_path / "net.h")), with_header(str(tmp_path / "include" / "net.h"))
    Path(tmp_path, "net.h").write_text("constants")
    key = keep(cache, asked)
    assert cache.key(elsewhere) == key
    assert key not in (cache.key(small), cache.key(with_header(str(tmp_path / "other.h"))))
    for _ in range(2):
        assert cache.fetch(key, elsewhere) is not None
        assert Path(tmp_path, "include", "net.h").read_text() == "constants"
    assert cache.fetch(key, small) is None  # which asks for none
    assert cache.key(with_header(os.devnull)) is None


def test_a_timing_cache_is_no_input(cache: Cache, small: Entry, tmp_path: Path) -> None:
    """Each conversion writes it, and the first one finds none."""
    file = tmp_path / "times"
    timed = replace(small, options={**small.options, "timing_cache_file": str(file)})
    key = cache.key(timed)
    file.write_bytes(b"times")
    assert key is not None
    assert cache.key(timed) == key != cache.key(small)


def test_nothing_is_found_at_first(cache: Cache, small: Entry) -> None:
    assert cache.fetch("0" * 64, small) is None


def test_everything_that_matters_changes_the_key(tmp_path: Path, small: Entry) -> None:
    def key(entry: Entry, **found: str) -> str | None:
        return Cache(str(tmp_path / "cache"), {**VERSIONS, **found}).key(entry)

    same = [key(small), key(small), key(replace(small, name="other", timeout=3.0, where="x:9"))]
    assert len(set(same)) == 1
    weights = tmp_path / "w.caffemodel"
    weights.write_bytes(b"1")
    others = [
        key(small, rtx="1.8"),
        key(small, prototrt="2"),
        key(replace(small, options={**small.options, "sequence": "loop"})),
        key(replace(small, weights=str(weights))),
        key(replace(small, target="a.onnx")),
        key(replace(small, options={**small.options, "inputs": str(weights)})),
        key(replace(small, options={**small.options, "state": "zero"})),
        key(replace(small, options={**small.options, "state": f"const:{weights}"})),
        key(replace(small, options={**small.options, "replace": {"one": f"{weights}:f"}})),
        key(replace(small, options={**small.options, "replace": {"one": f"{weights}:g"}})),
        key(replace(small, options={**small.options, "replace": {"two": f"{weights}:f"}})),
        key(entry(tmp_path, "renamed")),  # the manifest holds the name
    ]
    weights.write_bytes(b"2")
    others.append(key(replace(small, options={**small.options, "replace": {"one": f"{weights}:f"}})))
    others.append(key(replace(small, weights=str(weights))))
    others.append(key(entry(tmp_path, net=NET.replace("4", "5"))))
    assert None not in others
    assert len({same[0], *others}) == 1 + len(others)


def test_files_that_cannot_be_read_have_no_key(cache: Cache, small: Entry) -> None:
    assert cache.key(replace(small, weights="nowhere.caffemodel")) is None


def test_further_files_that_were_read_matter(tmp_path: Path, small: Entry) -> None:
    """A mean image is named in the net: its contents are not part of the key."""

    def is_found() -> bool:
        cache = Cache(str(tmp_path / "cache"), VERSIONS)  # as in another run
        return cache.fetch(str(cache.key(small)), small) is not None

    mean = tmp_path / "mean.binaryproto"
    mean.write_text("one")
    keep(Cache(str(tmp_path / "cache"), VERSIONS), small, read=[str(mean)])
    assert is_found()
    mean.write_text("two")
    assert not is_found()
    mean.unlink()
    assert not is_found()


def test_each_file_is_read_once(cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cache.key(small)
    Path(small.prototxt).unlink()
    assert cache.key(small) == first


def test_what_is_fetched_is_on_the_disk(cache: Cache, small: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    key = keep(cache, small)
    other = replace(small, target=small.target.replace("small", "other"))
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    assert cache.fetch(key, other) is not None
    folder = Path(other.target).parent
    assert synced == {os.stat(path).st_ino for path in (other.target, f"{other.target}.json", folder)}


def test_a_file_that_is_right_is_left_alone(cache: Cache, small: Entry) -> None:
    key = keep(cache, small)
    os.utime(small.target, (1, 1))
    assert cache.fetch(key, small) is not None
    assert os.stat(small.target).st_mtime == 1


def test_concurrent_runs(tmp_path: Path, small: Entry) -> None:
    """Many store, fetch and prune the same conversion; what is found is always whole."""
    folder = str(tmp_path / "cache")
    wrong: list[str] = []
    hits: list[int] = []

    def one(number: int) -> None:
        own, cache = tmp_path / str(number), Cache(folder, VERSIONS)
        own.mkdir()
        mine = replace(small, target=str(own / "a.plan"))
        for turn in range(25):
            key = keep(cache, mine, "an engine" * 1000)
            Path(mine.target).unlink()
            if cache.fetch(key, mine) is not None:
                hits.append(number)
                if Path(mine.target).read_text() != "an engine" * 1000:
                    wrong.append(f"{number}, turn {turn}")
            if number == 0:
                prune(folder)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(4)))
    assert not wrong
    assert hits
    assert not list((tmp_path / "cache").rglob(".*"))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConversionError) as raised:
        Cache(str(tmp_path / "file"), VERSIONS)
    assert str(raised.value) == (
        f"{tmp_path / 'file'}: cannot be used as cache: File exists\n  fix: give another folder as cache"
    )


@pytest.mark.trt
def test_versions_name_what_decides() -> None:
    import prototrt

    found = versions(["rtx"])
    assert found["rtx"].startswith("rtx 1.")
    assert found["prototrt"].startswith(f"{prototrt.__version__} ")
    assert versions(["rtx"]) == found
