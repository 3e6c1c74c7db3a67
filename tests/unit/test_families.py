"""A bundle's family is looked up by the manifest's word, and nothing of another family is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import model_files
import numpy as np
import pytest

from edgettsd import families
from edgettsd.config import Config
from edgettsd.engine._api import SpeakOptions
from edgettsd.engine.bundle_parts import BundleParts
from edgettsd.errors import ModelInvalidError
from edgettsd.models import default
from edgettsd.models.store import open_bundle


def _imported(code: str) -> set[str]:
    """Modules that a fresh interpreter has imported after running `code`."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(chr(10).join(sys.modules))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    return set(done.stdout.split())


def _load(bundle: Path) -> str:
    return (
        "import edgettsd.daemon, edgettsd.engine.engine\n"
        "from edgettsd.config import Config\n"
        "from edgettsd.engine.bundle_parts import BundleParts\n"
        f"config = Config().updated({{'model': {{'path': {str(bundle)!r}}}}}, 'test')\n"
        "parts = BundleParts.load(config)\n"
    )


def test_an_unknown_family_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    bundle = model_files.copy(model_files.bundle(), tmp_path / "bundle")
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["family"] = "someone-elses-tts"
    model_files.replace(bundle / "manifest.json", json.dumps(manifest).encode())
    with pytest.raises(ModelInvalidError) as caught:
        open_bundle(bundle)
    assert "family is 'someone-elses-tts'; allowed are " in str(caught.value)
    for name in families.names():
        assert name in str(caught.value)


@pytest.mark.parametrize("module", ["edgettsd.daemon", "edgettsd.models.store", "edgettsd.engine.engine"])
def test_no_family_is_imported_before_a_bundle_names_it(module: str) -> None:
    imported = _imported(f"import {module}")
    assert module in imported
    assert {name for name in imported if name.startswith(("edgettsd.families.", "edgettsd.frontends"))} <= {
        "edgettsd.families.plan"
    }


def test_a_bundle_with_a_tokenizer_does_not_import_the_english_front_end() -> None:
    imported = _imported(_load(model_files.bundle()))
    assert "edgettsd.families.qwen3_tts.parts" in imported
    assert {name for name in imported if name.startswith("edgettsd.frontends.english")} == set()


def test_the_built_in_voice_imports_its_front_end() -> None:
    assert "edgettsd.frontends.english.frontend" in _imported(_load(default.BUILT_IN))


@pytest.mark.parametrize(
    "bundle", [lambda: default.BUILT_IN, model_files.bundle], ids=["built-in", "converted"]
)
def test_a_bundle_that_knows_of_no_frame_plan_has_the_familys(bundle: Callable[[], Path]) -> None:
    """Their manifests speak of codebooks and an end only: the talker's code with the end, then the others."""
    raw = json.loads((bundle() / "manifest.json").read_text())
    assert raw["family"] == "qwen3-tts-12hz" and "plan" not in raw
    parts = BundleParts.load(Config().updated({"model": {"path": str(bundle())}}, "test"))
    groups, end = raw["code_groups"], raw["codec_tokens"]["eos"]
    first, *others = parts.plan.steps
    assert (first.kind, first.source, first.codebook, first.end) == ("code", "talker", 0, end)
    assert [(s.kind, s.source, s.codebook, s.row, s.end) for s in others] == [
        ("code", "local", group, group - 1, -1) for group in range(1, groups)
    ]
    assert [first.sampler, *(step.sampler for step in others)] == [0, *[1] * (groups - 1)]
    segment = parts.segment("Hello.", SpeakOptions())
    assert len(segment.samplers) == 2 and segment.max_frames == raw["sampling"]["max_frames"]
    assert segment.min_frames == raw["sampling"]["min_new_tokens"]
    (mask,) = segment.banned
    suppressed = {code for low, high in raw["sampling"]["suppress"] for code in range(low, high)} - {end}
    assert set(np.flatnonzero(mask).tolist()) == suppressed
    parts.close()
