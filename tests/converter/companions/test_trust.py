"""What a signature binds beside the bytes of an engine: a label and a date, which whoever runs it may demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.converter.companions import signing
from prototrt.converter.companions.signing import Signer, TrustedKeys
from prototrt.converter.runtime import plan_file
from prototrt.converter.runtime.plan_file import load_plan
from prototrt.tests.command_line import run
from prototrt.tests.converter.runtime.support import written_plan

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
KEY = Ed25519PrivateKey.generate()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``key`` and ``key.pub``. Engines are signed at noon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signing, "_now", lambda: NOON)
    Path("key").touch(0o600)
    Path("key").write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("key.pub").write_bytes(KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return Path()


def signed_plan(label: str | None = "digits") -> Path:
    return written_plan(Path(), sign=Path("key"), sign_label=label, more=bytes(40))


def release() -> Any:
    return json.loads(Path("net.plan.json").read_text())["release"]


def test_label_and_date_are_in_the_manifest(folder: Path) -> None:
    signed_plan()
    assert release() == {"label": "digits", "date": "2026-01-31T12:00:00Z"}


def test_the_clock_is_that_of_now(tmp_path: Path) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    assert before <= signing._now() <= before + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({"network": "digits", "sources": {"prototxt": {"file": "deploy.prototxt"}}}, "digits"),
        ({"network": "", "sources": {"prototxt": {"file": "deploy.prototxt"}}}, "deploy"),
        ({"network": "", "sources": {}}, "engine"),
    ],
)
def test_the_usual_label(folder: Path, facts: Mapping[str, Any], label: str) -> None:
    assert Signer("key").signed(facts)["release"]["label"] == label


ACCEPTED: dict[str, dict[str, Any]] = {
    "no demand": {},
    "its label": {"label": "digits"},
    "its time": {"not_before": "2026-01-31T12:00:00Z"},
    "its day": {"not_before": "2026-01-31"},
    "another zone": {"not_before": "2026-01-31T13:00:00+01:00"},
    "a date of Python": {"not_before": date(2026, 1, 31)},
    "a time of Python without zone": {"not_before": datetime(2026, 1, 31, 12)},
    "a time of Python": {"not_before": NOON},
    "both": {"label": "digits", "not_before": "2026-01-31"},
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_demanded_and_true(folder: Path, case: str) -> None:
    plan = signed_plan()
    assert load_plan(plan, trust=prototrt.Trust("key.pub", **ACCEPTED[case])).sha256
    assert load_plan(plan, trust=prototrt.Trust([Path("key.pub")], **ACCEPTED[case])).sha256


OTHER_LABEL = (
    'net.plan.json: is signed as "{}", expected "digits"\n'
    "  because a signature is for one label, and another engine of the same author has another one\n"
    '  fix: use the engine that is signed as "digits"'
)
TOO_OLD = (
    "net.plan.json: was signed at 2026-01-31T12:00:00Z, expected {} or later\n"
    "  because an engine that was replaced by a newer one is still signed\n"
    "  fix: use the newer engine, or sign this one again"
)
NO_RELEASE = (
    "net.plan.json: is signed without a label and a date\n"
    "  because it was signed by a prototrt that did not write them\n"
    '  fix: convert the model again with sign="PRIVATE_KEY" and sign_label="LABEL"'
)
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "another engine": ("faces", {"label": "digits"}, OTHER_LABEL.format("faces")),
    "in other capitals": ("Digits", {"label": "digits"}, OTHER_LABEL.format("Digits")),
    "a name with a line feed": ("di\ngits", {"label": "digits"}, OTHER_LABEL.format("di\\ngits")),
    "a second too old": (
        "digits",
        {"not_before": "2026-01-31T12:00:01Z"},
        TOO_OLD.format("2026-01-31T12:00:01Z"),
    ),
    "older than a time in another zone": (
        "digits",
        {"not_before": datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=-2)))},
        TOO_OLD.format("2026-01-31T14:00:00Z"),
    ),
    "too old, with the right label": (
        "digits",
        {"label": "digits", "not_before": date(2026, 2, 1)},
        TOO_OLD.format("2026-02-01T00:00:00Z"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_demanded_and_false(folder: Path, case: str) -> None:
    label, demand, message = REFUSED[case]
    signed_plan(label)
    with pytest.raises(ConversionError) as refused:
        load_plan("net.plan", trust=prototrt.Trust("key.pub", **demand))
    assert str(refused.value) == message


def edited(change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads(Path("net.plan.json").read_text())
    change(manifest)
    Path("net.plan.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(("key", "value"), [("label", "digits"), ("date", "2026-02-01T00:00:00Z")])
def test_label_and_date_cannot_be_changed(folder: Path, key: str, value: str) -> None:
    signed_plan("faces")
    edited(lambda manifest: manifest["release"].update({key: value}))
    with pytest.raises(ConversionError, match="was changed after it was signed"):
        load_plan("net.plan", trust=prototrt.Trust("key.pub"))


def test_a_label_cannot_be_moved_to_another_engine(folder: Path) -> None:
    signed_plan("digits")
    digits = json.loads(Path("net.plan.json").read_text())
    signed_plan("faces")
    edited(lambda manifest: manifest.update(release=digits["release"]))
    with pytest.raises(ConversionError, match="was changed after it was signed"):
        load_plan("net.plan", trust=prototrt.Trust("key.pub", label="digits"))


# Signed before signatures had labels, by a key that is gone.
OLD_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF9sZSrSaSmz9SVQ+NuzD02O4HrbrFWinTXxsNA6iN9d\n"
OLD_MANIFEST = {
    "format": 1,
    "network": "digits",
    "plan": {"bytes": 13, "sha256": "0" * 64},
    "signature": {
        "algorithm": "Ed25519",
        "public_key": "X2xlKtJpKbP1JVD427MPTY7getusVaKdNfGw0DqI310=",
        "value": "MCXHeba1GKo6OIoRNLbiLuZXQye/ydedXw0fjkQhdIs4P+iO6rCSucz+okO6gabBGmFjwIcY5KVrDG2WKqegBA==",
    },
}


@pytest.mark.parametrize("demand", [{"label": "digits"}, {"not_before": "2020-01-01"}])
def test_files_signed_before(folder: Path, demand: dict[str, str]) -> None:
    """They stay signed; but nothing says what they are, and when they were signed."""
    Path("old.pub").write_text(OLD_KEY)
    TrustedKeys("old.pub").refuse_others(OLD_MANIFEST, "net.plan.json")
    TrustedKeys(prototrt.Trust("old.pub")).refuse_others(OLD_MANIFEST, "net.plan.json")
    trusted = TrustedKeys(prototrt.Trust("old.pub", **demand))
    with pytest.raises(ConversionError) as refused:
        trusted.refuse_others(OLD_MANIFEST, "net.plan.json")
    assert str(refused.value) == NO_RELEASE


@pytest.mark.parametrize("release", ["digits", {"label": "digits"}, {"label": "digits", "date": "yesterday"}])
def test_a_signed_release_that_is_none(folder: Path, release: object) -> None:
    """Only the holder of the key can make one."""
    whole = {"format": 1, "release": release}
    value = signing._text(KEY.sign(signing._signed_bytes(whole)))
    key = signing._text(KEY.public_key().public_bytes_raw())
    manifest = {**whole, "signature": {"algorithm": "Ed25519", "public_key": key, "value": value}}
    with pytest.raises(ConversionError, match="has a label or a date that cannot be read"):
        TrustedKeys(prototrt.Trust("key.pub", label="digits")).refuse_others(manifest, "net.plan.json")


@pytest.mark.parametrize("context", [b"", b"prototrt list\n"])
def test_other_things_that_the_key_has_signed(folder: Path, context: bytes) -> None:
    """A signature of the same text for another purpose is none of a manifest."""
    signed_plan()
    manifest = json.loads(Path("net.plan.json").read_text())
    TrustedKeys("key.pub").refuse_others(manifest, "net.plan.json")
    content = signing._signed_bytes(manifest).removeprefix(signing._CONTEXT)
    manifest["signature"]["value"] = signing._text(KEY.sign(context + content))
    with pytest.raises(ConversionError, match="was changed after it was signed"):
        TrustedKeys("key.pub").refuse_others(manifest, "net.plan.json")


def test_a_plan_of_another_size_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_plan()
    with Path("net.plan").open("wb") as stream:
        stream.truncate(1 << 40)
    monkeypatch.setattr(plan_file, "_read", lambda *names: pytest.fail("the plan is read"))
    with pytest.raises(ConversionError, match="it has 1099511627776 bytes, expected 53"):
        load_plan("net.plan", trust="key.pub")


ROOT = Path(__file__).parents[3]


def test_each_attack_has_its_tests_or_is_not_covered() -> None:
    page = (ROOT / "docs" / "signing.md").read_text().partition("## What is covered")[2]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    for attack, _, evidence in rows:
        names = re.findall(r"`(test_\w+)`", evidence)
        assert names or evidence == "not covered", attack
        assert tests.issuperset(names), attack


WRONG_TRUST: dict[str, tuple[Callable[[], object], str]] = {
    "no keys": (
        lambda: prototrt.Trust([]),
        'keys is [], expected files of public keys\n  fix: use Trust("builder.pub")',
    ),
    "an empty label": (
        lambda: prototrt.Trust("key.pub", label=" "),
        "label is empty\n  fix: give the label of the engine, or leave it out",
    ),
    "no date": (
        lambda: prototrt.Trust("key.pub", not_before="yesterday"),
        "'yesterday' is not a date\n  fix: write it as in not_before=\"2026-01-31\"",
    ),
    "a time that UTC lacks": (
        lambda: prototrt.Trust("key.pub", not_before="0001-01-01T00:00:00+14:00"),
        "'0001-01-01T00:00:00+14:00' is not a date\n  fix: write it as in not_before=\"2026-01-31\"",
    ),
    "a number": (
        lambda: prototrt.Trust("key.pub", not_before=20260131),  # type: ignore[arg-type]  # the test's subject
        '20260131 is not a date\n  fix: write it as in not_before="2026-01-31"',
    ),
    "an empty label to sign": (
        lambda: Signer("key", " "),
        'sign_label is empty\n  fix: name what the engine is for, as in sign_label="digits"',
    ),
    "a label without a key": (
        lambda: prototrt.convert("a.prototxt", "b.caffemodel", "net.plan", sign_label="digits"),
        'sign_label="digits" is for signed engines\n  fix: give sign="PRIVATE_KEY", too, or leave it out',
    ),
}


@pytest.mark.parametrize("case", WRONG_TRUST)
def test_demands_that_are_none(folder: Path, case: str) -> None:
    act, message = WRONG_TRUST[case]
    with pytest.raises(OptionsError) as refused:
        act()
    assert str(refused.value) == message


COMMANDS = {
    "run": ("run", "net.plan", "--inputs", "in.npz", "-o", "out.npz"),
    "bench": ("bench", "net.plan"),
    "inspect": ("inspect", "net.plan"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_demand_label_and_date(folder: Path, command: str) -> None:
    """Each refuses the engine before it looks for a GPU."""
    signed_plan("faces")
    demand = (*COMMANDS[command], "--trust-key", "key.pub")
    result = run(*demand, "--trust-label", "digits")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        6,
        'error: net.plan.json: is signed as "faces", expected "digits"',
    )
    result = run(*demand, "--trust-label", "faces", "--trust-not-before", "2026-02-01")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        6,
        "error: net.plan.json: was signed at 2026-01-31T12:00:00Z, expected 2026-02-01T00:00:00Z or later",
    )
    result = run(*demand, "--trust-label", "faces", "--trust-not-before", "2026-01-31")
    assert "signed as" not in result.output.partition("error")[2]
    assert result.exit_code == 0 or command != "inspect"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", [("--trust-label", "digits"), ("--trust-not-before", "2026-01-31")])
def test_a_demand_without_a_key(folder: Path, command: str, option: tuple[str, str]) -> None:
    signed_plan()
    result = run(*COMMANDS[command], *option)
    assert result.exit_code == 2
    assert result.output.splitlines()[-2:] == [
        f"Error: {option[0]} is about signed plans",
        "  fix: give --trust-key PUBLIC_KEY, too",
    ]


def test_a_date_that_is_none(folder: Path) -> None:
    signed_plan()
    result = run(*COMMANDS["run"], "--trust-key", "key.pub", "--trust-not-before", "31.1.2026")
    assert result.exit_code == 2
    assert '"31.1.2026" is not a date: write it as in 2026-01-31' in " ".join(result.output.split())


def test_inspect_says_whether_a_signature_was_checked(folder: Path) -> None:
    signed_plan()
    unchecked, checked = (
        run(*COMMANDS["inspect"]).output,
        run(*COMMANDS["inspect"], "--trust-key", "key.pub").output,
    )
    for output, words in ((unchecked, "not checked"), (checked, "checked")):
        facts = dict(line.split(None, 1) for line in output.splitlines() if line.startswith("sign"))
        assert facts == {"signed": 'as "digits" at 2026-01-31T12:00:00Z', "signature": words}


def test_inspect_refuses_a_changed_plan(folder: Path) -> None:
    signed_plan().write_bytes(b"vtrt and MORE")
    result = run(*COMMANDS["inspect"], "--trust-key", "key.pub")
    assert (result.exit_code, "is not the plan that its manifest describes" in result.output) == (6, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_demands_are_for_plans(folder: Path, command: str) -> None:
    Path("net.prototxt").write_text('layer { name: "x" type: "Input" top: "x" }')
    words = [word.replace("net.plan", "net.prototxt") for word in COMMANDS[command]]
    result = run(*words, "--trust-key", "key.pub")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: --trust-key is for plans, but net.prototxt is not a plan",
    )
