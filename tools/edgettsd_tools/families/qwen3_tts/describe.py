"""From a checkpoint's configuration to the manifest of its bundle; refuses what this product cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgettsd import limits
from edgettsd.errors import ModelInvalidError
from edgettsd.families.qwen3_tts.manifest import CODEC_TOKENS, FAMILY, TASKS, TOKENS
from edgettsd.models._fields import Fields
from edgettsd.models.manifest import FORMAT

from .checkpoint import Checkpoint
from .sizes import LANGUAGES, SPEAKERS

# tts_model_size -> size; the official code takes no instruction when the name is a part of "0b6".
MODEL_SIZES = {"0b6": "0.6b", "1b7": "1.7b", "tiny": "tiny"}
NO_INSTRUCT = "0b6"
TOKENIZER_TYPE = "qwen3_tts_tokenizer_12hz"
# The official code asks for this many frames at least, whatever generation_config.json says.
MIN_NEW_TOKENS = 2
# What the official code takes where generation_config.json is silent.
SAMPLING = {
    "do_sample": True,
    "temperature": 0.9,
    "top_k": 50,
    "top_p": 1.0,
    "repetition_penalty": 1.05,
    "max_new_tokens": 2048,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
}
# The generation_config.json of the published checkpoints, for a folder without one.
PUBLISHED_SAMPLING = SAMPLING | {"max_new_tokens": 8192}


@dataclass(frozen=True, slots=True)
class Description:
    """A checkpoint's checked configuration. `talker`, `speech` and `decoder` are plain tables in which every
    size that the converter reads is present."""

    task: str
    size: str
    model_size: str
    talker: dict[str, Any]
    speech: dict[str, Any]
    decoder: dict[str, Any]
    tokens: dict[str, int]


def _transformer(fields: Fields, table: dict[str, Any], layers: int) -> None:
    """Check a Qwen3 transformer's table and fill in its head_dim."""
    hidden = fields.whole("hidden_size", 2, limits.MAX_HIDDEN)
    heads = fields.whole("num_attention_heads", 1, limits.MAX_HEADS)
    if heads % fields.whole("num_key_value_heads", 1, heads):
        raise fields.refuse("num_key_value_heads", f"a divisor of {heads} is needed")
    fields.whole("num_hidden_layers", 1, layers)
    fields.whole("intermediate_size", 1, limits.MAX_FFN)
    fields.whole("vocab_size", 2, limits.MAX_VOCAB)
    fields.real("rope_theta", 1.0, 1e12)
    fields.real("rms_norm_eps", 0.0, 1.0)
    fields.text("hidden_act", ("silu",))
    if table.get("head_dim") is None:
        table["head_dim"] = hidden // heads
    else:
        fields.whole("head_dim", 2, limits.MAX_HEAD_DIM)
    for key in ("attention_bias", "use_sliding_window", "tie_word_embeddings"):
        if table.get(key, False) is not False:
            raise fields.refuse(key, "only false is supported")


def _rope(source: str, where: str, value: Any) -> dict[str, Any]:
    """A copy of a transformer's table with rope_theta in it; positions that are scaled are refused.

    transformers 5 saves rope_theta and rope_scaling as one table, rope_parameters.
    """
    fields = Fields(source, where, value)
    table = dict(value)
    if table.get("rope_parameters") is not None:
        parameters = fields.table("rope_parameters")
        for key in parameters.names():
            if isinstance(parameters.any(key), dict):
                raise parameters.refuse(key, "one table for all layers is needed")
        if parameters.has("rope_theta"):
            theta = parameters.real("rope_theta", 1.0, 1e12)
            if table.setdefault("rope_theta", theta) != theta:
                raise parameters.refuse("rope_theta", f"rope_theta beside it is {table['rope_theta']}")
    for key in ("rope_parameters", "rope_scaling"):
        scaling = table.get(key)
        if scaling is None:
            continue
        fields.table(key)
        if scaling.get("rope_type", scaling.get("type", "default")) != "default":
            raise fields.refuse(key, "only rope_type default is supported")
    return table


