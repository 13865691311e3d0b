"""Signatures of manifests, which say who made an engine, as what and when: Ed25519.

A manifest holds the SHA-256 of its plan, so a signature of the manifest covers both. It also covers the key
``release`` of the manifest: the label of the engine and the date of the signature.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from prototrt.caffe_proto.common.errors import EngineError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.companions.keys import Keys, files_of, private_key, public_keys
from prototrt.converter.companions.manifest import WRITE_AGAIN
from prototrt.converter.written_values import MOMENT, moment_from_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_ALGORITHM = "Ed25519"
_CONTEXT = b"prototrt manifest\n"
"""Signed before the manifest: the key may sign other things, too."""


class Signer:
    """Signs manifests with a private key, from a PEM file or one of OpenSSH.

    ``label`` is what the engine is signed as; by default the name of its net, or else of the net's file. Raises
    ``UnreadableFileError`` where the file holds no key, and ``ConversionError`` without ``cryptography``.
    """

    def __init__(self, file: PathLike, label: str | None = None) -> None:
        if label is not None and not label.strip():
            raise OptionsError(
                Worded("{} is empty", Option("sign_label")),
                fix=Worded("name what the engine is for, as in {}", Option("sign_label", "digits")),
            )
        self._key = private_key(os.fspath(file))
        self._label = label

    def signed(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest with its label, the date, and the signature of all of it."""
        release = {"label": self._label or _usual_label(manifest), "date": _now().strftime(MOMENT)}
        whole = {**manifest, "release": release}
        signature = {
            "algorithm": _ALGORITHM,
            "public_key": _text(self._key.public_key().public_bytes_raw()),
            "value": _text(self._key.sign(_signed_bytes(whole))),
        }
        return {**whole, "signature": signature}


@dataclass(frozen=True)
class Trust:
    """Whose engines may run, and which of them.

    ``keys`` are files with Ed25519 public keys: one of them must have signed the engine. With ``label``, only an
    engine that was signed as this one runs; with ``not_before``, only one that was signed at this time or later. That
    is a date as in ``"2026-01-31"``, a time as in ``"2026-01-31T12:00:00Z"``, or one of Python's; in UTC unless it
    states a zone. Raises ``OptionsError``.
    """

    keys: Keys
    _: KW_ONLY
    label: str | None = None
    not_before: str | date | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise OptionsError(
                f"keys is {self.keys!r}, expected files of public keys", fix='use Trust("builder.pub")'
            )
        if self.label is not None and not self.label.strip():
            raise OptionsError("label is empty", fix="give the label of the engine, or leave it out")
        _ = self.first_time

    @property
    def first_time(self) -> datetime | None:
        """The lowest date of a signature, with its zone."""
        return None if self.not_before is None else _moment(self.not_before)


Trusted: TypeAlias = bool | Keys | Trust
"""Whether a plan may run: any, those with a manifest, or those that one of these keys has signed."""


class TrustedKeys:
    """Public keys of those whose engines may run, and which of their engines.

    Raises ``UnreadableFileError`` for files without keys, and ``ConversionError`` without ``cryptography``.
    """

    def __init__(self, trust: Keys | Trust) -> None:
        self._trust = trust if isinstance(trust, Trust) else None
        files = files_of(trust.keys if isinstance(trust, Trust) else trust)
        self._names = ", ".join(files)
        self._keys = [key for file in files for key in public_keys(file)]

    def refuse_others(self, manifest: Mapping[str, Any], where: str) -> None:
        """Raise ``EngineError`` unless one of the keys has signed the manifest, as the engine that may run."""
        because = f"only engines that are signed with a key in {self._names} are trusted"
        signature = manifest.get("signature")
        if signature is None:
            raise EngineError(
                "has no signature",
                where=where,
                because=because,
                fix=Worded("convert the model again with {}", Option("sign", "PRIVATE_KEY")),
            )
        value, signer = _signature(signature, where)
        if any(_is_signed(key, value, _signed_bytes(manifest)) for key in self._keys):
            if self._trust is not None:
                _refuse_other_release(self._trust, manifest, where)
            return
        if any(key.public_bytes_raw() == signer for key in self._keys):
            raise EngineError(
                "was changed after it was signed", where=where, fix="get the engine and its manifest again"
            )
        raise EngineError(
            "is signed with another key",
            where=where,
            because=because,
            fix="trust the public key of its author, too, or use an engine of an author whom you trust",
        )


