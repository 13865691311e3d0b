"""Words of commands: a shell passes on the very words."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.tests.odd_names import NAMES

SHELLS = [shell for shell in ("sh", "bash", "busybox", "ksh", "zsh") if shutil.which(shell)]
WORDS = st.tuples(st.sampled_from(["", "-", "--", "--x=", "-e"]), NAMES).map("".join)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=15)
@example(
    [
        "",
        "-\x1b",
        "--shapes=\u200b:1x3",
        "-e\n",
        "\n\n",
        "a\n1\n",
        "\x011",
        "%d\t",
        "\udcff",
        "##[x",
        "-\udcff\n",
    ]
)
@given(st.lists(WORDS.filter(lambda word: "\0" not in word), min_size=1, max_size=5))
def test_a_shell_passes_the_very_words(shell: str, words: Sequence[str]) -> None:
    passed = [
        word.encode("utf-8", "surrogateescape" if word.endswith("\udcff") else "replace") for word in words
    ]
    words = [word.decode("utf-8", "surrogateescape") for word in passed]
    command = joined(words)
    assert visible_line(command) == command
    if all(visible_line(word) == word for word in words):
        assert command == shlex.join(words)
    applet = ["sh"] if shell == "busybox" else []
    done = subprocess.run(
        [shell, *applet, "-c", f"printf '%s\\0' {command}".encode("utf-8", "surrogateescape")],
        capture_output=True,
        check=True,
    )
    assert done.stdout.split(b"\0")[:-1] == passed
