"""The configuration file: defaults, files, refusals by name, and the sample."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from edgettsd import config
from edgettsd.config import Config, ConfigError, load, parse_cpus

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "systemd" / "edgettsd.toml"


def write(tmp_path: Path, text: str, name: str = "edgettsd.toml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_empty_file_means_defaults(tmp_path):
    assert load(write(tmp_path, "")) == Config()


def test_values_reach_their_fields(tmp_path):
    loaded = load(
        write(
            tmp_path,
            """
        [bus]
        bus = "session"
        [engine]
        queue_limit = 3
        max_seconds = 12
        cpus_generator = "0-1, 3"
        chunks = [1, 4, 8]
        schedule = "ramp"
        [audio]
        sink = "file"
        device = "/tmp/x.wav"
        [log]
        level = "debug"
    """,
        )
    )
    assert loaded.bus.bus == "session" and loaded.log.level == "debug"
    assert loaded.engine.queue_limit == 3 and loaded.engine.cpus_generator == (0, 1, 3)
    assert loaded.engine.max_seconds == 12.0 and isinstance(loaded.engine.max_seconds, float)
    assert loaded.engine.chunks == (1, 4, 8) and loaded.audio.device == "/tmp/x.wav"
    assert loaded.model == Config().model


def test_drop_ins_are_read_in_order_of_name_and_win(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "DEFAULT_PATH", tmp_path / "edgettsd.toml")
    assert load() == Config()
    write(tmp_path, "[engine]\nqueue_limit = 1\nclient_limit = 7\n")
    write(tmp_path, "[engine]\nqueue_limit = 3\n", "edgettsd.toml.d/20-b.toml")
    write(tmp_path, "[engine]\nqueue_limit = 2\n", "edgettsd.toml.d/10-a.toml")
    write(tmp_path, "nonsense", "edgettsd.toml.d/30-c.conf")
    loaded = load()
    assert loaded.engine.queue_limit == 3 and loaded.engine.client_limit == 7


def test_a_named_file_must_exist_and_ignores_drop_ins(tmp_path):
    with pytest.raises(ConfigError, match=r"edgettsd\.toml: No such file"):
        load(tmp_path / "edgettsd.toml")
    write(tmp_path, "[nonsense]", "edgettsd.toml.d/10.toml")
    assert load(write(tmp_path, "")) == Config()


@pytest.mark.parametrize(
    "text, message",
    [
        ("[engine]\nqueue = 1", r"\[engine\] queue: unknown key; allowed: queue_limit, client_limit"),
        (
            "[sound]\nx = 1",
            r"unknown section \[sound\]; allowed: bus, model, engine, delivery, voice, audio, log",
        ),
        ("engine = 3", r"engine must be a section \[engine\]"),
        ("[engine]\nqueue_limit = 0", r"queue_limit = 0: must be a whole number from 1 to 4096"),
        ("[engine]\nqueue_limit = 1.0", r"queue_limit = 1.0: must be a whole number from 1 to 4096"),
        ("[engine]\nqueue_limit = true", r"queue_limit = True: must be a whole number"),
        ('[engine]\nqueue_limit = "1"', r"queue_limit = '1': must be a whole number"),
        ("[engine]\nmax_seconds = nan", r"max_seconds = nan: must be a number above 0 to 86400"),
        ("[engine]\nmax_seconds = inf", r"max_seconds = inf: must be a number above 0"),
        ("[engine]\nmax_seconds = 0", r"max_seconds = 0: must be a number above 0"),
        ("[engine]\nmax_seconds = false", r"max_seconds = False: must be a number"),
        (
            '[engine]\nschedule = "fast"',
            r"schedule = 'fast': must be one of \"\", fixed, ramp, adaptive",
        ),
        ("[engine]\nchunks = [1, 0]", r"chunks = \[1, 0\]: must be a list of whole numbers from 1 to 32"),
        ("[engine]\nchunks = 4", r"chunks = 4: must be a list of whole numbers"),
        ("[engine]\nchunks = [1, true]", r"must be a list of whole numbers"),
        (
            '[engine]\ncpus_decoder = "a"',
            r"cpus_decoder = 'a': must be CPUs such as .0-1,3., but 'a' is not a CPU",
        ),
        ("[engine]\ncpus_decoder = [1]", r"must be a text such as"),
        ("[audio]\ndevice = 1", r"device = 1: must be a text"),
        ('[audio]\ndevice = "a\\u0000b"', r"must be a text without NUL"),
        ("[audio]\nperiod_ms = 60", r"buffer_ms = 100 must be at least two periods \(2 x 60 ms\)"),
        ("[bus", r"not valid TOML"),
    ],
)
def test_refusals_name_file_key_value_and_what_is_allowed(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "edgettsd.toml"
    path.write_bytes(b"[bus]\nbus = '\xff'\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(path)


@pytest.mark.parametrize(
    "text, cpus",
    [
        ("", ()),
        ("3", (3,)),
        ("0-2", (0, 1, 2)),
        ("0-1,3", (0, 1, 3)),
        ("3,0-1,1", (0, 1, 3)),
        (" 2 , 1 ", (1, 2)),
    ],
)
def test_cpu_lists(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["-1", "2-1", "1-", "a", "1;2", "99999", "1--2", "٣"])
def test_bad_cpu_lists(text):
    with pytest.raises(ValueError, match="is not a CPU"):
        parse_cpus(text)


def test_the_sample_is_current_and_shows_the_defaults():
    text = SAMPLE.read_text()
    assert text == config.sample(), "regenerate it: python -m edgettsd.config > systemd/edgettsd.toml"
    tables = tomllib.loads(re.sub(r"(?m)^#(?=\w+ = )", "", text))
    assert {s: set(t) for s, t in tables.items()} == {
        s.name: {k.name for k in dataclasses.fields(s.default_factory)} for s in dataclasses.fields(Config)
    }
    start = Config().updated({"engine": {"queue_limit": 1}, "audio": {"sink": "fake"}}, "test")
    assert start.updated(tables, "sample") == Config()
    assert Config().updated(tomllib.loads(text), "sample as shipped") == Config()


def test_a_key_that_has_moved_is_still_read_at_its_old_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load(write(tmp_path, "[engine]\nreader_seconds = 3\nqueue_limit = 5\n"))
    assert (loaded.delivery.reader_seconds, loaded.engine.queue_limit) == (3.0, 5)
    assert "[engine] reader_seconds is now [delivery] reader_seconds" in caplog.text
    # Where both are given the new place wins.
    both = load(write(tmp_path, "[engine]\nreader_seconds = 3\n[delivery]\nreader_seconds = 4\n"))
    assert both.delivery.reader_seconds == 4.0
    with pytest.raises(ConfigError, match=r"\[delivery\] reader_seconds = -1"):
        load(write(tmp_path, "[engine]\nreader_seconds = -1\n"))
