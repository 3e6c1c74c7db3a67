"""A bundle with the English front end: its manifest, its files, and sentences of known length."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts.parity import build_prompt, open_parts
from engine_rig import SPF, Rig, drive, expected_pcm, with_config
from english_files import small_files

from cython_kernels.fake_sink import FakeSink
from edgettsd.config import Config, ModelConfig
from edgettsd.engine._api import Reason, SpeakOptions
from edgettsd.engine.bundle_parts import BundleParts
from edgettsd.engine.parts import FakeParts
from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.families.qwen3_tts.frontends import FRAMES
from edgettsd.families.qwen3_tts.manifest import bundle_files
from edgettsd.frontends.english.frames import SPECIAL_IDS, VOCAB
from edgettsd.frontends.english.frontend import EnglishFrontEnd
from edgettsd.models.manifest import parse_manifest
from edgettsd.models.store import open_bundle

LEAD = 4


def timed_bundle(folder: Path) -> Path:
    """The tiny random bundle with the English front end in the place of its tokenizer."""
    model_files.copy(model_files.bundle(), folder)
    (folder / "tokenizer.gguf").unlink()
    small_files(folder)

    def cut(tensors: dict[str, Any]) -> None:
        tensors["text"] = tensors["text"][:VOCAB]

    dtype = json.loads((folder / "manifest.json").read_text())["embeddings"]["dtype"].upper()
    model_files.edit_safetensors(folder / "embeddings.safetensors", cut, dtype)

    def change(manifest: dict[str, Any]) -> None:
        manifest["text"] = {"frontend": FRAMES, "vocab": VOCAB, "lead_frames": LEAD}
        manifest["tokens"] = {name: SPECIAL_IDS[name] for name in manifest["tokens"]}
        manifest["files"] = {name: {"size": 1, "sha256": "0" * 64} for name in bundle_files(FRAMES)}

    model_files.edit_json(folder / "manifest.json", change)
    model_files.restate(folder)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return timed_bundle(tmp_path_factory.mktemp("timed") / "bundle")


@pytest.fixture(scope="module")
def parts(bundle: Path) -> BundleParts:
    return BundleParts.load(dataclasses.replace(Config(), model=ModelConfig(path=str(bundle))))


def test_it_opens(bundle: Path) -> None:
    opened = open_bundle(bundle, "full")
    assert set(opened.files) == set(bundle_files(FRAMES))
    assert opened.manifest.text_frontend == FRAMES and opened.manifest.lead_frames == LEAD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["text"].pop("lead_frames"), r"text\.lead_frames is missing"),
        (lambda m: m["text"].update(lead_frames=65), r"text\.lead_frames is 65"),
        (lambda m: m["text"].update(lead_frames=-1), r"text\.lead_frames is -1"),
        (lambda m: m["text"].update(lead_frames="4"), r"text\.lead_frames is '4'"),
        (lambda m: m["text"].update(vocab=VOCAB + 1), f"has {VOCAB} ids"),
        (lambda m: m["text"].update(frontend="fr-frames"), "allowed are qwen2-bpe, en-frames"),
        (lambda m: m["text"].update(frontend="qwen2-bpe"), "lead_frames is unknown"),
        (lambda m: m["tokens"].update(tts_eos=7), r"tokens\.tts_eos is 7"),
        (lambda m: m.update(layout="full"), "layout is 'full'"),
        (lambda m: m["files"].pop("letters.bin"), r"letters\.bin is missing"),
        (lambda m: m["files"].update({"tokenizer.gguf": m["files"]["letters.bin"]}), "this name is unknown"),
    ],
)
def test_bad_manifests_are_refused(
    bundle: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    value = json.loads((bundle / "manifest.json").read_text())
    change(value)
    with pytest.raises(ModelInvalidError, match=message):
        parse_manifest(json.dumps(value).encode())


@pytest.mark.parametrize("name", ["lexicon.bin", "letters.bin", "durations.bin"])
def test_bad_files_are_refused(tmp_path: Path, bundle: Path, name: str) -> None:
    folder = model_files.copy(bundle, tmp_path / "bundle")
    (folder / name).unlink()
    with pytest.raises(ModelInvalidError, match=f"{name} is missing"):
        open_bundle(folder)
    (folder / name).write_bytes(b"\0" * 256)
    model_files.restate(folder)
    with pytest.raises(ModelInvalidError, match=name):
        open_bundle(folder)


@pytest.mark.parametrize("text", ["Hello, world!", "yes", "東京"])
@pytest.mark.parametrize("layout", ["", "full"])
def test_a_segment_has_a_row_for_every_frame(bundle: Path, text: str, layout: str) -> None:
    config = dataclasses.replace(with_config(layout=layout), model=ModelConfig(path=str(bundle)))
    loaded = BundleParts.load(config)
    segment = loaded.segment(text, SpeakOptions())
    tokens = EnglishFrontEnd.load(open_bundle(bundle).files).tokens(text)
    assert len(segment.trailing) == len(tokens)
    assert segment.drop_frames == LEAD and segment.end_frames == len(tokens) + LEAD
    with loaded._bundle.open_embeddings() as tables:
        rows = np.array(tables["text"], np.float32)
        codec = np.array(tables["codec.0"], np.float32)
    codec_tokens = loaded._bundle.manifest.codec_tokens
    assert np.array_equal(segment.trailing[:-1], rows[tokens[1:]])
    assert np.array_equal(segment.trailing[-1], rows[SPECIAL_IDS["tts_eos"]])
    assert np.array_equal(segment.pad_row, rows[SPECIAL_IDS["tts_pad"]])
    assert np.array_equal(segment.prompt[-1], rows[tokens[0]] + codec[codec_tokens["bos"]])
    role = rows[[SPECIAL_IDS[name] for name in ("im_start", "assistant", "newline")]]
    assert np.array_equal(segment.prompt[:3], role)


def test_other_bundles_end_at_eos() -> None:
    config = dataclasses.replace(Config(), model=ModelConfig(path=str(model_files.bundle())))
    loaded = BundleParts.load(config)
    segment = loaded.segment("Hello", SpeakOptions())
    assert segment.end_frames == segment.drop_frames == 0
    assert loaded.frames("Hello", SpeakOptions()) == 0


@pytest.mark.parametrize("text", ["Hello, world!", "yes", "東京", "Good morning, it is five thirty."])
@pytest.mark.parametrize("rate", [None, 0.5, 1.0, 1.3, 2.0])
def test_the_length_is_known_before(parts: BundleParts, text: str, rate: float | None) -> None:
    options = SpeakOptions(rate=rate)
    segment = parts.segment(text, options)
    assert parts.frames(text, options) == segment.end_frames - segment.drop_frames


def test_parity_opens_it(bundle: Path, parts: BundleParts) -> None:
    """With the same prompt as the engine's."""
    opened = open_parts(bundle)
    case = {"text": "Hello, world!", "voice": None, "language": None, "instruct": None, "layout": "streaming"}
    prompt = build_prompt(opened, case | {"voice": parts.info.voices[0].id}, {})
    segment = parts.segment("Hello, world!", SpeakOptions(language="auto"))
    assert np.array_equal(prompt.prompt, segment.prompt)
    assert np.array_equal(prompt.trailing, segment.trailing)


