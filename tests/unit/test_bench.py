"""tools/bench: its figures from known records, its floors, and a whole run on a tiny model."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools import bench, bench_machine, bench_run
from edgettsd_tools.families.qwen3_tts import cost
from model_files import bundle

from cython_kernels import pipe as p
from edgettsd.models.store import open_bundle

MS = 1_000_000


def test_timeline_of_known_chunks() -> None:
    """Chunks of 1, 4 and 4 frames ready at 100, 460 and 1000 ms: the third needs the longest wait."""
    records = np.zeros(3, p.STEP_DTYPE)
    records["n"], records["t_ns"], records["wall_ns"] = [1, 4, 4], np.array([70, 400, 940]) * MS, 30 * MS
    records["wall_ns"][1:] = 60 * MS
    found = bench_run.timeline(records, 0, 24000, 1920)
    assert found["first_chunk_ms"] == 100
    assert found["uninterrupted_ms"] == 1000 - 400
    assert found["rtf_streamed"] == round(900 / 640, 4)
    assert found["gap_p95_ms"] == pytest.approx(360 + 0.95 * 180)
    assert bench_run.timeline(records[:0], 0, 24000, 1920) == {}


def test_disturbed_utterances_do_not_count() -> None:
    rows = [{"rtf": 0.7}, {"rtf": 0.8}, {"rtf": 9.0, "disturbed": True}, {"rtf": None}]
    assert bench_run.middle(rows, "rtf") == 0.75
    assert bench_run.middle(rows[2:], "rtf") == 9.0
    assert bench_run.middle([], "rtf") is None


def test_floors_are_bytes_over_bandwidth() -> None:
    manifest = open_bundle(bundle()).manifest
    facts = {"read_gb_s": {"2": 10.0}, "sgemm_gflop_s": {"2": 100.0}}
    empty = cost.floors(manifest, facts, 2, 0)
    full = cost.floors(manifest, facts, 2, 100_000)
    t = manifest.talker
    cache = 100_000 * 2 * t.layers * t.kv_heads * t.head_dim * 2 / 10e9 * 1e3
    assert full["talker"] - empty["talker"] == pytest.approx(cache, abs=0.02)
    assert empty["decoder"] == 49.6


def test_the_probes_measure_something() -> None:
    assert 0.1 < bench_machine.read_rate(1, 0.1) < 10_000
    assert 0.1 < bench_machine.sgemm_rate(1) < 100_000


def test_a_whole_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BUILD", tmp_path / "build")
    out = tmp_path / "bench.json"
    arguments = [
        "--bundle",
        str(bundle()),
        "--threads",
        "1,1",
        "--schedule",
        "ramp:1,4",
        "--text",
        "One two.",
    ]
    arguments += [
        "--seconds",
        "0.8",
        "--repeats",
        "2",
        "--played",
        "1",
        "--context",
        "20",
        "--min-frames",
        "8",
        "--context-size",
        "256",
        "--json",
        str(out),
    ]
    assert bench.main(arguments) == 0
    result = json.loads(out.read_text())
    runs = result["engine"]["runs"]
    assert len(runs) == 2
    for run in runs:
        shares = dict(run["attribution"])
        wall = shares.pop("wall")
        assert sum(shares.values()) == pytest.approx(wall, abs=0.01)
        assert run["rtf"] > 0 and run["first_chunk_ms"] > 0
        # The model's own end comes later: after 8 frames, or with the 10 that were asked for.
        assert 8 <= run["frames"] <= 10
    assert len(result["engine"]["frame_by_quarter"]) == 4
    assert list(bench.BUILD.iterdir()) == []
    steps = result["engine"]["steps"]
    assert {"talker", "predictor", "sampling", "prefill"} <= steps.keys()
    assert set(steps["decoder"]) <= {"1", "4"}
    assert result["played"][0]["ttfa_ms"] > 0 and result["talker_at"]["20"]["count"] == 20
    printed = capsys.readouterr().out
    assert "decoder 1" in printed and "rtf_streamed" in printed


@pytest.mark.parametrize("linked", [True, False], ids=["links", "copies"])
def test_an_endless_bundle_is_one_and_is_gone_afterwards(
    linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BUILD", tmp_path / "build")

    def other_file_system(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if not linked:
        monkeypatch.setattr(bench.os, "link", other_file_system)
    with bench.endless(bundle(), 77) as out:
        assert open_bundle(out, "full").manifest.raw["sampling"]["min_new_tokens"] == 77
        assert (out / "talker.gguf").samefile(bundle() / "talker.gguf") == linked
        assert (out / "decoder.tflite").stat().st_mtime_ns == (bundle() / "decoder.tflite").stat().st_mtime_ns
    assert not out.exists()
    assert open_bundle(bundle()).manifest.raw["sampling"]["min_new_tokens"] != 77


def test_another_engine_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import sys, wave\n"
        "w = wave.open(sys.argv[2], 'wb'); w.setnchannels(1); w.setsampwidth(2); w.setframerate(24000)\n"
        "w.writeframes(bytes(4800 * len(sys.argv[1]))); w.close()\n"
    )
    arguments = ["--bundle", str(bundle()), "--repeats", "2", "--seconds", "0.4", "--context", "0"]
    arguments += ["--vs", f"{sys.executable} {script} {{text}} {{out}}", "--json", str(tmp_path / "b.json")]
    assert bench.main([*arguments, "--text", "One two."]) == 0
    runs = json.loads((tmp_path / "b.json").read_text())["runs"]
    assert [r["audio_s"] for r in runs["other"]] == [0.8, 0.8]
    assert len(runs["edgettsd"]) == 2
    assert "other" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--threads", "2"], "two numbers expected, such as 1,1"),
        (["--cpus", "0"], "two CPU sets expected"),
        (["--schedule", "stairs:1"], "KIND:CHUNKS expected"),
    ],
)
def test_wrong_options_say_what_is_allowed(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        bench.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
