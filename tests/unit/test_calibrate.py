"""Calibration: which splits are measured, which is chosen, what is kept, and when it is not believed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hw_boards import board as probed
from lane_rig import Idle
from model_files import bundle

from cython_kernels._libs import library_versions
from edgettsd.config import Config
from edgettsd.engine._api import State
from edgettsd.hw import Profile, calibration, load_profile
from edgettsd.hw.calibration import Calibration, Split
from edgettsd.lanes import Lane
from edgettsd.supervisor import Supervisor
from edgettsd.tuning import background, calibrate
from edgettsd.tuning.calibrate import BusyError


def board(name: str) -> Profile:
    with tempfile.TemporaryDirectory() as root:
        return probed(name, Path(root))


ONE = Split(1, 1, (0,), (1,))
BOTH = Split(2, 2, (0, 1), (0, 1))


def fixed(rates: dict[tuple[int, int], float], foreign: float = 0.0) -> calibrate.Run:
    """An engine whose pace depends on the threads; runs alternate a little around it."""

    async def run(config: Config, seconds: float, runs: int) -> list[tuple[float, dict[str, float], float]]:
        engine = config.engine
        assert engine.cpus_generator and engine.cpus_decoder
        rate = rates.get((engine.threads_generator, engine.threads_decoder), 9.0)
        return [(rate + 0.01 * (n - 1), {"talker": 16.0}, foreign) for n in range(runs)]

    return run


def measured(rates: dict[tuple[int, int], float], config: Config | None = None, **more: Any) -> Calibration:
    return asyncio.run(calibrate.measure(board("pi5"), config or Config(), fixed(rates, **more)))


def test_the_fastest_split_is_chosen() -> None:
    result = measured({(2, 2): 0.9, (1, 3): 1.4, (3, 1): 0.7, (4, 4): 0.8})
    assert (result.best.split.threads_generator, result.best.split.threads_decoder) == (3, 1)
    assert result.best.rate == pytest.approx(0.7)
    assert not set(result.best.split.cpus_generator) & set(result.best.split.cpus_decoder)
    lines = list(calibrate.table(result))
    assert len(lines) == 1 + len(result.all) and sum("*" in line for line in lines) == 1


def test_the_planned_split_stays_unless_another_is_clearly_faster() -> None:
    result = measured({(2, 2): 0.80, (3, 1): 0.79})
    assert (result.best.split.threads_generator, result.best.split.threads_decoder) == (2, 2)


def test_configured_threads_are_measured_and_not_replaced() -> None:
    config = Config()
    config = dataclasses.replace(config, engine=dataclasses.replace(config.engine, threads_generator=1))
    result = measured({(1, 3): 0.5}, config)
    assert len(result.all) == 1 and result.best.split.threads_generator == 1


def test_a_loaded_machine_is_not_believed() -> None:
    with pytest.raises(BusyError, match="other processes take 40% of the CPUs; at most 10%"):
        measured({(2, 2): 0.9}, foreign=0.4)


def test_one_disturbed_run_is_left_out() -> None:
    runs = [(0.7, {"talker": 16.0}, 0.0), (2.5, {"talker": 60.0}, 0.5), (0.72, {"talker": 17.0}, 0.05)]
    assert calibrate._median(ONE, runs).rate == pytest.approx(0.72)


def test_no_candidate_is_begun_after_the_time() -> None:
    result = asyncio.run(calibrate.measure(board("pi5"), Config(), fixed({}), budget=-1.0))
    assert len(result.all) == 1


def model(path: Path) -> Config:
    config = Config()
    return dataclasses.replace(config, model=dataclasses.replace(config.model, path=str(path)))


def manifest(folder: Path, text: str) -> Config:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(text)
    return model(folder)


def test_the_fingerprint_names_machine_model_and_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, profile = manifest(tmp_path / "a", "{}"), board("pi5")
    key = calibration.fingerprint(profile, config)
    assert key == calibration.fingerprint(profile, config)
    other_threads = dataclasses.replace(config, engine=dataclasses.replace(config.engine, threads_decoder=2))
    engines = (
        {"decoder_accelerator": "gpu"},
        {"decoder_library": "/opt/libLiteRtGpuAccelerator.so"},
        {"n_gpu_layers": 3},
        {"context": 1024},
    )
    others = {
        calibration.fingerprint(board("pi4"), config),
        calibration.fingerprint(profile, manifest(tmp_path / "b", '{"x": 1}')),
        calibration.fingerprint(profile, other_threads),
        calibration.fingerprint(dataclasses.replace(profile, allowed=(0, 1)), config),
        *(
            calibration.fingerprint(
                profile, dataclasses.replace(config, engine=dataclasses.replace(config.engine, **changed))
            )
            for changed in engines
        ),
    }
    monkeypatch.setattr(calibration, "library_versions", lambda: {"llama-cpp-python": "9.9"})
    others.add(calibration.fingerprint(profile, config))
    assert len(others | {key}) == 10


def test_the_libraries_that_compute_are_told_by_version() -> None:
    versions = library_versions()
    assert any("llama" in name for name in versions) and any("litert" in name.lower() for name in versions)
    assert all(versions.values())


def test_calibrations_are_kept_and_damaged_ones_ignored(tmp_path: Path) -> None:
    result = Calibration(calibration.Measured(BOTH, 0.7, {"talker": 16.0}), ())
    assert calibration.load(tmp_path, "k0") is None
    for number in range(calibration.KEEP + 2):
        calibration.save(tmp_path, f"k{number}", result)
    assert calibration.load(tmp_path, "k9") == result
    assert calibration.load(tmp_path, "k0") is None
    assert [path.name for path in tmp_path.iterdir()] == [calibration.FILE]
    for damage in ('{"threads_generator": 0}', '{"cpus_decoder": []}', '{"threads_decoder": "2"}'):
        table = json.loads((tmp_path / calibration.FILE).read_text())
        table["calibrations"]["k9"]["best"]["split"] |= json.loads(damage)
        (tmp_path / calibration.FILE).write_text(json.dumps(table))
        assert calibration.load(tmp_path, "k9") is None
        calibration.save(tmp_path, "k9", result)
    (tmp_path / calibration.FILE).write_text("{")
    assert calibration.load(tmp_path, "k9") is None
    calibration.save(tmp_path, "k9", result)
    assert calibration.load(tmp_path, "k9") == result


def test_a_split_for_cpus_that_are_not_allowed_is_not_used(tmp_path: Path) -> None:
    config, profile = manifest(tmp_path / "a", "{}"), board("pi5")
    key = calibration.fingerprint(profile, config)
    calibration.save(tmp_path, key, Calibration(calibration.Measured(Split(1, 1, (0,), (4000,)), 0.7), ()))
    assert calibration.known(profile, config, tmp_path) is None
    calibration.save(tmp_path, key, Calibration(calibration.Measured(Split(1, 1, (0,), (0,)), 0.7), ()))
    assert calibration.known(profile, config, tmp_path) is not None
    assert calibration.known(profile, model(tmp_path / "none"), tmp_path) is None


def test_a_calibration_is_found_by_a_thread_that_keeps_to_one_cpu(tmp_path: Path) -> None:
    """The daemon's loop is kept off the CPUs that compute before it asks whether there is a calibration."""
    config, profile = manifest(tmp_path / "a", "{}"), board("pi5")
    everywhere = os.sched_getaffinity(0)
    first, last = min(everywhere), max(everywhere)
    assert first != last, "this test needs two CPUs"
    key = calibration.fingerprint(profile, config)
    calibration.save(
        tmp_path, key, Calibration(calibration.Measured(Split(1, 1, (first,), (last,)), 0.7), ())
    )
    os.sched_setaffinity(0, {last})
    try:
        assert calibration.known(profile, config, tmp_path) is not None
    finally:
        os.sched_setaffinity(0, everywhere)


