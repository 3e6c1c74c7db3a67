"""From trained weights to a checkpoint in the official layout, which tools/convert makes into a bundle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgettsd.families.qwen3_tts.frontends import FRAMES, FRONTENDS
from edgettsd.frontends.english.frames import SPECIAL_IDS, VOCAB
from edgettsd_tools.families.qwen3_tts import layout, sizes
from edgettsd_tools.families.qwen3_tts.frontend import write_frontend
from edgettsd_tools.safetensors_writer import Entry, write_safetensors
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import LEAD
from edgettsd_tools.voice.decoder import DELAY, make, typical
from edgettsd_tools.voice.talker_net import Model
from edgettsd_tools.voice.train_talker import load_talker

VOICE = "joe"
# Channels that quantised formats and vector units work on at once.
BLOCK = 32
# The predictor's constant: a hundred times what else is in a row, so that norms hardly depend on the rest.
CONSTANT = 128.0
# Scores are squared distances over this part of the entries' mean square: sampling hardly leaves the
# nearest entry.
SPREAD = 0.05
CARD = """\
---
license: apache-2.0
language: en
---

The built-in English voice of edgettsd, in the layout of Qwen3-TTS-12Hz checkpoints. Trained by
tools/train_voice on speech of the Piper voice en_US-joe-medium (CC0); docs/voice.md tells how.
"""


def model_config(model: Model) -> dict[str, Any]:
    """config.json of the checkpoint."""
    s = model.sizes
    config = sizes.model_config("tiny", "custom_voice")
    talker = config["talker_config"]
    talker |= {
        "hidden_size": s.hidden,
        "intermediate_size": s.ffn,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "num_code_groups": s.groups,
        "text_hidden_size": 2 * s.hidden,
        "text_vocab_size": VOCAB,
        "vocab_size": s.vocab,
        "rope_theta": s.rope_theta,
        "rms_norm_eps": s.rms_eps,
        "max_position_embeddings": 4096,
        "codec_eos_token_id": s.special("eos"),
        "codec_language_id": {"english": s.special("english")},
        "spk_id": {VOICE: s.special("joe")},
        "spk_is_dialect": {VOICE: False},
    }
    talker |= {
        f"codec_{name}_id": s.special(name)
        for name in ("pad", "bos", "think", "nothink", "think_bos", "think_eos")
    }
    # Three equal sections, as far as they go: a token has one position on all axes.
    half = s.head_dim // 2
    talker["rope_scaling"] = {
        "interleaved": True,
        "mrope_section": [half - 2 * (half // 3), half // 3, half // 3],
        "rope_type": "default",
        "type": "default",
    }
    talker["code_predictor_config"] |= {
        "hidden_size": _width(s.dims),
        "intermediate_size": BLOCK,
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": s.dims,
        "num_code_groups": s.groups,
        "rope_theta": s.rope_theta,
        "rms_norm_eps": s.rms_eps,
        "vocab_size": s.entries,
    }
    config["assistant_token_id"] = SPECIAL_IDS["assistant"]
    for name in ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos"):
        config[f"{name}_token_id"] = SPECIAL_IDS[name]
    return config


def _width(dims: int) -> int:
    """Channels of the predictor: what comes in, what is still to be coded, and a constant in a block of its
    own."""
    return 2 * dims + BLOCK


def predictor_tensors(model: Model) -> dict[str, torch.Tensor]:
    """Official names -> tensors of the code predictor, which follow from the codec: nothing is trained here.

    It sees the talker's state, which says the sound, and then a row for each code chosen, which says minus
    its entry. With queries of zero its one attention layer takes the mean of what it has seen: what is
    still to be coded over the number of rows. Each head then scores its entries by minus their squared
    distance. A large constant, put in by the projection's bias, makes every norm a division by the same
    number.
    """
    s, books = model.sizes, model.books
    dims, width = s.dims, _width(s.dims)
    norm = CONSTANT / width**0.5
    eye = torch.eye(dims)
    zeros = torch.zeros
    layer = "talker.code_predictor.model.layers.0."
    project, bias = zeros(width, s.hidden), zeros(width)
    project[:dims, :dims], bias[2 * dims] = eye, CONSTANT
    value, out = zeros(dims, width), zeros(width, dims)
    value[:, :dims], out[dims : 2 * dims] = eye, eye
    tensors = {
        "talker.code_predictor.small_to_mtp_projection.weight": project,
        "talker.code_predictor.small_to_mtp_projection.bias": bias,
        layer + "input_layernorm.weight": torch.full((width,), norm),
        layer + "self_attn.q_proj.weight": zeros(dims, width),
        layer + "self_attn.k_proj.weight": zeros(dims, width),
        layer + "self_attn.v_proj.weight": value,
        layer + "self_attn.o_proj.weight": out,
        layer + "self_attn.q_norm.weight": torch.ones(dims),
        layer + "self_attn.k_norm.weight": torch.ones(dims),
        layer + "post_attention_layernorm.weight": torch.ones(width),
        layer + "mlp.gate_proj.weight": zeros(BLOCK, width),
        layer + "mlp.up_proj.weight": zeros(BLOCK, width),
        layer + "mlp.down_proj.weight": zeros(width, BLOCK),
        "talker.code_predictor.model.norm.weight": torch.ones(width),
    }
    for group in range(1, s.groups):
        book = books[group]
        spread = SPREAD * float(book.pow(2).sum(1).mean())
        head = zeros(s.entries, width)
        head[:, dims : 2 * dims] = 2.0 * book * model.scale * (group + 1) * norm / spread
        head[:, 2 * dims] = -book.pow(2).sum(1) / width**0.5 / spread
        tensors[f"talker.code_predictor.lm_head.{group - 1}.weight"] = head
        rows = model.fed_back(book)
        tensors[f"talker.code_predictor.model.codec_embedding.{group - 1}.weight"] = rows
    return tensors


def model_tensors(model: Model) -> dict[str, torch.Tensor]:
    """Official names -> tensors of talker and predictor.

    The text projection is made to be the identity: silu(x) - silu(-x) = x.
    """
    s = model.sizes
    text, eye = model.export_text(), torch.eye(s.hidden)
    rows = torch.zeros(s.vocab, s.hidden)
    rows[: s.entries] = model.fed_back(model.books[0])
    out = {
        "talker.model.codec_embedding.weight": rows,
        "talker.model.text_embedding.weight": torch.cat((text, -text), 1),
        "talker.text_projection.linear_fc1.weight": torch.eye(2 * s.hidden),
        "talker.text_projection.linear_fc1.bias": torch.zeros(2 * s.hidden),
        "talker.text_projection.linear_fc2.weight": torch.cat((eye, -eye), 1),
        "talker.text_projection.linear_fc2.bias": torch.zeros(s.hidden),
        "talker.codec_head.weight": model.head.weight,
    }
    for name, value in model.state_dict().items():
        if name.startswith("talker."):
            out["talker.model." + name.removeprefix("talker.")] = value
    return out | predictor_tensors(model)


def generation_config() -> dict[str, Any]:
    """Greedy: so small a model is at its best with its first choice, and says the same every time."""
    return {
        "do_sample": False,
        "max_new_tokens": 1024,
        "repetition_penalty": 1.0,
        "subtalker_dosample": False,
        "subtalker_temperature": 0.6,
        "subtalker_top_k": 20,
        "subtalker_top_p": 1.0,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 1.0,
    }


def _write_tensors(path: Path, shapes: layout.Shapes, tensors: dict[str, torch.Tensor]) -> None:
    for name, shape in shapes.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "missing"
            raise ValueError(f"tensor {name} is {found}; {shape} is needed")

    def produce(entry: Entry) -> Iterator[np.ndarray[Any, Any]]:
        yield tensors[entry.name].detach().contiguous().numpy()

    entries = [Entry(name, "F32", shape) for name, shape in shapes.items()]
    write_safetensors(path, entries, produce, metadata={"format": "pt"})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def export_checkpoint(work: Path, out: Path, gain: float = 1.0) -> None:
    """Write the checkpoint folder `out` (replaced, whatever it is) from work/codec.npz and work/talker.pt.

    The front end's data files are taken from work/frontend; `gain` makes the voice louder. Raises
    FileNotFoundError for what is missing.
    """
    codec, model = Codec.load(work / "codec.npz"), load_talker(work / "talker.pt")
    decoder = make(codec, typical(work, codec))
    with torch.no_grad():
        for parameter in decoder.decoder[-1].parameters():
            parameter.mul_(gain)
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    speech = partial / "speech_tokenizer"
    speech.mkdir(parents=True)
    config = model_config(model)
    _write_tensors(partial / "model.safetensors", layout.model_shapes(config), model_tensors(model))
    speech_config = sizes.speech_tokenizer_config("tiny")
    speech_config["decoder_config"] = decoder.config
    speech_config["encoder_valid_num_quantizers"] = model.sizes.groups
    tensors = {f"decoder.{name}": value for name, value in decoder.state_dict().items()}
    _write_tensors(speech / "model.safetensors", layout.decoder_shapes(decoder.config), tensors)
    _write_json(partial / "generation_config.json", generation_config())
    _write_json(partial / "preprocessor_config.json", sizes.preprocessor_config())
    _write_json(speech / "config.json", speech_config)
    _write_json(speech / "preprocessor_config.json", sizes.feature_extractor_config())
    write_frontend(
        partial, {name: work / "frontend" / name for name in FRONTENDS[FRAMES].files}, LEAD + DELAY
    )
    (partial / "README.md").write_text(CARD, encoding="utf-8")
    _write_json(partial / "config.json", config)
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
