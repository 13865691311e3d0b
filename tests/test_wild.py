"""Nets as people published them: whatever stands in them, nothing crashes, and what a message advises works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prototrt.caffe_proto.loading import load
from prototrt.converter.showing.survey.survey import survey_net
from prototrt.surgery.expansion.expand import Expansion, attempt
from prototrt.surgery.expansion.fitting import usual_shapes
from prototrt.surgery.options import RewriteOptions

WILD = Path(__file__).parents[1] / ".." / "shared" / "wild"
INDEX = WILD / "index.json"
EVERY = 30  # the others take minutes
NETS = [net["file"] for net in json.loads(INDEX.read_text())[::EVERY]] if INDEX.exists() else [""]


@pytest.mark.skipif(not INDEX.exists(), reason="published nets are not part of the repository")
@pytest.mark.parametrize("file", NETS)
def test_a_published_net(file: str) -> None:
    net = survey_net(str(WILD / file))
    if net.outputs:
        options = RewriteOptions(outputs=net.outputs, shapes=usual_shapes(net.shapes), require_weights=False)
        assert isinstance(attempt(load(net.file), options), Expansion)