def test_the_real_engine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    split = calibrate.planned(calibrate.adapt(load_profile(), Config()))
    runs = asyncio.run(calibrate.run_engine(split.applied(model(bundle())), 0.4, 2))
    assert len(runs) == 2
    for rate, stages, foreign in runs:
        assert rate > 0 and 0 <= foreign <= 1
        assert {"talker", "predictor", "decoder_1"} <= stages.keys() and min(stages.values()) > 0


def child(tmp_path: Path, *statuses: int, seconds: float = 0.0) -> list[str]:
    """A command that ends with the given statuses in turn, and notes each run in runs.txt."""
    script = (
        "import sys, time; from pathlib import Path; f = Path(sys.argv[1]);"
        "s = f.read_text() if f.exists() else '';"
        f"f.write_text(s + 'x'); time.sleep({seconds}); sys.exit({list(statuses)}[len(s)])"
    )
    return [sys.executable, "-c", script, str(tmp_path / "runs.txt")]


def runs(tmp_path: Path) -> int:
    file = tmp_path / "runs.txt"
    return len(file.read_text()) if file.exists() else 0


def quickly(command: list[str], engine: Idle, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
    async def main() -> None:
        supervisor = Supervisor()
        lane = Lane("calibration", engine, supervisor)  # type: ignore[arg-type]
        work = background.calibrate_when_idle(lane, command, wait=0.05, retry=0.01)
        task = supervisor.spawn("calibration", work)
        if meanwhile is not None:
            await meanwhile()
        await asyncio.wait_for(task, 30)
        await supervisor.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("statuses", "count"), [((0,), 1), ((3,), 1), ((6, 0), 2), ((6, 6, 6), background.ATTEMPTS)]
)
def test_in_the_background_it_is_tried_until_the_machine_is_calm(
    tmp_path: Path, statuses: tuple[int, ...], count: int
) -> None:
    quickly(child(tmp_path, *statuses), Idle())
    assert runs(tmp_path) == count


def test_speech_comes_first(tmp_path: Path) -> None:
    """Speaking begins while it runs: it is ended at once, and begun again when all is quiet."""
    engine = Idle()

    async def speak() -> None:
        while runs(tmp_path) == 0:
            await asyncio.sleep(0.01)
        engine.become(State.SPEAKING)
        await asyncio.sleep(0.3)
        assert runs(tmp_path) == 1
        engine.become(State.IDLE)

    command = child(tmp_path, 1, 0, seconds=0.0)
    command[2] = command[2].replace("time.sleep(0.0)", "time.sleep(60 if not s else 0)")
    quickly(command, engine, speak)
    assert runs(tmp_path) == 2
