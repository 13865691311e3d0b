"""The last words of many messages about a net."""

from __future__ import annotations

from prototrt.caffe_proto.common.wording import Option, Worded

CUT_BEFORE_LAYER = Worded("cut the net before this layer with {}", Option("outputs", ["BLOB"]))
CUT_BEFORE_OPERATOR = Worded("cut the net before this operator with {}", Option("outputs", ["BLOB"]))
CHOOSE_ANOTHER_NET = Worded("choose another {}, {} or {}", Option("phase"), Option("level"), Option("stages"))