def _decoder(source: str, table: dict[str, Any]) -> int:
    """Check the speech decoder's table; returns the samples a frame that it makes."""
    fields = Fields(source, "decoder_config", table)
    hidden = fields.whole("hidden_size", 2, 16384)
    heads = fields.whole("num_attention_heads", 1, 256)
    if table.get("head_dim") is None:
        table["head_dim"] = hidden // heads
    for key in ("codebook_dim", "codebook_size", "latent_dim", "intermediate_size", "decoder_dim"):
        fields.whole(key, 1, 1 << 16)
    for key in ("num_key_value_heads", "num_hidden_layers", "num_quantizers", "sliding_window"):
        fields.whole(key, 1, 1 << 12)
    samples = 1
    for key in ("upsample_rates", "upsampling_ratios"):
        for rate in fields.wholes(key, 1, 1000):
            samples *= rate
    return samples


def describe(checkpoint: Checkpoint) -> Description:
    """Check config.json and speech_tokenizer/config.json. Raises ModelInvalidError naming the field."""
    source = str(checkpoint.folder / "config.json")
    top = Fields(source, "", checkpoint.config)
    top.text("model_type", ("qwen3_tts",))
    top.text("tokenizer_type", (TOKENIZER_TYPE,))
    task = top.text("tts_model_type", TASKS)
    model_size = top.text("tts_model_size", tuple(MODEL_SIZES))
    talker = _rope(source, "talker_config", top.any("talker_config"))
    talker_fields = Fields(source, "talker_config", talker)
    _transformer(talker_fields, talker, limits.MAX_TALKER_LAYERS)
    talker_fields.whole("max_position_embeddings", 64, 1 << 20)
    talker_fields.whole("text_hidden_size", 1, 16384)
    text_vocab = talker_fields.whole("text_vocab_size", 1, 1 << 22)
    groups = talker_fields.whole("num_code_groups", 2, limits.MAX_GROUPS)
    where = talker_fields.path("code_predictor_config")
    predictor = _rope(source, where, talker_fields.any("code_predictor_config"))
    predictor_fields = Fields(source, where, predictor)
    _transformer(predictor_fields, predictor, limits.MAX_PREDICTOR_LAYERS)
    if predictor_fields.whole("num_code_groups", 2, limits.MAX_GROUPS) != groups:
        raise predictor_fields.refuse("num_code_groups", f"the talker has {groups}")
    talker["code_predictor_config"] = predictor

    speech_source = str(checkpoint.speech_folder / "config.json")
    speech = dict(checkpoint.speech_config)
    speech_fields = Fields(speech_source, "", speech)
    speech_fields.text("model_type", (TOKENIZER_TYPE,))
    speech_fields.whole("output_sample_rate", 8000, 192000)
    decoder = _rope(speech_source, "decoder_config", speech_fields.any("decoder_config"))
    samples = _decoder(speech_source, decoder)
    if speech_fields.whole("decode_upsample_rate", 1, limits.MAX_SPF) != samples:
        raise speech_fields.refuse("decode_upsample_rate", f"the decoder makes {samples} samples a frame")
    if decoder["num_quantizers"] != groups:
        raise ModelInvalidError(
            f"{speech_source}: decoder_config.num_quantizers is {decoder['num_quantizers']}; "
            f"the talker has {groups}"
        )
    tokens = {name: top.whole(f"{name}_token_id", 0, text_vocab - 1) for name in TOKENS}
    return Description(task, MODEL_SIZES[model_size], model_size, talker, speech, decoder, tokens)


def _in_order(table: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, Any]:
    """The table's entries as the published checkpoints order theirs, then the others by name.

    Whoever saves a configuration again sorts it, and the first voice is the default.
    """
    places = {name: place for place, name in enumerate(published)}
    return dict(
        sorted(table.items(), key=lambda entry: (places.get(entry[0].lower(), len(places)), entry[0]))
    )


def _voices(source: str, talker: Mapping[str, Any], rows: tuple[str, ...]) -> dict[str, Any]:
    voices: dict[str, Any] = {}
    dialects = talker.get("spk_is_dialect") or {}
    languages = talker["codec_language_id"]
    for name, codec_id in _in_order(talker.get("spk_id") or {}, SPEAKERS).items():
        dialect = dialects.get(name, False)
        if dialect is not False and dialect not in languages:
            raise ModelInvalidError(
                f"{source}: talker_config.spk_is_dialect.{name} is {dialect!r}; "
                f"allowed are false, {', '.join(languages)}"
            )
        entry = {"codec_id": codec_id, "dialect": None if dialect is False else dialect, "languages": []}
        voices[name.lower()] = entry
    for name in rows:
        voices[name] = {"row": f"speaker.{name}", "dialect": None, "languages": []}
    return voices


