"""Which model Triton's Python backend accepts: the parameter ``trust`` of the config, a digest as of ``Session``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototrt.caffe_proto.common.errors import EngineError

PARAMETER = "trust"
_RETIRED = ("trust_key", "trust_label", "trust_not_before")


def trust_of(config: Mapping[str, Any]) -> bool | str:
    """What a config demands of the model. Raises ``EngineError`` for a demand that is no longer checked."""
    parameters = config.get("parameters", {})
    for name in _RETIRED:
        if name in parameters:
            raise EngineError(
                f"the parameter {name} demands a signature, which prototrt no longer checks",
                where="config.pbtxt",
                fix=f'replace it by the parameter {PARAMETER} with the digest of the manifest, "sha256:..."',
            )
    return str(parameters[PARAMETER]["string_value"]) if PARAMETER in parameters else False
