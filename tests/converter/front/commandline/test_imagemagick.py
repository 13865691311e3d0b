"""`convert` called for images: whoever wanted ImageMagick is told whose command answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototrt import cli
from prototrt.converter.front.commandline.imagemagick import message_for_images

HEAD = """error: this is prototrt's `convert`, which converts Caffe models, not images
  because {} comes first in PATH
"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where our command is, and another folder of PATH."""
    ours, system = tmp_path / "ours", tmp_path / "system"
    for folder in (ours, system):
        folder.mkdir()
    program(ours / "convert")
    monkeypatch.setattr("sys.argv", [str(ours / "convert"), "a b.png", "-resize", "50%", "b.jpg"])
    monkeypatch.setenv("PATH", f"{ours}:{system}")
    return ours, system


def program(path: Path) -> None:
    path.touch()
    path.chmod(0o755)


def test_both_commands_of_imagemagick_are_named(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, system = folders
    for name in ("convert", "magick"):
        program(system / name)
    with pytest.raises(SystemExit) as ended:
        cli.convert_main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == HEAD.format(ours) + (
        f"  fix: run `magick 'a b.png' -resize 50% b.jpg`, or `{system}/convert 'a b.png' -resize 50% b.jpg`,"
        " or deactivate the environment of prototrt\n"
    )


def test_without_imagemagick(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.convert_main()
    assert (
        capsys.readouterr().err == HEAD.format(folders[0]) + "  fix: deactivate the environment of prototrt\n"
    )


@pytest.mark.parametrize(
    ("arguments", "is_of_images"),
    [
        (["a.png", "b.jpg"], True),
        (["-resize", "50%", "A.PNG", "b"], True),
        (["movie.gif[0]", "frame.webp"], True),
        (["net.prototxt", "net.caffemodel", "-o", "net.png"], False),
        (["net.prototxt", "mean.png", "--random-weights", "1"], False),
        (["net.prototxt", "net.caffemodel"], False),
        ([], False),
    ],
)
def test_what_is_a_call_for_images(arguments: list[str], is_of_images: bool) -> None:
    assert (message_for_images(arguments) is not None) == is_of_images
