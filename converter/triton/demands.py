"""Which signed plans Triton's Python backend accepts: the options of the command, and the parameters of the config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from prototrt.caffe_proto.common.errors import EngineError, OptionsError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.companions.signing import Trust
from prototrt.converter.options import BackendName, TritonOptions, refuse_label_alone
from prototrt.converter.written_values import moment_text

_KEY, _LABEL, _NOT_BEFORE = PARAMETERS = ("trust_key", "trust_label", "trust_not_before")
"""Parameters of the config, called like the options."""
_WRITES_PLAN = Worded(
    "use {} and {} or {}",
    *(Option("platform", "python"), Option("backend", "rtx"), Option("backend", "enterprise")),
)


def parameters_of(options: TritonOptions) -> dict[str, str]:
    """The parameters that demand what the options demand."""
    demands = {name: getattr(options, name) for name in PARAMETERS}
    if options.trust_not_before is not None:
        demands[_NOT_BEFORE] = moment_text(options.trust_not_before)
    return {name: value for name, value in demands.items() if value is not None}


def refuse_bad_demands(options: TritonOptions, backend: BackendName) -> None:
    """Raise ``OptionsError`` for signatures and demands that no server would meet."""
    refuse_label_alone(options.sign, options.sign_label)
    if options.sign is not None and backend == "auto":
        raise OptionsError(
            Worded(
                "{} is for engines, and {} may write an ONNX model", Option("sign"), Option("backend", "auto")
            ),
            fix=_WRITES_PLAN,
        )
    demands = [name for name in PARAMETERS if getattr(options, name) is not None]
    if not demands:
        return
    if options.trust_key is None:
        raise OptionsError(
            Worded("{} is about signed plans", Option(demands[0])),
            fix=Worded("give {}, too", Option(_KEY, "/keys/builder.pub")),
        )
    if options.platform != "python" or backend == "auto":
        raise OptionsError(
            Worded("{} is for plans that prototrt runs in Triton's Python backend", Option(_KEY)),
            fix=_WRITES_PLAN,
        )
    if options.sign is None:
        raise OptionsError(
            Worded("{} without {}: the server would refuse the plan", Option(_KEY), Option("sign")),
            fix=Worded("give {}, too", Option("sign", "PRIVATE_KEY")),
        )
    if not PurePosixPath(options.trust_key).is_absolute():
        raise OptionsError(
            Worded("{} is not a whole path", Option(_KEY, options.trust_key)),
            because="the server has another folder than this command",
            fix=Worded("name the file as the server finds it, as in {}", Option(_KEY, "/keys/builder.pub")),
        )
    if options.trust_label is not None and options.sign_label != options.trust_label:
        raise OptionsError(
            Worded(
                "{} without the same {}: the server would refuse the plan",
                Option(_LABEL),
                Option("sign_label"),
            ),
            fix=Worded("give {}, too", Option("sign_label", options.trust_label)),
        )
    Trust(options.trust_key, label=options.trust_label, not_before=options.trust_not_before)


def trust_of(config: Mapping[str, Any], on_gpu: bool) -> bool | Trust:
    """What a config demands of the plan. Raises ``ConversionError`` if nothing that runs here could meet it."""
    parameters = config.get("parameters", {})
    demands = {name: parameters[name]["string_value"] for name in PARAMETERS if name in parameters}
    if not demands:
        return False
    if _KEY not in demands or not on_gpu:
        raise EngineError(
            f"the parameter {_KEY} is missing" if on_gpu else "an ONNX model is not signed",
            where="config.pbtxt",
            because=f"the parameter {next(iter(demands))} demands a signed plan",
            fix="name the file of public keys" if on_gpu else "serve a plan: instances of KIND_GPU",
        )
    return Trust(demands[_KEY], label=demands.get(_LABEL), not_before=demands.get(_NOT_BEFORE))