def test_the_rate_scales_lengths(bundle: Path, parts: BundleParts) -> None:
    text = "Good morning, the door is open, it is five thirty, yes."
    frames = {rate: parts.frames(text, SpeakOptions(rate=rate)) for rate in (0.5, 0.7, 1.0, 1.5, 2.0)}
    assert list(frames.values()) == sorted(frames.values(), reverse=True)
    assert frames[0.5] == pytest.approx(2 * frames[1.0], rel=0.05)
    # Nothing is shorter than a slot.
    assert 0.5 * frames[1.0] <= frames[2.0] < 0.75 * frames[1.0]
    assert frames[1.0] == parts.frames(text, SpeakOptions())
    config = dataclasses.replace(Config(), model=ModelConfig(path=str(bundle))).updated(
        {"voice": {"rate": 0.7}}, "test"
    )
    slow = BundleParts.load(config)
    assert slow.frames(text, SpeakOptions()) == frames[0.7]
    assert slow.frames(text, SpeakOptions(rate=1.0)) == frames[1.0], "what a caller says wins"


def test_a_model_with_a_speed_of_its_own_refuses_a_rate() -> None:
    config = dataclasses.replace(Config(), model=ModelConfig(path=str(model_files.bundle())))
    loaded = BundleParts.load(config)
    loaded.check(SpeakOptions(rate=1.0))
    with pytest.raises(InvalidOptionError, match=r"rate = 1\.5: model .* has a speed of its own; allowed: 1"):
        loaded.check(SpeakOptions(rate=1.5))
    with pytest.raises(InvalidOptionError, match=r"rate = 0\.8: "):
        BundleParts.load(config.updated({"voice": {"rate": 0.8}}, "test"))


# The frame loop


def heard(sink: FakeSink) -> int:
    return len(sink.heard()) // 2 // SPF


@pytest.mark.parametrize("eos_after", [0, 3, 20, -1])
@pytest.mark.parametrize("drop", [0, 4])
def test_an_utterance_has_exactly_its_frames(eos_after: int, drop: int) -> None:
    """Whatever the model says of its end."""

    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello.")
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 20

    rig = drive(test, parts=FakeParts(eos_after=eos_after, end_frames=20, drop_frames=drop))
    assert heard(rig.sink) == 20 - drop


def test_the_frames_are_those_without_an_end() -> None:
    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say("Hello.")) is Reason.COMPLETED

    rig = drive(test, parts=FakeParts(eos_after=-1, end_frames=20))
    assert rig.sink.heard()[: 2 * 20 * SPF] == expected_pcm(20)


def test_repeated_codes_are_no_runaway_when_the_length_is_known() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello.")
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 120

    drive(test, parts=FakeParts(eos_after=-1, script=[100, 200], period=1, end_frames=120))


def test_the_estimate_does_not_cut_a_known_length() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("$1.")
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 300

    drive(test, parts=FakeParts(eos_after=-1, end_frames=300))


def test_a_limit_still_ends_a_known_length() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello.", max_seconds=1.0)
        assert await rig.ended(utterance) is Reason.LIMIT
        assert rig.stats[utterance]["frames"] <= 13

    drive(test, parts=FakeParts(eos_after=-1, end_frames=300))


def test_a_negative_length_is_refused() -> None:
    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say("Hello.")) is Reason.ERROR

    drive(test, parts=FakeParts(eos_after=-1, end_frames=-1))
