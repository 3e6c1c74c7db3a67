"""The configuration files of random checkpoints, in the form of the official ones."""

from __future__ import annotations

from typing import Any

SIZES = ("tiny", "tiny17", "0.6b", "1.7b")
TASKS = ("custom_voice", "voice_design", "base")

# tts_model_size in config.json; the official code drops instructions when it is a substring of "0b6".
MODEL_SIZE = {"tiny": "tiny", "tiny17": "tiny", "0.6b": "0b6", "1.7b": "1b7"}

LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
    "beijing_dialect": 2074,
    "sichuan_dialect": 2062,
}
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
DIALECTS: dict[str, str] = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


def _talker_sizes(size: str) -> dict[str, Any]:
    true = {
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "text_hidden_size": 2048,
        "sections": [24, 20, 20],
    }
    tiny = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "text_hidden_size": 32,
        "sections": [6, 5, 5],
    }
    return {
        "tiny": tiny | {"hidden_size": 64, "intermediate_size": 128},
        "tiny17": tiny | {"hidden_size": 128, "intermediate_size": 256},
        "0.6b": true | {"hidden_size": 1024, "intermediate_size": 3072},
        "1.7b": true | {"hidden_size": 2048, "intermediate_size": 6144},
    }[size]


def _is_tiny(size: str) -> bool:
    return size.startswith("tiny")


def _predictor_config(size: str) -> dict[str, Any]:
    tiny = _is_tiny(size)
    layers = 2 if tiny else 5
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "head_dim": 32 if tiny else 128,
        "hidden_act": "silu",
        "hidden_size": 64 if tiny else 1024,
        "initializer_range": 0.02,
        "intermediate_size": 128 if tiny else 3072,
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "model_type": "qwen3_tts_talker_code_predictor",
        "num_attention_heads": 4 if tiny else 16,
        "num_code_groups": 16,
        "num_hidden_layers": layers,
        "num_key_value_heads": 2 if tiny else 8,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 2048,
    }


def model_config(size: str, task: str) -> dict[str, Any]:
    """config.json for a size of SIZES and a task of TASKS."""
    sizes = _talker_sizes(size)
    sections = sizes.pop("sections")
    named = task == "custom_voice"
    talker = sizes | {
        "attention_bias": False,
        "attention_dropout": 0,
        "code_predictor_config": _predictor_config(size),
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_language_id": dict(LANGUAGES),
        "codec_nothink_id": 2155,
        "codec_pad_id": 2148,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_think_id": 2154,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32768,
        "model_type": "qwen3_tts_talker",
        "num_code_groups": 16,
        "position_id_per_seconds": 13,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": sections,
            "rope_type": "default",
            "type": "default",
        },
        "rope_theta": 1000000,
        "sliding_window": None,
        "spk_id": dict(SPEAKERS) if named else {},
        "spk_is_dialect": {name: DIALECTS.get(name, False) for name in SPEAKERS} if named else {},
        "text_vocab_size": 151936,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 3072,
    }
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": 77091,
        "im_end_token_id": 151645,
        "im_start_token_id": 151644,
        "model_type": "qwen3_tts",
        "talker_config": talker,
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "transformers_version": "4.57.3",
        "tts_bos_token_id": 151672,
        "tts_eos_token_id": 151673,
        "tts_model_size": MODEL_SIZE[size],
        "tts_model_type": task,
        "tts_pad_token_id": 151671,
    }
    if task == "base":
        config["speaker_encoder_config"] = _speaker_encoder_config(size, talker["hidden_size"])
    return config


def _speaker_encoder_config(size: str, hidden: int) -> dict[str, Any]:
    tiny = _is_tiny(size)
    return {
        "enc_attention_channels": 16 if tiny else 128,
        "enc_channels": [32, 32, 32, 32, 96] if tiny else [512, 512, 512, 512, 1536],
        "enc_dilations": [1, 2, 3, 4, 1],
        "enc_dim": hidden,
        "enc_kernel_sizes": [5, 3, 3, 3, 1],
        "enc_res2net_scale": 8,
        "enc_se_channels": 16 if tiny else 128,
        "mel_dim": 128,
        "sample_rate": 24000,
    }


def generation_config() -> dict[str, Any]:
    """generation_config.json: the official sampling defaults."""
    return {
        "do_sample": True,
        "max_new_tokens": 8192,
        "repetition_penalty": 1.05,
        "subtalker_dosample": True,
        "subtalker_temperature": 0.9,
        "subtalker_top_k": 50,
        "subtalker_top_p": 1.0,
        "temperature": 0.9,
        "top_k": 50,
        "top_p": 1.0,
    }


def preprocessor_config() -> dict[str, Any]:
    """preprocessor_config.json beside the talker."""
    return {
        "padding_side": "left",
        "padding_value": 0.0,
        "processor_class": "Qwen3TTSProcessor",
        "return_attention_mask": True,
    }


def _decoder_config(size: str) -> dict[str, Any]:
    tiny = _is_tiny(size)
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "codebook_dim": 32 if tiny else 512,
        "codebook_size": 2048,
        "decoder_dim": 64 if tiny else 1536,
        "head_dim": 16 if tiny else 64,
        "hidden_act": "silu",
        "hidden_size": 32 if tiny else 512,
        "intermediate_size": 64 if tiny else 1024,
        "latent_dim": 32 if tiny else 1024,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "num_attention_heads": 2 if tiny else 16,
        "num_hidden_layers": 2 if tiny else 8,
        "num_key_value_heads": 2 if tiny else 16,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 4096,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 32 if tiny else 512,
    }


def _encoder_config(size: str) -> dict[str, Any]:
    tiny = _is_tiny(size)
    hidden = 32 if tiny else 512
    return {
        "_frame_rate": 12.5,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": hidden // 2,
        "codebook_size": 2048,
        "compress": 2,
        "dilation_growth_rate": 2,
        "head_dim": 16 if tiny else 64,
        "hidden_act": "gelu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": 64 if tiny else 2048,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-05,
        "num_attention_heads": 2 if tiny else 8,
        "num_filters": 4 if tiny else 64,
        "num_hidden_layers": 1 if tiny else 8,
        "num_key_value_heads": 2 if tiny else 8,
        "num_quantizers": 32,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "sliding_window": 250,
        "trim_right_ratio": 1.0,
        "upsample_groups": hidden,
        "upsampling_ratios": [8, 6, 5, 4],
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": hidden // 2,
    }


def speech_tokenizer_config(size: str) -> dict[str, Any]:
    """speech_tokenizer/config.json."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "decode_upsample_rate": 1920,
        "decoder_config": _decoder_config(size),
        "encode_downsample_rate": 1920,
        "encoder_config": _encoder_config(size),
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24000,
        "model_type": "qwen3_tts_tokenizer_12hz",
        "output_sample_rate": 24000,
        "transformers_version": "4.57.3",
    }


def feature_extractor_config() -> dict[str, Any]:
    """speech_tokenizer/preprocessor_config.json."""
    return {
        "chunk_length_s": None,
        "feature_extractor_type": "EncodecFeatureExtractor",
        "feature_size": 1,
        "overlap": None,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "sampling_rate": 24000,
    }
