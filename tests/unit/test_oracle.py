"""What of the oracle works without the official code, and what the committed references cover."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts import official, oracle
from edgettsd_tools.families.qwen3_tts.frontend import FOLDER, GivenIds, TemplateIds, write_frontend
from edgettsd_tools.families.qwen3_tts.oracle_cases import CASES, TASKS, TEXTS, VOICE_CASES
from english_files import small_files

from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.frontends.english.frontend import FILES, EnglishFrontEnd, FrameTokenizer

DATA = Path(__file__).parents[1] / "data" / "oracle"
FOLDERS = ("custom_voice", "voice_design", "base", "projected")


def _committed(*folders: str) -> dict[str, dict[str, object]]:
    metas = [json.loads((DATA / folder / "meta.json").read_text()) for folder in folders]
    return {name: case for meta in metas for name, case in meta["cases"].items()}


def test_every_case_is_committed_as_it_is_defined() -> None:
    assert _committed(*FOLDERS) == {case.name: case.settings() for case in CASES}
    assert _committed("voice") == {case.name: case.settings() for case in VOICE_CASES}
    assert {case.task for case in CASES} == set(TASKS)


@pytest.mark.parametrize("layout", ["streaming", "full"])
@pytest.mark.parametrize(
    "has",
    [
        lambda c: c.voice not in (None, "x-vector"),
        lambda c: c.voice == "x-vector",
        lambda c: c.voice is None and c.task != "voice_design",
        lambda c: c.language not in (None, "Auto"),
        lambda c: c.language in (None, "Auto"),
        lambda c: c.voice in ("eric", "dylan"),
        lambda c: bool(c.instruct) and c.task == "custom_voice",
        lambda c: bool(c.instruct) and c.task == "voice_design",
        lambda c: not c.text.isascii(),
        lambda c: c.text == "",
    ],
)
def test_both_layouts_cover_each_branch_of_the_official_prompt(layout: str, has: object) -> None:
    assert [case.name for case in CASES if case.layout == layout and has(case)]  # type: ignore[operator]


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_codes_are_long_and_varied(folder: str) -> None:
    for file in (DATA / folder).glob("*.npz"):
        if file.stem == "decoder":
            continue
        with np.load(file) as arrays:
            codes = arrays["codes"]
            steps = len(arrays["hidden"])
        assert codes.shape[1] == 16
        assert steps == len(codes) + 1
        # One case ends by itself at once; the others must show that the loop stays exact for long.
        assert len(codes) >= 30 or file.stem == "streaming-early-end"
        assert len(np.unique(codes, axis=0)) > len(codes) * 0.9


def test_the_voices_codes_are_of_all_its_cases_and_varied() -> None:
    files = {file.stem: file for file in (DATA / "voice").glob("*.npz")}
    assert set(files) == {"decoder", *(case.name for case in VOICE_CASES)}
    said = []
    for case in VOICE_CASES:
        with np.load(files[case.name]) as arrays:
            assert len(arrays["hidden"]) == len(arrays["codes"]) + 1
            # A token a frame, and as many more as the lead, unless the limit comes first.
            assert len(arrays["codes"]) >= min(40, len(arrays["ids"]) - 8)
            said.append(arrays["codes"])
    codes = np.concatenate(said)
    assert len(codes) >= 60 and len(np.unique(codes, axis=0)) > len(codes) * 0.7
    with np.load(files["decoder"]) as arrays:
        assert np.array_equal(arrays["codes"], np.resize(codes, arrays["codes"].shape))
        assert np.abs(arrays["pcm"]).max() > 0.05, "the kept frames are silent"


def test_committed_files_stay_small() -> None:
    assert sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file()) < 2_000_000


def test_texts_are_of_many_kinds() -> None:
    references = json.loads((DATA / "custom_voice" / "tokens.json").read_text())
    assert [reference["text"] for reference in references] == list(TEXTS)
    assert all(len(reference["ids"]) >= 8 for reference in references)


@pytest.fixture
def frontend(tmp_path: Path) -> Path:
    """A checkpoint folder with nothing but a front end."""
    (tmp_path / "data").mkdir()
    (tmp_path / "checkpoint").mkdir()
    write_frontend(tmp_path / "checkpoint", small_files(tmp_path / "data"), 4)
    return tmp_path / "checkpoint"


def test_the_front_end_stands_for_the_official_text_processor(frontend: Path) -> None:
    ids = TemplateIds(frontend)
    files = {name: frontend / FOLDER / name for name in FILES}
    wanted = FrameTokenizer(EnglishFrontEnd.load(files)).speech("Hello, world!")
    assert len(wanted) > 12
    assert ids("<|im_start|>assistant\nHello, world!<|im_end|>\n<|im_start|>assistant\n") == wanted
    for other in ("Hello", "<|im_start|>user\nWhisper.<|im_end|>\n"):
        with pytest.raises(ValueError, match="knows only what is to be said"):
            ids(other)
    (frontend / FOLDER / "letters.bin").unlink()
    with pytest.raises(ModelInvalidError, match=r"letters\.bin"):
        TemplateIds(frontend)


def test_given_ids_stand_for_any_text() -> None:
    given = GivenIds(list(range(12)))
    assert given.speech("Hello") == given.speech("") == list(range(12))
    assert given.plain("Hello") == [3, 4, 5, 6]
    with pytest.raises(InvalidOptionError, match="takes no instructions"):
        given.instruction("Whisper.")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--case", "streaming"], "streaming is unknown for custom_voice; known: voice, voice-auto"),
        (["--parts", "tokens"], "allowed are cases, decoder"),
        (["--parts", "decoder"], "given the codes of the cases"),
    ],
)
def test_what_a_checkpoint_with_a_front_end_has_not_is_named(
    arguments: list[str], said: str, frontend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (frontend / "config.json").write_text('{"tts_model_type": "custom_voice"}')
    with pytest.raises(SystemExit) as stopped:
        oracle.main([str(frontend), str(frontend / "out"), *arguments])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    first = oracle.checkpoint_digest(tmp_path)
    (tmp_path / "README.md").write_text("not part of the model")
    assert oracle.checkpoint_digest(tmp_path) == first
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    renamed = oracle.checkpoint_digest(tmp_path)
    (tmp_path / "other.json").write_text("[]")
    assert len({first, renamed, oracle.checkpoint_digest(tmp_path)}) == 3


def test_snr() -> None:
    signal = np.ones(1000, np.float32)
    assert oracle.snr_db(signal, signal) == float("inf")
    assert oracle.snr_db(signal, signal + np.float32(0.01)) == pytest.approx(40.0, abs=1e-3)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["{folder}/nothing", "{folder}/out"], "nothing/config.json does not exist"),
        (["{folder}", "{folder}/out", "--case", "sideways"], "sideways is unknown for base; known: base-"),
        (
            ["{folder}", "{folder}/out", "--parts", "cases,all"],
            "allowed are cases, decoder, tokens, sampling",
        ),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"tts_model_type": "base"}')
    with pytest.raises(SystemExit) as stopped:
        oracle.main([argument.format(folder=tmp_path) for argument in arguments])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("frames, kept", [(1, [0]), (2, [1]), (4, [3]), (40, [3])])
def test_few_frames_are_enough(frames: int, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as --frames allows: the predictor's logits are kept of a frame that there is."""
    zeros = np.zeros((frames, 8), np.float32)
    names = ("ids", "instruct_ids", "prompt", "trailing", "pad_row", "codes", "hidden")
    trace = SimpleNamespace(
        logits=zeros, sub_logits=np.zeros((frames, 15, 8), np.float32), **dict.fromkeys(names, zeros)
    )
    monkeypatch.setattr(official, "generate", lambda *_: trace)
    sizes = SimpleNamespace(talker_config=SimpleNamespace(hidden_size=4))
    model = SimpleNamespace(model=SimpleNamespace(config=sizes))
    case = next(case for case in CASES if case.name in oracle.WITH_SUBS)
    arrays = oracle.run_case(model, case, frames, every_step=False)
    assert arrays["sub_frames"].tolist() == kept and len(arrays["sub_logits"]) == 1


def test_no_frames_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        oracle.main(["CHECKPOINT", "OUT", "--frames", "0"])
    assert "--frames 0: at least 1 is needed" in capsys.readouterr().err
