"""Signatures: an engine runs only if one of the trusted keys has signed it, and nothing was changed since."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, EngineError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.converter.companions.signing import Signer, TrustedKeys
from prototrt.converter.conversion import Product
from prototrt.converter.options import ConvertOptions
from prototrt.converter.runtime.plan_file import load_plan
from prototrt.tests.command_line import DEPLOY, WEIGHTS, run
from prototrt.tests.converter.runtime.support import written_plan
from prototrt.tests.dynamic_lstm import dynamic_graph

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
MAKE = "  fix: make one: openssl genpkey -algorithm ed25519 -out {file}"
EXPORT = "  fix: write one: openssl pkey -in PRIVATE_KEY -pubout -out FILE"


def private(key: Any = KEY, encoding: Encoding = Encoding.PEM, secret: bytes | None = None) -> bytes:
    form = PrivateFormat.OpenSSH if encoding == Encoding.OpenSSH else PrivateFormat.PKCS8
    encryption = BestAvailableEncryption(secret) if secret else NoEncryption()
    content: bytes = key.private_bytes(Encoding.PEM, form, encryption)
    return content


def public(key: Any = KEY, encoding: Encoding = Encoding.PEM) -> bytes:
    form = PublicFormat.OpenSSH if encoding == Encoding.OpenSSH else PublicFormat.SubjectPublicKeyInfo
    content: bytes = key.public_key().public_bytes(encoding, form)
    return content


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, key in (("mine", KEY), ("other", OTHER)):
        Path(name).write_bytes(private(key))
        Path(name).chmod(0o600)
        Path(f"{name}.pub").write_bytes(public(key))
    return Path()


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.OpenSSH])
def test_a_signed_engine_is_trusted(folder: Path, encoding: Encoding) -> None:
    Path("mine").write_bytes(private(encoding=encoding))
    Path("mine.pub").write_bytes(public(encoding=encoding))
    plan = written_plan(folder, sign=Path("mine"))
    assert load_plan(plan, trust="mine.pub").plan == b"vtrt and more"
    assert load_plan(plan, trust=["other.pub", Path("mine.pub")]).plan == b"vtrt and more"
    assert load_plan(plan).plan == b"vtrt and more"


def test_a_file_with_several_keys(folder: Path) -> None:
    """One in each line, as OpenSSH has them; keys of other kinds are passed over."""
    lines = [b"# builders", public(generate_private_key(SECP256R1()), Encoding.OpenSSH), b""]
    lines += [public(key, Encoding.OpenSSH) + b" builder@example" for key in (OTHER, KEY)]
    Path("builders").write_bytes(b"\n".join(lines))
    assert load_plan(written_plan(folder, sign=Path("mine")), trust="builders").sha256


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
    def edit() -> None:
        manifest = json.loads(Path("net.plan.json").read_text())
        change(manifest)
        Path("net.plan.json").write_text(json.dumps(manifest))

    return edit


CHANGED = b"vtrt and MORE"
TRUSTED = "  because only engines that are signed with a key in mine.pub are trusted\n"
REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "no signature": (
        lambda: written_plan(Path()),
        f'net.plan.json: has no signature\n{TRUSTED}  fix: convert the model again with sign="PRIVATE_KEY"',
    ),
    "another key": (
        lambda: written_plan(Path(), sign=Path("other")),
        f"net.plan.json: is signed with another key\n{TRUSTED}"
        "  fix: trust the public key of its author, too, or use an engine of an author whom you trust",
    ),
    "a changed manifest": (
        edited(lambda manifest: manifest.update(warnings=["none"])),
        "net.plan.json: was changed after it was signed\n  fix: get the engine and its manifest again",
    ),
    "another signer under the name of a trusted one": (
        edited(
            lambda manifest: manifest["signature"].update(
                value=Signer("other").signed({})["signature"]["value"]
            )
        ),
        "net.plan.json: was changed after it was signed\n  fix: get the engine and its manifest again",
    ),
    "a changed plan": (
        lambda: Path("net.plan").write_bytes(CHANGED),
        "net.plan: is not the plan that its manifest describes: its SHA-256 is"
        f" {hashlib.sha256(CHANGED).hexdigest()}, expected {hashlib.sha256(b'vtrt and more').hexdigest()}\n"
        "  fix: convert the model again, or find the files that belong together",
    ),
    "no manifest": (
        lambda: Path("net.plan.json").unlink(),
        'net.plan: has no manifest: there is no "net.plan.json" beside it\n'
        "  because a plan is a program, and nothing says where this one comes from\n"
        "  fix: put the manifest beside it",
    ),
    "a signature that is none": (
        edited(lambda manifest: manifest.update(signature="yes")),
        "net.plan.json: has a signature that cannot be read\n"
        "  because it is wrong or missing: 'yes' is not an object\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
    "another algorithm": (
        edited(lambda manifest: manifest["signature"].update(algorithm="none")),
        "net.plan.json: has a signature that cannot be read\n"
        "  because it is wrong or missing: the algorithm is 'none', expected 'Ed25519'\n"
        "  fix: write the manifest again with prototrt.convert(...)",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(folder: Path, case: str) -> None:
    change, message = REFUSALS[case]
    written_plan(folder, sign=Path("mine"))
    change()
    with pytest.raises(ConversionError) as caught:
        load_plan("net.plan", trust=["mine.pub"])
    assert str(caught.value) == message


MANIFEST = Signer.__new__(Signer)  # without a file
MANIFEST._key, MANIFEST._label = KEY, None
SIGNED = MANIFEST.signed(
    {"plan": {"sha256": "0" * 64, "bytes": 5}, "inputs": [{"name": "x"}], "warnings": ["ä"]}
)
JSON = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
PLACES = st.sampled_from(
    [
        *(("plan", "sha256"), ("plan", "bytes"), ("plan",), ("inputs",), ("warnings",), ("new",)),
        *(("release",), ("release", "label"), ("release", "date")),
    ]
)


@given(PLACES, JSON)
def test_whatever_is_changed_is_refused(place: tuple[str, ...], value: object) -> None:
    trusted = TrustedKeys([])
    trusted._keys = [KEY.public_key()]
    changed = json.loads(json.dumps(SIGNED, indent=3))
    trusted.refuse_others(changed, "manifest")
    inner = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    if json.dumps(changed, sort_keys=True) != json.dumps(SIGNED, sort_keys=True):
        with pytest.raises(EngineError, match="was changed after it was signed"):
            trusted.refuse_others(changed, "manifest")


WRONG_KEYS: dict[str, tuple[Callable[[str], object], bytes, str]] = {
    "a public key to sign with": (
        Signer,
        public(),
        "key: holds no Ed25519 private key\n  because CRYPTOGRAPHY\n" + MAKE,
    ),
    "a private key to trust": (TrustedKeys, private(), EXPORT),
    "no key": (TrustedKeys, b"", "key: holds no Ed25519 public key\n" + EXPORT),
    "text": (TrustedKeys, b"hello", EXPORT),
    "a passphrase": (
        Signer,
        private(secret=b"secret"),
        "key: the private key has a passphrase\n  fix: give a key without one, in a file that only you can read",
    ),
    "a key of another kind": (
        Signer,
        private(generate_private_key(SECP256R1())),
        "key: holds no Ed25519 private key\n  because it is a key of another kind: ECPrivateKey\n" + MAKE,
    ),
}


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_wrong_keys(folder: Path, case: str) -> None:
    read, content, message = WRONG_KEYS[case]
    Path("key").write_bytes(content)
    Path("key").chmod(0o600)
    with pytest.raises(UnreadableFileError) as caught:
        read("key")
    text = str(caught.value)
    assert text.startswith("key: ")
    # What the package says differs from release to release.
    pattern = re.escape(message.format(file="key")).replace("CRYPTOGRAPHY", ".+")
    assert re.search(rf"{pattern}\Z", text)


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes of files")
@pytest.mark.parametrize(
    ("read", "file", "what"), [(Signer, "mine", "a private key"), (TrustedKeys, "mine.pub", "public keys")]
)
@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o666, "every user"), (0o602, "every user"), (0o660, "its group"), (0o620, "its group")],
)
def test_keys_that_others_may_change(
    folder: Path, read: Callable[[str], object], file: str, what: str, mode: int, who: str
) -> None:
    Path(file).chmod(mode)
    with pytest.raises(UnreadableFileError) as caught:
        read(file)
    assert str(caught.value) == (
        f"{file}: {who} may change this file, expected {what}\n"
        "  because whoever changes a key decides which engines are trusted\n"
        f"  fix: check its content, then chmod go-w {file}"
    )


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes of files")
@pytest.mark.parametrize("mode", [0o644, 0o604])
def test_private_keys_that_every_user_may_read(folder: Path, mode: int) -> None:
    Path("mine").chmod(mode)
    with pytest.raises(UnreadableFileError) as caught:
        Signer("mine")
    assert str(caught.value) == (
        "mine: every user may read this file, expected a private key\n"
        "  because whoever reads it can sign engines in the name of its owner\n"
        "  fix: chmod o-rwx mine; make a new key if others use this machine"
    )


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes of files")
@pytest.mark.parametrize(
    ("read", "file", "mode"),
    [(Signer, "mine", 0o600), (Signer, "mine", 0o440), (TrustedKeys, "mine.pub", 0o644)],
)
def test_keys_of_usual_modes(folder: Path, read: Callable[[str], object], file: str, mode: int) -> None:
    Path(file).chmod(mode)
    read(file)


def test_without_cryptography(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ConversionError) as caught:
        Signer("mine")
    assert str(caught.value) == (f"signatures need the package cryptography\n  fix: {pip_install('signing')}")


@pytest.mark.parametrize("trust", [None, (), []])
def test_nothing_to_trust(folder: Path, trust: Any) -> None:
    with pytest.raises(OptionsError) as refused:
        load_plan(folder / "net.plan", trust=trust)
    assert str(refused.value) == (
        f"trust is {trust}, expected True, False, or files of public keys\n  fix: use trust=False"
    )


def test_keys_are_for_files_of_plans(folder: Path) -> None:
    with pytest.raises(ValueError, match="trust names keys, but only the file of a plan can be signed"):
        prototrt.Session(dynamic_graph(), on="engine", trust="mine.pub")


def test_models_of_onnx_are_not_signed() -> None:
    with pytest.raises(OptionsError, match=r"sign is for engines, but FILE ends in \.onnx"):
        Product(file="a.onnx", converting=ConvertOptions(sign="mine"))


@pytest.mark.trt
def test_the_commands(folder: Path) -> None:
    """Made by one command, and refused or not by the other before it looks for a GPU."""
    result = run("convert", DEPLOY, WEIGHTS, "-o", "net.plan", "--sign", "mine")
    assert result.exit_code == 0, result.output
    asked = ("run", "net.plan", "--inputs", "in.npz", "-o", "out.npz")
    result = run(*asked, "--trust-key", "other.pub")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        6,
        "error: net.plan.json: is signed with another key",
    )
    assert "is signed" not in run(*asked, "--trust-key", "other.pub", "--trust-key", "mine.pub").output
    result = run(*asked, "--trust-key", "mine.pub", "--trust")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: --trust takes any plan, and --trust-key only signed ones: give one of them",
    )
