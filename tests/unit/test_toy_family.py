"""Another family than the built-in ones loads and speaks through the same store, engine, pipe and playout."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_family import GROUPS, LETTERS, NAME, RATE, SPF, ToyFamily, sound, write_bundle

from cython_kernels.fake_sink import FakeSink
from edgettsd import families
from edgettsd.config import Config, ModelConfig
from edgettsd.engine._api import Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine
from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.models.store import open_bundle


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    families.register(ToyFamily())
    yield
    families.unregister(NAME)


def speak(bundle: Path, texts: list[str], **options: Any) -> tuple[FakeSink, list[dict[str, Any]], Engine]:
    """What an engine over the bundle says: its sink, the statistics of each utterance, the engine."""
    config = dataclasses.replace(Config(), model=ModelConfig(path=str(bundle)))
    sink = FakeSink(RATE, speed=20, buffer=1 << 16, capture=1 << 20)
    ended: list[dict[str, Any]] = []

    async def main() -> Engine:
        engine = Engine(config, sink=sink)
        done = asyncio.Event()

        def finished(utterance: int, reason: Reason, stats: Any) -> None:
            ended.append({"reason": reason, **stats})
            done.set()

        engine.subscribe(started=lambda utterance, info: None, finished=finished)
        await engine.start()
        try:
            for text in texts:
                done.clear()
                engine.speak(Request(text, SpeakOptions(**options), "a", None))
                await asyncio.wait_for(done.wait(), 30)
        finally:
            await engine.stop()
        return engine

    engine = asyncio.run(main())
    return sink, ended, engine


def test_it_speaks(tmp_path: Path) -> None:
    sink, ended, engine = speak(write_bundle(tmp_path / "toy"), ["Chirp.", "Again and again."])
    assert (engine.model_name, engine.sample_rate, engine.samples_per_frame) == ("cricket", RATE, SPF)
    assert [entry["reason"] for entry in ended] == [Reason.COMPLETED, Reason.COMPLETED]
    heard = np.frombuffer(sink.heard(), np.int16)
    assert heard.tolist() == np.concatenate([sound(5), sound(13)]).tolist()
    assert ended[0]["audio_seconds"] == 5 * 3 * SPF / RATE


def test_its_own_fields_count(tmp_path: Path) -> None:
    fields = {"letters": len(LETTERS), "frames_per_letter": 7}
    sink, _, _ = speak(write_bundle(tmp_path / "toy", chirps=fields), ["Hi."])
    assert np.frombuffer(sink.heard(), np.int16).tolist() == sound(2, per_letter=7).tolist()


def test_its_own_refusals_come_through(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="a cricket takes no instructions"):
        speak(write_bundle(tmp_path / "toy"), ["Hi."], instruct="slowly")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"chirps": {"letters": 99, "frames_per_letter": 1}},
            r"chirps\.letters is 99; a whole number",
        ),
        ({"chirps": {"letters": 7, "frames_per_letter": 1}}, r"letters\.txt has 26 letters, 7 are needed"),
        ({"chirps": {"letters": 26, "frames_per_letter": 1, "x": 1}}, r"chirps\.x is unknown"),
        ({"talker": {}}, "talker is unknown"),
        ({"sample_rate": 0}, "sample_rate is 0"),
    ],
)
def test_its_manifest_is_checked_like_every_other(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelInvalidError, match=message):
        open_bundle(write_bundle(tmp_path / "toy", **changes))


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "toy")
    (bundle / "letters.txt").write_text(LETTERS[::-1])
    assert open_bundle(bundle).manifest.code_groups == GROUPS
    with pytest.raises(ModelInvalidError, match=r"letters\.txt is damaged"):
        open_bundle(bundle, verify="full")


def test_a_family_is_known_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'toy-chirps' is known already"):
        families.register(ToyFamily())
    assert NAME in families.names()
    bundle = write_bundle(tmp_path / "toy")
    families.unregister(NAME)
    try:
        with pytest.raises(ModelInvalidError, match=r"family is 'toy-chirps'; allowed are qwen3-tts-12hz$"):
            open_bundle(bundle)
    finally:
        families.register(ToyFamily())
