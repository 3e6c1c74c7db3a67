"""Writes the talker and the code predictor as GGUF files, tensor by tensor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize

from edgettsd.errors import ModelInvalidError
from edgettsd.families.qwen3_tts.files import PREDICTOR_ARCH

from ... import kquants
from ...checkpoint import TensorSet

Config = Mapping[str, Any]
Kind = gguf.GGMLQuantizationType

_KINDS = {"f32": Kind.F32, "f16": Kind.F16, "q8_0": Kind.Q8_0, "q4_K": Kind.Q4_K, "q4_0": Kind.Q4_0}
_FILE_TYPES = {
    "f32": gguf.LlamaFileType.ALL_F32,
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_K": gguf.LlamaFileType.MOSTLY_Q4_K_M,
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def layer_names(prefix: str, layers: int) -> dict[str, str]:
    """GGUF name -> checkpoint name of every layer's tensors and the last norm."""
    names = {
        f"blk.{index}.{ours}.weight": f"{prefix}layers.{index}.{theirs}.weight"
        for index in range(layers)
        for theirs, ours in _LAYER_NAMES.items()
    }
    return names | {"output_norm.weight": f"{prefix}norm.weight"}


def _kind(name: str, dimensions: int, precision: str, wide: frozenset[str]) -> Kind:
    """How a tensor is stored.

    Vectors stay float32. At f16, ffn_down stays float32: real checkpoints drive it with activations of about
    1.5e5, ggml converts activations to the weights' type, and that is beyond float16; bfloat16 would hold
    them but round them to 8 bits, and f16 is meant to be exact. (The quantised kinds scale activations block
    by block, so they are safe.) `wide` tensors get Q8_0 in a file of 4 bits.
    """
    if dimensions == 1 or (precision == "f16" and name.endswith("ffn_down.weight")):
        return Kind.F32
    if precision in ("q4_0", "q4_K") and name in wide:
        return Kind.Q8_0
    return _KINDS[precision]


def _encode(name: str, values: np.ndarray[Any, Any], kind: Kind) -> np.ndarray[Any, Any]:
    if kind == Kind.F32:
        return values
    if kind == Kind.F16:
        largest = float(np.abs(values).max())
        if largest > 65504:
            raise ModelInvalidError(f"tensor {name} has values of {largest:g}, too large for f16; use f32")
        return values.astype(np.float16)
    if kind == Kind.Q4_K:
        return kquants.quantize(values, kind)
    return np.asarray(quantize(values, kind))


def _write(
    writer: gguf.GGUFWriter,
    path: Path,
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    tensors: TensorSet,
    precision: str,
    wide: frozenset[str],
    advance: Callable[[int], None],
) -> None:
    """Declare every tensor, then write them one by one."""
    kinds: dict[str, Kind] = {}
    for ours, theirs in names.items():
        shape = shapes[theirs]
        kind = kinds[ours] = _kind(ours, len(shape), precision, wide)
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if shape[-1] % block:
            raise ModelInvalidError(
                f"tensor {theirs} has rows of {shape[-1]}, {precision} needs a multiple of {block}"
            )
        nbytes = int(np.prod(shape)) // block * block_bytes
        # float32 only says "not bytes": the shape is the tensor's own.
        writer.add_tensor_info(ours, shape, np.dtype(np.float32), nbytes, raw_dtype=kind)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for ours, theirs in names.items():
        writer.write_tensor_data(_encode(theirs, tensors.read(theirs), kinds[ours]))
        advance(tensors.nbytes(theirs))
    writer.flush()
    writer.close()
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def write_talker(
    path: Path,
    talker: Config,
    shapes: Mapping[str, tuple[int, ...]],
    tensors: TensorSet,
    precision: str,
    name: str,
    advance: Callable[[int], None],
) -> None:
    """The talker as architecture qwen3 whose vocabulary is the codec rows.

    The interleaved M-RoPE is plain NEOX rotation here, since a token has one position on all three axes.
    """
    writer = gguf.GGUFWriter(None, "qwen3")
    writer.add_name(name)
    writer.add_file_type(_FILE_TYPES[precision])
    writer.add_context_length(talker["max_position_embeddings"])
    writer.add_embedding_length(talker["hidden_size"])
    writer.add_block_count(talker["num_hidden_layers"])
    writer.add_feed_forward_length(talker["intermediate_size"])
    writer.add_head_count(talker["num_attention_heads"])
    writer.add_head_count_kv(talker["num_key_value_heads"])
    writer.add_key_length(talker["head_dim"])
    writer.add_value_length(talker["head_dim"])
    writer.add_rope_freq_base(float(talker["rope_theta"]))
    writer.add_layer_norm_rms_eps(float(talker["rms_norm_eps"]))
    writer.add_vocab_size(talker["vocab_size"])
    writer.add_tokenizer_model("none")
    names = {"token_embd.weight": "talker.model.codec_embedding.weight"}
    names |= layer_names("talker.model.", talker["num_hidden_layers"])
    names |= {"output.weight": "talker.codec_head.weight"}
    # The head is 3 MB of a step's 250 MB, and picks codebook 0: eight bits cost next to nothing there.
    wide = frozenset({"token_embd.weight", "output.weight"})
    _write(writer, path, names, shapes, tensors, precision, wide, advance)


def write_predictor(
    path: Path,
    talker: Config,
    shapes: Mapping[str, tuple[int, ...]],
    tensors: TensorSet,
    precision: str,
    name: str,
    advance: Callable[[int], None],
) -> None:
    """The code predictor with its heads head.1 to head.15 and, where it is narrower, its input projection."""
    predictor = talker["code_predictor_config"]
    groups = talker["num_code_groups"]
    writer = gguf.GGUFWriter(None, PREDICTOR_ARCH)
    writer.add_name(name)
    writer.add_file_type(_FILE_TYPES[precision])
    writer.add_embedding_length(predictor["hidden_size"])
    writer.add_uint32(f"{PREDICTOR_ARCH}.input_embedding_length", talker["hidden_size"])
    writer.add_block_count(predictor["num_hidden_layers"])
    writer.add_feed_forward_length(predictor["intermediate_size"])
    writer.add_head_count(predictor["num_attention_heads"])
    writer.add_head_count_kv(predictor["num_key_value_heads"])
    writer.add_key_length(predictor["head_dim"])
    writer.add_rope_freq_base(float(predictor["rope_theta"]))
    writer.add_layer_norm_rms_eps(float(predictor["rms_norm_eps"]))
    writer.add_vocab_size(predictor["vocab_size"])
    writer.add_uint32(f"{PREDICTOR_ARCH}.code_groups", groups)
    prefix = "talker.code_predictor."
    names = layer_names(prefix + "model.", predictor["num_hidden_layers"])
    names |= {f"head.{group}.weight": f"{prefix}lm_head.{group - 1}.weight" for group in range(1, groups)}
    if predictor["hidden_size"] != talker["hidden_size"]:
        names |= {
            "input_proj.weight": prefix + "small_to_mtp_projection.weight",
            "input_proj.bias": prefix + "small_to_mtp_projection.bias",
        }
    _write(writer, path, names, shapes, tensors, precision, frozenset(), advance)