def _refuse_other_release(trust: Trust, manifest: Mapping[str, Any], where: str) -> None:
    """Raise ``EngineError`` unless a manifest whose signature is right has the label and the date of the trust."""
    if trust.label is None and trust.not_before is None:
        return
    label, signed_at = _release(manifest, where)
    if trust.label is not None and label != trust.label:
        raise EngineError(
            Worded('is signed as "{}", expected "{}"', label, trust.label),
            where=where,
            because="a signature is for one label, and another engine of the same author has another one",
            fix=Worded('use the engine that is signed as "{}"', trust.label),
        )
    first = trust.first_time
    if first is not None and signed_at < first:
        raise EngineError(
            f"was signed at {signed_at.strftime(MOMENT)}, expected {first.strftime(MOMENT)} or later",
            where=where,
            because="an engine that was replaced by a newer one is still signed",
            fix="use the newer engine, or sign this one again",
        )


def _release(manifest: Mapping[str, Any], where: str) -> tuple[str, datetime]:
    """The label and the date of a manifest whose signature is right."""
    release = manifest.get("release")
    if release is None:
        raise EngineError(
            "is signed without a label and a date",
            where=where,
            because="it was signed by a prototrt that did not write them",
            fix=Worded(
                "convert the model again with {} and {}",
                Option("sign", "PRIVATE_KEY"),
                Option("sign_label", "LABEL"),
            ),
        )
    try:
        return str(release["label"]), datetime.strptime(release["date"], MOMENT).replace(tzinfo=timezone.utc)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFileError(
            "has a label or a date that cannot be read",
            where=where,
            because=f"it is wrong or missing: {error}",
            fix=WRITE_AGAIN,
        ) from error


def _usual_label(manifest: Mapping[str, Any]) -> str:
    """The name of the net, or of its file."""
    sources = manifest.get("sources", {})
    file = next((source["file"] for source in sources.values()), "engine")
    return str(manifest.get("network") or Path(file).stem)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _moment(value: str | date) -> datetime:
    """Raises ``OptionsError`` for what is no date."""
    try:
        return moment_from_text(value if isinstance(value, str) else value.isoformat())
    except (ValueError, AttributeError) as error:
        raise OptionsError(
            f"{value!r} is not a date", fix='write it as in not_before="2026-01-31"'
        ) from error


def _signed_bytes(manifest: Mapping[str, Any]) -> bytes:
    """What is signed: the manifest without signature, in the one form that all of its spellings share."""
    unsigned = {key: value for key, value in manifest.items() if key != "signature"}
    return _CONTEXT + json.dumps(unsigned, sort_keys=True, separators=(",", ":")).encode()


def _signature(signature: Any, where: str) -> tuple[bytes, bytes]:
    """Its value, and the public key that it names, which proves nothing."""
    try:
        if not isinstance(signature, Mapping):
            raise ValueError(f"{signature!r} is not an object")
        if signature["algorithm"] != _ALGORITHM:
            raise ValueError(f"the algorithm is {signature['algorithm']!r}, expected {_ALGORITHM!r}")
        value, public_key = (
            base64.b64decode(signature[name], validate=True) for name in ("value", "public_key")
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise UnreadableFileError(
            "has a signature that cannot be read",
            where=where,
            because=f"it is wrong or missing: {error}",
            fix=WRITE_AGAIN,
        ) from error
    return value, public_key


def _is_signed(key: Ed25519PublicKey, value: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(value, content)
    except InvalidSignature:
        return False
    return True


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
