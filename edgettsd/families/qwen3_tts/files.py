"""What the files of a Qwen3-TTS bundle must hold: values of their headers, tensors with their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgettsd.errors import ModelInvalidError
from edgettsd.models.gguf import read_gguf_header
from edgettsd.models.safetensors import SafetensorsFile

from .frontends import FRONTENDS
from .manifest import QwenManifest, TransformerSizes

TALKER_ARCH = "qwen3"
PREDICTOR_ARCH = "qwen3tts-predictor"

Shapes = dict[str, tuple[int, ...]]


def check(files: Mapping[str, Path], manifest: QwenManifest) -> None:
    """Check every file but the decoder; raises ModelInvalidError that names the file and what is wrong."""
    _check_talker(files["talker.gguf"], manifest)
    _check_predictor(files["predictor.gguf"], manifest)
    FRONTENDS[manifest.text_frontend].check(files, manifest)
    _check_embeddings(files["embeddings.safetensors"], manifest)


def layer_shapes(sizes: TransformerSizes) -> Shapes:
    """Tensors of the layers of a talker or predictor file, with the last norm."""
    hidden, queries, keys = sizes.hidden, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    shapes: Shapes = {}
    for index in range(sizes.layers):
        block = f"blk.{index}."
        shapes |= {
            block + "attn_norm.weight": (hidden,),
            block + "attn_q.weight": (queries, hidden),
            block + "attn_k.weight": (keys, hidden),
            block + "attn_v.weight": (keys, hidden),
            block + "attn_output.weight": (hidden, queries),
            block + "attn_q_norm.weight": (sizes.head_dim,),
            block + "attn_k_norm.weight": (sizes.head_dim,),
            block + "ffn_norm.weight": (hidden,),
            block + "ffn_gate.weight": (sizes.ffn, hidden),
            block + "ffn_up.weight": (sizes.ffn, hidden),
            block + "ffn_down.weight": (hidden, sizes.ffn),
        }
    shapes["output_norm.weight"] = (hidden,)
    return shapes


def talker_tensors(sizes: TransformerSizes) -> Shapes:
    """Every tensor of talker.gguf with its shape, rows first."""
    table = (sizes.vocab, sizes.hidden)
    return {"token_embd.weight": table} | layer_shapes(sizes) | {"output.weight": table}


def predictor_tensors(sizes: TransformerSizes, code_groups: int) -> Shapes:
    """Every tensor of predictor.gguf with its shape, rows first."""
    shapes = layer_shapes(sizes)
    for group in range(1, code_groups):
        shapes[f"head.{group}.weight"] = (sizes.vocab, sizes.hidden)
    if sizes.input_hidden != sizes.hidden:
        shapes["input_proj.weight"] = (sizes.hidden, sizes.input_hidden)
        shapes["input_proj.bias"] = (sizes.hidden,)
    return shapes


def embedding_tensors(manifest: QwenManifest) -> Shapes:
    """Every tensor of embeddings.safetensors with its shape."""
    hidden = manifest.talker.hidden
    shapes: Shapes = {"text": (manifest.text_vocab, hidden), "codec.0": (manifest.talker.vocab, hidden)}
    for group in range(1, manifest.code_groups):
        shapes[f"codec.{group}"] = (manifest.predictor.vocab, hidden)
    for voice in manifest.voices.values():
        if voice.row is not None:
            shapes[voice.row] = (hidden,)
    return shapes


def _check_talker(file: Path, manifest: QwenManifest) -> None:
    header, sizes = read_gguf_header(file), manifest.talker
    header.expect_value("general.architecture", TALKER_ARCH)
    for key, value in (
        ("block_count", sizes.layers),
        ("context_length", sizes.max_context),
        ("embedding_length", sizes.hidden),
        ("feed_forward_length", sizes.ffn),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("attention.key_length", sizes.head_dim),
        ("attention.value_length", sizes.head_dim),
        ("vocab_size", sizes.vocab),
        ("attention.layer_norm_rms_epsilon", sizes.rms_eps),
        ("rope.freq_base", sizes.rope_theta),
    ):
        header.expect_value(f"{TALKER_ARCH}.{key}", value)
    header.expect_tensors(talker_tensors(sizes))


def _check_predictor(file: Path, manifest: QwenManifest) -> None:
    header, sizes = read_gguf_header(file), manifest.predictor
    header.expect_value("general.architecture", PREDICTOR_ARCH)
    for key, value in (
        ("embedding_length", sizes.hidden),
        ("input_embedding_length", sizes.input_hidden),
        ("block_count", sizes.layers),
        ("feed_forward_length", sizes.ffn),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("attention.key_length", sizes.head_dim),
        ("attention.layer_norm_rms_epsilon", sizes.rms_eps),
        ("rope.freq_base", sizes.rope_theta),
        ("vocab_size", sizes.vocab),
        ("code_groups", manifest.code_groups),
    ):
        header.expect_value(f"{PREDICTOR_ARCH}.{key}", value)
    header.expect_tensors(predictor_tensors(sizes, manifest.code_groups))


def _check_embeddings(file: Path, manifest: QwenManifest) -> None:
    dtype = manifest.embeddings_dtype.upper()
    with SafetensorsFile(file) as tables:
        expected = embedding_tensors(manifest)
        for name, shape in expected.items():
            tables.expect(name, shape, (dtype,))
        for name in tables.tensors:
            if name not in expected:
                raise ModelInvalidError(f"{file}: tensor {name} does not belong there")
