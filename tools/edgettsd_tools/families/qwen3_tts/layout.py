"""Which tensors a checkpoint has, with their shapes, as its configuration determines them.

All names are those of the official checkpoints. The functions take plain configuration dictionaries and
return name -> shape in a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]


def _transformer(prefix: str, config: Config) -> Shapes:
    """The layers and the last norm of a Qwen3 transformer."""
    hidden, ffn, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries = config["num_attention_heads"] * head_dim
    keys = config["num_key_value_heads"] * head_dim
    shapes: Shapes = {}
    for index in range(config["num_hidden_layers"]):
        layer = f"{prefix}layers.{index}."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        shapes[layer + "self_attn.q_proj.weight"] = (queries, hidden)
        shapes[layer + "self_attn.k_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.v_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, queries)
        shapes[layer + "self_attn.q_norm.weight"] = (head_dim,)
        shapes[layer + "self_attn.k_norm.weight"] = (head_dim,)
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        shapes[layer + "mlp.gate_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, ffn)
    shapes[prefix + "norm.weight"] = (hidden,)
    return shapes


def talker_shapes(talker: Config) -> Shapes:
    """Talker, text projection and code predictor (`talker.*`)."""
    hidden, text_hidden = talker["hidden_size"], talker["text_hidden_size"]
    predictor = talker["code_predictor_config"]
    shapes = _transformer("talker.model.", talker)
    shapes["talker.model.codec_embedding.weight"] = (talker["vocab_size"], hidden)
    shapes["talker.model.text_embedding.weight"] = (talker["text_vocab_size"], text_hidden)
    shapes["talker.text_projection.linear_fc1.weight"] = (text_hidden, text_hidden)
    shapes["talker.text_projection.linear_fc1.bias"] = (text_hidden,)
    shapes["talker.text_projection.linear_fc2.weight"] = (hidden, text_hidden)
    shapes["talker.text_projection.linear_fc2.bias"] = (hidden,)
    shapes["talker.codec_head.weight"] = (talker["vocab_size"], hidden)
    small, vocab = predictor["hidden_size"], predictor["vocab_size"]
    shapes |= _transformer("talker.code_predictor.model.", predictor)
    for index in range(talker["num_code_groups"] - 1):
        shapes[f"talker.code_predictor.model.codec_embedding.{index}.weight"] = (vocab, hidden)
    for index in range(talker["num_code_groups"] - 1):
        shapes[f"talker.code_predictor.lm_head.{index}.weight"] = (vocab, small)
    if small != hidden:
        shapes["talker.code_predictor.small_to_mtp_projection.weight"] = (small, hidden)
        shapes["talker.code_predictor.small_to_mtp_projection.bias"] = (small,)
    return shapes


def _convolution(shapes: Shapes, name: str, outputs: int, inputs: int, kernel: int) -> None:
    shapes[name + ".conv.weight"] = (outputs, inputs, kernel)
    shapes[name + ".conv.bias"] = (outputs,)


def speaker_encoder_shapes(config: Config) -> Shapes:
    """The ECAPA-TDNN speaker encoder of Base checkpoints (`speaker_encoder.*`)."""
    shapes: Shapes = {}
    channels, kernels = config["enc_channels"], config["enc_kernel_sizes"]
    squeezed, scale = config["enc_se_channels"], config["enc_res2net_scale"]
    _convolution(shapes, "speaker_encoder.blocks.0", channels[0], config["mel_dim"], kernels[0])
    for index in range(1, len(channels) - 1):
        block = f"speaker_encoder.blocks.{index}"
        before, after = channels[index - 1], channels[index]
        _convolution(shapes, block + ".tdnn1", after, before, 1)
        for part in range(scale - 1):
            name = f"{block}.res2net_block.blocks.{part}"
            _convolution(shapes, name, after // scale, after // scale, kernels[index])
        _convolution(shapes, block + ".tdnn2", after, after, 1)
        for name, outputs, inputs in (("conv1", squeezed, after), ("conv2", after, squeezed)):
            shapes[f"{block}.se_block.{name}.weight"] = (outputs, inputs, 1)
            shapes[f"{block}.se_block.{name}.bias"] = (outputs,)
    last, attention = channels[-1], config["enc_attention_channels"]
    _convolution(shapes, "speaker_encoder.mfa", last, last, kernels[-1])
    _convolution(shapes, "speaker_encoder.asp.tdnn", attention, 3 * last, 1)
    shapes["speaker_encoder.asp.conv.weight"] = (last, attention, 1)
    shapes["speaker_encoder.asp.conv.bias"] = (last,)
    shapes["speaker_encoder.fc.weight"] = (config["enc_dim"], 2 * last, 1)
    shapes["speaker_encoder.fc.bias"] = (config["enc_dim"],)
    return shapes


def _quantizer(shapes: Shapes, name: str, layers: int, size: int, inner: int, outer: int) -> None:
    shapes[name + ".input_proj.weight"] = (inner, outer, 1)
    shapes[name + ".output_proj.weight"] = (outer, inner, 1)
    for index in range(layers):
        shapes[f"{name}.vq.layers.{index}._codebook.cluster_usage"] = (size,)
        shapes[f"{name}.vq.layers.{index}._codebook.embedding_sum"] = (size, inner)


def _snake(shapes: Shapes, name: str, channels: int) -> None:
    shapes[name + ".alpha"] = (channels,)
    shapes[name + ".beta"] = (channels,)


def decoder_shapes(config: Config) -> Shapes:
    """The speech decoder (`decoder.*` of speech_tokenizer/)."""
    latent, hidden, ffn = config["latent_dim"], config["hidden_size"], config["intermediate_size"]
    codebook, width = config["codebook_dim"], config["decoder_dim"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes: Shapes = {}
    for name, layers in (("first", 1), ("rest", config["num_quantizers"] - 1)):
        quantizer = f"decoder.quantizer.rvq_{name}"
        _quantizer(shapes, quantizer, layers, config["codebook_size"], codebook // 2, codebook)
    _convolution(shapes, "decoder.pre_conv", latent, codebook, 3)
    transformer = "decoder.pre_transformer."
    shapes[transformer + "input_proj.weight"] = (hidden, latent)
    shapes[transformer + "input_proj.bias"] = (hidden,)
    for index in range(config["num_hidden_layers"]):
        layer = f"{transformer}layers.{index}."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        shapes[layer + "self_attn.q_proj.weight"] = (queries, hidden)
        shapes[layer + "self_attn.k_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.v_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, queries)
        shapes[layer + "self_attn_layer_scale.scale"] = (hidden,)
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        shapes[layer + "mlp.gate_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, ffn)
        shapes[layer + "mlp_layer_scale.scale"] = (hidden,)
    shapes[transformer + "norm.weight"] = (hidden,)
    shapes[transformer + "output_proj.weight"] = (latent, hidden)
    shapes[transformer + "output_proj.bias"] = (latent,)
    for index, factor in enumerate(config["upsampling_ratios"]):
        stage = f"decoder.upsample.{index}."
        shapes[stage + "0.conv.weight"] = (latent, latent, factor)
        shapes[stage + "0.conv.bias"] = (latent,)
        _convolution(shapes, stage + "1.dwconv", latent, 1, 7)
        shapes[stage + "1.norm.weight"] = (latent,)
        shapes[stage + "1.norm.bias"] = (latent,)
        shapes[stage + "1.pwconv1.weight"] = (4 * latent, latent)
        shapes[stage + "1.pwconv1.bias"] = (4 * latent,)
        shapes[stage + "1.pwconv2.weight"] = (latent, 4 * latent)
        shapes[stage + "1.pwconv2.bias"] = (latent,)
        shapes[stage + "1.gamma"] = (latent,)
    _convolution(shapes, "decoder.decoder.0", width, latent, 7)
    rates = config["upsample_rates"]
    for index, rate in enumerate(rates):
        block, inputs, outputs = f"decoder.decoder.{index + 1}.block.", width >> index, width >> (index + 1)
        _snake(shapes, block + "0", inputs)
        shapes[block + "1.conv.weight"] = (inputs, outputs, 2 * rate)
        shapes[block + "1.conv.bias"] = (outputs,)
        for unit in (2, 3, 4):
            _snake(shapes, f"{block}{unit}.act1", outputs)
            _convolution(shapes, f"{block}{unit}.conv1", outputs, outputs, 7)
            _snake(shapes, f"{block}{unit}.act2", outputs)
            _convolution(shapes, f"{block}{unit}.conv2", outputs, outputs, 1)
    last = width >> len(rates)
    _snake(shapes, f"decoder.decoder.{len(rates) + 1}", last)
    _convolution(shapes, f"decoder.decoder.{len(rates) + 2}", 1, last, 7)
    return shapes


def codec_encoder_shapes(config: Config) -> Shapes:
    """The Mimi encoder of the speech tokenizer (`encoder.*` of speech_tokenizer/)."""
    hidden, filters, ffn = config["hidden_size"], config["num_filters"], config["intermediate_size"]
    kernel, inner = config["kernel_size"], config["vector_quantization_hidden_dimension"]
    shapes: Shapes = {}
    convolutions = "encoder.encoder.layers."
    _convolution(shapes, convolutions + "0", filters, config["audio_channels"], kernel)
    position = 1
    for ratio in reversed(config["upsampling_ratios"]):
        for _ in range(config["num_residual_layers"]):
            narrow = filters // config["compress"]
            _convolution(
                shapes, f"{convolutions}{position}.block.1", narrow, filters, config["residual_kernel_size"]
            )
            _convolution(shapes, f"{convolutions}{position}.block.3", filters, narrow, 1)
            position += 1
        _convolution(shapes, f"{convolutions}{position + 1}", 2 * filters, filters, 2 * ratio)
        filters, position = 2 * filters, position + 2
    last = f"{convolutions}{position + 1}"
    _convolution(shapes, last, hidden, filters, config["last_kernel_size"])
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.encoder_transformer.layers.{index}."
        shapes[layer + "self_attn.q_proj.weight"] = (queries, hidden)
        shapes[layer + "self_attn.k_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.v_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, queries)
        shapes[layer + "mlp.fc1.weight"] = (ffn, hidden)
        shapes[layer + "mlp.fc2.weight"] = (hidden, ffn)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{norm}.weight"] = (hidden,)
            shapes[f"{layer}{norm}.bias"] = (hidden,)
        shapes[layer + "self_attn_layer_scale.scale"] = (hidden,)
        shapes[layer + "mlp_layer_scale.scale"] = (hidden,)
    shapes["encoder.downsample.conv.weight"] = (hidden, hidden, 4)
    semantic = config["num_semantic_quantizers"]
    for kind, layers in (("semantic", semantic), ("acoustic", config["num_quantizers"] - semantic)):
        name = f"encoder.quantizer.{kind}_residual_vector_quantizer"
        shapes[name + ".input_proj.weight"] = (inner, hidden, 1)
        shapes[name + ".output_proj.weight"] = (hidden, inner, 1)
        for index in range(layers):
            book = f"{name}.layers.{index}.codebook."
            shapes[book + "initialized"] = (1,)
            shapes[book + "cluster_usage"] = (config["codebook_size"],)
            shapes[book + "embed_sum"] = (config["codebook_size"], config["codebook_dim"])
    return shapes


def model_shapes(config: Config) -> Shapes:
    """Everything in model.safetensors: the talker and, in Base checkpoints, the speaker encoder."""
    shapes = talker_shapes(config["talker_config"])
    if config["tts_model_type"] == "base":
        shapes |= speaker_encoder_shapes(config["speaker_encoder_config"])
    return shapes


def speech_tokenizer_shapes(config: Config) -> Shapes:
    """Everything in speech_tokenizer/model.safetensors."""
    return codec_encoder_shapes(config["encoder_config"]) | decoder_shapes(config["decoder_config"])
