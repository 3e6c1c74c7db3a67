"""The built-in voice's decoder and predictor in closed form, in the evaluation environment's PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts.decoder import build_decoder
from edgettsd_tools.families.qwen3_tts.decoder.check import decode, snr_db
from plugin_environment import EVAL

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.official_code
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np, torch
from edgettsd_tools.voice import codec, decoder, features, vocoder
from edgettsd_tools.voice.export import predictor_tensors
from edgettsd_tools.voice.talker_net import Model, Sizes

torch.set_num_threads(1)
out = Path(sys.argv[1])
rng = np.random.default_rng(5)
frames = 900
# Envelopes that move slowly, pitch that wanders over all counts, voiced and unvoiced stretches.
time = np.arange(frames * features.SUB)
knots = rng.normal(size=(len(time) // 6 + 2, features.WIDTH))
smooth = np.stack([np.interp(time / 6, np.arange(len(knots)), k) for k in knots.T], 1)
fine = np.zeros((len(time), features.WIDTH))
tilt = np.linspace(-1.0, -4.0, features.BANDS)
fine[:, :features.BANDS] = tilt + 0.8 * smooth[:, :features.BANDS]
fine[:, features.BANDS] = (np.log(90 + 14 * np.sin(time / 60)) - features.PITCH_MEAN) * features.PITCH_WEIGHT
fine[:, features.BANDS + 1] = np.where(np.sin(time / 25) > -0.5, 0.5, -0.5) * features.VOICING_WEIGHT
rows = fine.astype(np.float32).reshape(frames, -1)
made = codec.fit(rows, 5, 64, 64)
codes = made.encode(made.project(rows))
model = decoder.make(made, codes)
np.savez(out / "decoder.npz", **{k: v.numpy() for k, v in model.state_dict().items()})
(out / "config.json").write_text(json.dumps(model.config))
np.save(out / "codes.npy", codes)
np.save(out / "torch.npy", model(torch.from_numpy(codes.T.copy())[None])[0].detach().clamp(-1, 1).numpy())
np.save(out / "in_time.npy", decoder.decode(model, codes))
np.save(out / "numpy.npy", vocoder.render(made.rows(codes)))
# The predictor: the codes that it chooses after the talker's state are the codec's own.
talker = Model(Sizes(made.groups, made.entries, dims=64), torch.from_numpy(made.books))
tensors = predictor_tensors(talker)
layer = "talker.code_predictor.model.layers.0."
def norm(x, weight):
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight
def project(x):
    project = "talker.code_predictor.small_to_mtp_projection."
    return x @ tensors[project + "weight"].T + tensors[project + "bias"]
wrong = 0
vectors = torch.from_numpy(made.project(rows))
for vector, expected in zip(vectors[100:160], codes[100:160]):
    state = torch.zeros(talker.sizes.hidden)
    state[:64], state[64] = vector / talker.scale, 1.0
    seen = [project(state), project(talker.fed_back(talker.books[0][int(expected[0])]))]
    for group in range(1, made.groups):
        x = torch.stack(seen)
        value = norm(x, tensors[layer + "input_layernorm.weight"])
        value = value @ tensors[layer + "self_attn.v_proj.weight"].T
        last = x[-1] + value.mean(0) @ tensors[layer + "self_attn.o_proj.weight"].T
        last = norm(last, tensors["talker.code_predictor.model.norm.weight"])
        choice = int((tensors[f"talker.code_predictor.lm_head.{group - 1}.weight"] @ last).argmax())
        wrong += choice != expected[group]
        row = tensors[f"talker.code_predictor.model.codec_embedding.{group - 1}.weight"][int(expected[group])]
        seen.append(project(row))
print(json.dumps({"wrong": int(wrong)}))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    out = tmp_path_factory.mktemp("voice")
    paths = os.pathsep.join((str(ROOT / "tools"), str(ROOT)))
    run = subprocess.run(
        [str(EVAL / "bin" / "python"), "-c", SCRIPT, str(out)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return out, json.loads(run.stdout.splitlines()[-1])


def test_the_layers_compute_the_vocoder(made: tuple[Path, dict[str, int]]) -> None:
    """Sample by sample, 5 ms earlier than whole frames."""
    folder, _ = made
    wanted, found = np.load(folder / "numpy.npy"), np.load(folder / "in_time.npy")
    first, last = 4 * 1920, len(wanted) - 4 * 1920
    pieces = [(wanted[i : i + 1920], found[i - 120 : i + 1800]) for i in range(first, last, 1920)]
    loud = [snr_db(a, b) for a, b in pieces if a.std() > 0.02]
    assert len(loud) > 100
    assert np.median(loud) > 20


def test_the_file_with_8_bit_weights_is_near(made: tuple[Path, dict[str, int]]) -> None:
    folder, _ = made
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    codes, wanted = np.load(folder / "codes.npy")[:200].astype(np.int32), np.load(folder / "torch.npy")
    with np.load(folder / "decoder.npz") as file:
        tensors = dict(file)
    found = {}
    for precision in ("f32", "w8"):
        path = folder / f"{precision}.tflite"
        build_decoder(config, tensors.__getitem__, path, precision)
        found[precision] = snr_db(wanted[1920 * 4 : len(codes) * 1920], decode(path, codes)[1920 * 4 :])
        size = path.stat().st_size
    assert found["f32"] > 70
    assert found["w8"] > 24
    assert size < 4.2e6


def test_the_predictor_chooses_the_codec_s_codes(made: tuple[Path, dict[str, int]]) -> None:
    assert made[1]["wrong"] <= 2
