"""Files of keys: Ed25519, as PEM or in OpenSSH's form, read by the package ``cryptography``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_KEYS, errors_for_user, open_regular, refuse_size
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.permissions import everyone_may_read, who_may_change
from prototrt.caffe_proto.common.shell_words import joined

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Keys: TypeAlias = PathLike | Sequence[PathLike]
"""Files with public keys."""

_PRIVATE = "a private key"


def files_of(keys: Keys) -> list[str]:
    """The names of the files."""
    return [os.fspath(file) for file in ([keys] if isinstance(keys, (str, os.PathLike)) else keys)]


def private_key(file: str) -> Ed25519PrivateKey:
    """The key in a file that nobody else can read. Raises ``UnreadableFileError``."""
    serialization, ed25519 = _imported()
    content = _content(file, _PRIVATE)
    load = (
        serialization.load_ssh_private_key
        if b"BEGIN OPENSSH" in content
        else serialization.load_pem_private_key
    )
    problem = "holds no Ed25519 private key"
    fix = f"make one: openssl genpkey -algorithm ed25519 -out {file}"
    try:
        key = load(content, None)
    except TypeError as error:  # a passphrase is needed
        fix = "give a key without one, in a file that only you can read"
        raise UnreadableFileError("the private key has a passphrase", where=file, fix=fix) from error
    except Exception as error:  # cryptography's errors share no base class
        raise UnreadableFileError(problem, where=file, because=_line(error), fix=fix) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        because = f"it is a key of another kind: {type(key).__name__}"
        raise UnreadableFileError(problem, where=file, because=because, fix=fix)
    result: Ed25519PrivateKey = key
    return result


def public_keys(file: str) -> list[Ed25519PublicKey]:
    """Those of a PEM file, or of a file with a key of OpenSSH in each line. Raises ``UnreadableFileError``."""
    serialization, ed25519 = _imported()
    content = _content(file, "public keys")
    problem, fix = "holds no Ed25519 public key", "write one: openssl pkey -in PRIVATE_KEY -pubout -out FILE"
    try:
        if content.lstrip().startswith(b"-----BEGIN"):
            result = [serialization.load_pem_public_key(content)]
        else:
            lines = [line for line in content.splitlines() if line.strip() and not line.startswith(b"#")]
            result = [serialization.load_ssh_public_key(line) for line in lines]
    except Exception as error:  # cryptography's errors share no base class
        raise UnreadableFileError(problem, where=file, because=_line(error), fix=fix) from error
    keys = [key for key in result if isinstance(key, ed25519.Ed25519PublicKey)]
    if not keys:
        raise UnreadableFileError(problem, where=file, fix=fix)
    return keys


def _imported() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ConversionError(
            "signatures need the package cryptography", fix=pip_install("signing")
        ) from error
    return serialization, ed25519


def _content(file: str, what: str) -> bytes:
    with errors_for_user(file, what), open_regular(file, what) as stream:
        if (who := who_may_change(stream)) is not None:
            raise UnreadableFileError(
                f"{who} may change this file, expected {what}",
                where=file,
                because="whoever changes a key decides which engines are trusted",
                fix=f"check its content, then {joined(['chmod', 'go-w', file])}",
            )
        refuse_size(file, os.fstat(stream.fileno()).st_size, what, LARGEST_KEYS)
        content = stream.read()
        # A public key that is given by mistake gets the message about its content.
        if what == _PRIVATE and b"PRIVATE KEY" in content and everyone_may_read(stream):
            raise UnreadableFileError(
                f"every user may read this file, expected {what}",
                where=file,
                because="whoever reads it can sign engines in the name of its owner",
                fix=f"{joined(['chmod', 'o-rwx', file])}; make a new key if others use this machine",
            )
        return content


def _line(error: Exception) -> str | None:
    return str(error).splitlines()[0] if str(error) else None