def _sizes(config: Mapping[str, Any], precision: str) -> dict[str, Any]:
    return {
        "hidden": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "ffn": config["intermediate_size"],
        "vocab": config["vocab_size"],
        "rope_theta": float(config["rope_theta"]),
        "rms_eps": float(config["rms_norm_eps"]),
        "precision": precision,
    }


def _sampling(generation: Mapping[str, Any] | None, vocab: int) -> dict[str, Any]:
    if generation is None:
        generation = PUBLISHED_SAMPLING
    chosen = {key: generation.get(key, fallback) for key, fallback in SAMPLING.items()}
    keys = ("temperature", "top_k", "top_p")
    talker = {"do_sample": chosen["do_sample"]} | {key: chosen[key] for key in keys}
    predictor = {"do_sample": chosen["subtalker_dosample"]}
    predictor |= {key: chosen[f"subtalker_{key}"] for key in keys}
    return {
        "talker": talker | {"repetition_penalty": chosen["repetition_penalty"]},
        "predictor": predictor,
        "min_new_tokens": MIN_NEW_TOKENS,
        # The last 1024 codec ids are controls, languages and speakers; end of speech is exempt at run time.
        "suppress": [[vocab - 1024, vocab]],
        "max_frames": chosen["max_new_tokens"],
    }


def manifest_of(
    checkpoint: Checkpoint,
    description: Description,
    *,
    name: str,
    license_name: str,
    precisions: Mapping[str, str],
    decoder: Mapping[str, Any],
    rows: tuple[str, ...],
    source: Mapping[str, Any],
) -> dict[str, Any]:
    """The manifest without its files table; `rows` are the voices whose speaker rows were given."""
    path = str(checkpoint.folder / "config.json")
    talker, speech = description.talker, description.speech
    if not isinstance(talker.get("codec_language_id"), dict):
        raise ModelInvalidError(f"{path}: talker_config.codec_language_id is missing")
    codec = {}
    for key in CODEC_TOKENS:
        field = "codec_eos_token_id" if key == "eos" else f"codec_{key}_id"
        if field not in talker:
            raise ModelInvalidError(f"{path}: talker_config.{field} is missing")
        codec[key] = talker[field]
    task = description.task
    instruct = task == "voice_design" or (
        task == "custom_voice" and description.model_size not in NO_INSTRUCT
    )
    predictor = talker["code_predictor_config"]
    return {
        "format": FORMAT,
        "family": FAMILY,
        "task": task,
        "size": description.size,
        "name": name,
        "license": license_name,
        "source": dict(source),
        "sample_rate": speech["output_sample_rate"],
        "samples_per_frame": speech["decode_upsample_rate"],
        "code_groups": talker["num_code_groups"],
        "talker": _sizes(talker, precisions["talker"]) | {"max_context": talker["max_position_embeddings"]},
        "predictor": _sizes(predictor, precisions["predictor"]) | {"input_hidden": talker["hidden_size"]},
        "decoder": {key: decoder[key] for key in ("precision", "chunks", "states")},
        "embeddings": {"dtype": precisions["embeddings"]},
        "text": {"frontend": "qwen2-bpe", "vocab": talker["text_vocab_size"]},
        "tokens": description.tokens,
        "codec_tokens": codec,
        "languages": _in_order(talker["codec_language_id"], LANGUAGES),
        "voices": _voices(path, talker, rows),
        "supports_instruct": instruct,
        "sampling": _sampling(checkpoint.generation, talker["vocab_size"]),
        "schedule": {"kind": "adaptive", "chunks": decoder["chunks"]},
        "layout": "streaming",
    }


def license_of(folder: Path) -> str:
    """The licence that the model card (README.md) declares in its front matter, or an empty text."""
    try:
        lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    if not lines or lines[0].strip() != "---":
        return ""
    for line in lines[1:]:
        if line.strip() == "---":
            break
        key, _, value = line.partition(":")
        if key.strip() == "license":
            return value.strip().strip("\"'")
    return ""
