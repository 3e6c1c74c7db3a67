"""Small data files of the English front end, with made-up weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_files
import numpy as np
from edgettsd_tools.families.qwen3_tts.frontend import write_frontend
from edgettsd_tools.safetensors_writer import Entry, write_safetensors
from edgettsd_tools.voice import lexicon
from edgettsd_tools.voice.tensors import write_tensors

from edgettsd.frontends.english.durations import TEMPLATES, offsets
from edgettsd.frontends.english.frames import SPECIAL_IDS, VOCAB
from edgettsd.frontends.english.letters import ALPHABET
from edgettsd.frontends.english.phones import PHONE_IDS, PHONES
from edgettsd.models.safetensors import SafetensorsFile

TEXT = "talker.model.text_embedding.weight"
TOKENS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")
WORDS = {
    "hello": "HH AH0 L OW1", "world": "W ER1 L D", "the": "DH AH0", "door": "D AO1 R", "is": "IH1 Z",
    "open": "OW1 P AH0 N", "good": "G UH1 D", "morning": "M AO1 R N IH0 NG", "it": "IH1 T", "five": "F AY1 V",
    "thirty": "TH ER1 T IY2", "yes": "Y EH1 S", "no": "N OW1",
}  # fmt: skip


def small_letters(path: Path, channels: int = 8, layers: int = 2) -> None:
    """A letter-to-sound file with random weights."""
    rng = np.random.default_rng(3)
    shapes = {"embed": (len(ALPHABET) + 1, channels), "out": (channels, 2 * len(PHONES))}
    shapes |= {f"conv.{i}": (3, channels, channels) for i in range(layers)}
    tensors: dict[str, np.ndarray] = {"dilations": np.ones(layers, np.int32)}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = rng.integers(-127, 128, shape).astype(np.int8)
        tensors[f"{name}.scale"] = np.full(shape[-1], 0.01, np.float32)
        if name != "embed":
            tensors[f"{name}.bias"] = rng.normal(size=shape[-1]).astype(np.float32)
    write_tensors(path, tensors)


def small_durations(path: Path) -> None:
    """Consonants of 60 ms, vowels of 120 ms, pauses of 40 ms, whatever is around them."""
    seconds = (0.04, 0.06, 0.12)
    table = np.zeros((sum(TEMPLATES.values()), 6), np.float16)
    here = int(offsets()[list(TEMPLATES).index("phone +0")])
    for phone, index in PHONE_IDS.items():
        kind = 0 if phone == "SP" else 2 if phone[-1].isdigit() else 1
        table[here + index, 2 * kind : 2 * kind + 2] = 1
    # A logarithm in two half floats.
    logs = np.log(seconds)
    high = logs.astype(np.float16)
    outer = np.stack([high, (logs - high).astype(np.float16)], 1).ravel()
    write_tensors(
        path,
        {
            "table": table,
            "inner": np.eye(6, dtype=np.float16),
            "inner_bias": np.zeros(6, np.float16),
            "outer": outer,
            "outer_bias": np.zeros(1, np.float16),
        },
    )


def small_files(folder: Path) -> dict[str, Path]:
    """All data files, of a dictionary of a dozen words."""
    files = {name: folder / name for name in ("lexicon.bin", "letters.bin", "durations.bin")}
    lexicon.build({word: [phones.split()] for word, phones in WORDS.items()}, files["lexicon.bin"])
    small_letters(files["letters.bin"])
    small_durations(files["durations.bin"])
    return files


def english_checkpoint(folder: Path, voice: str = "") -> Path:
    """The tiny random checkpoint with the ids of the English front end, and with `voice` as its only one."""
    model_files.copy(model_files.checkpoint(), folder)
    with SafetensorsFile(folder / "model.safetensors") as file:
        kept = {name: np.array(file[name]) for name in file}
        types = {name: info.dtype for name, info in file.tensors.items()}
    kept[TEXT] = kept[TEXT][:VOCAB]
    values = {
        name: (array.astype(np.uint32) << 16).view(np.float32) if types[name] == "BF16" else array
        for name, array in kept.items()
    }
    (folder / "model.safetensors").unlink()
    entries = [Entry(name, types[name], array.shape) for name, array in kept.items()]
    write_safetensors(folder / "model.safetensors", entries, lambda entry: [values[entry.name]])

    def change(config: dict[str, Any]) -> None:
        talker = config["talker_config"]
        talker["text_vocab_size"] = VOCAB
        if voice:
            talker |= {"spk_id": {voice: min(talker["spk_id"].values())}, "spk_is_dialect": {voice: False}}
        config["assistant_token_id"] = SPECIAL_IDS["assistant"]
        for name in TOKENS:
            config[f"{name}_token_id"] = SPECIAL_IDS[name]

    model_files.edit_json(folder / "config.json", change)
    data = folder.with_name(folder.name + ".data")
    data.mkdir()
    write_frontend(folder, small_files(data), 4)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    return folder
