"""What tools/cross/check-aarch64 compares the voice by, tried on this machine alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from edgettsd_tools import aarch64
from edgettsd_tools.widen import widen
from gguf.quants import dequantize

from edgettsd.models.default import BUILT_IN
from edgettsd.models.store import open_bundle

PROGRAM = Path(__file__).parents[2] / "tools" / "cross" / "daemon.py"


def test_a_widened_bundle_has_the_same_weights_and_keys(tmp_path: Path) -> None:
    widen(BUILT_IN, tmp_path / "wide")
    bundle = open_bundle(tmp_path / "wide", "full")
    assert (bundle.manifest.talker.precision, bundle.manifest.predictor.precision) == ("f32", "f32")
    for name in ("talker.gguf", "predictor.gguf"):
        before, after = gguf.GGUFReader(BUILT_IN / name), gguf.GGUFReader(tmp_path / "wide" / name)
        kinds = {tensor.tensor_type for tensor in before.tensors}
        assert kinds - {gguf.GGMLQuantizationType.F32}
        keys = [
            {key: field.contents() for key, field in file.fields.items() if key != "general.file_type"}
            for file in (before, after)
        ]
        assert keys[0] == keys[1]
        for old, new in zip(before.tensors, after.tensors, strict=True):
            assert (old.name, list(old.shape)) == (new.name, list(new.shape))
            assert new.tensor_type == gguf.GGMLQuantizationType.F32
            np.testing.assert_array_equal(dequantize(old.data, old.tensor_type), new.data)


@pytest.mark.timeout(300)
def test_the_daemon_plays_what_the_decoder_makes_of_its_codes(tmp_path: Path) -> None:
    """By this the sound of two machines is compared whose codes differ here and there."""
    speech = aarch64.speak([sys.executable, str(PROGRAM)], tmp_path, "here")
    manifest = json.loads((BUILT_IN / "manifest.json").read_text())
    frames = len(speech.samples) // manifest["samples_per_frame"]
    assert speech.codes.shape == (frames + manifest["text"]["lead_frames"], manifest["code_groups"])
    again = aarch64.decoded(BUILT_IN, speech.codes)
    assert aarch64.snr(again, speech.samples) >= aarch64.VOICE_FLOOR
    # Another entry of one frame's finest codebook is heard in the figure.
    other = speech.codes.copy()
    other[-3, -1] ^= 1
    assert aarch64.snr(aarch64.decoded(BUILT_IN, other), speech.samples) < aarch64.VOICE_FLOOR
