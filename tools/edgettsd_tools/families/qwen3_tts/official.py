"""The official Qwen3-TTS PyTorch code, observed from outside: loading, hooks and logits processors.

Only the oracle imports this module, and only inside the evaluation environment (extra ``[eval]``).
Nothing of the model is reimplemented here: every array comes out of a hook on the official code.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd_tools.families.qwen3_tts.frontend import FOLDER, TemplateIds

STUBS = ("sox", "onnxruntime", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")


def stub_unused_imports() -> None:
    """Put empty modules where the official package imports what only its 25 Hz tokenizer uses."""
    for name in STUBS:
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__spec__ = types.SimpleNamespace(name=name, origin="stub")  # type: ignore[assignment]
            sys.modules[name] = module
    sys.modules["torchaudio"].compliance = sys.modules["torchaudio.compliance"]  # type: ignore[attr-defined]
    sys.modules["torchaudio.compliance"].kaldi = sys.modules[  # type: ignore[attr-defined]
        "torchaudio.compliance.kaldi"
    ]


def versions() -> dict[str, str]:
    """Versions of what decides the reference numbers."""
    from importlib.metadata import version

    names = ("torch", "transformers", "tokenizers", "qwen-tts", "numpy")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}


@contextmanager
def text_processor(checkpoint: Path) -> Iterator[None]:
    """A checkpoint with a front end of its own gets that in the place of the tokenizer it does not have.

    All that the official code takes from its processor is the ids of a text.
    """
    if not (checkpoint / FOLDER).is_dir():
        yield
        return
    import torch
    from transformers import AutoProcessor

    ids = TemplateIds(checkpoint)

    def process(text: str, **_options: Any) -> dict[str, Any]:
        return {"input_ids": torch.tensor([ids(text)], dtype=torch.long)}

    ordinary = AutoProcessor.__dict__["from_pretrained"]
    AutoProcessor.from_pretrained = staticmethod(lambda *_args, **_options: process)
    try:
        yield
    finally:
        AutoProcessor.from_pretrained = ordinary


def load(checkpoint: Path) -> Any:
    """The official `Qwen3TTSModel` of a checkpoint folder, in float32 on the CPU with plain attention."""
    stub_unused_imports()
    import torch
    from qwen_tts import Qwen3TTSModel

    torch.manual_seed(0)
    with text_processor(checkpoint):
        model = Qwen3TTSModel.from_pretrained(
            str(checkpoint), dtype=torch.float32, device_map="cpu", attn_implementation="eager"
        )
    model.model.eval()
    if model.model.config.talker_config.hidden_size < 512:
        # The threads of a tiny model cost more than they compute.
        torch.set_num_threads(1)
    return model


@dataclass
class Trace:
    """What one official `generate` call saw. Arrays are float32 unless said otherwise.

    `ids` and `instruct_ids` int32 [n]; `prompt` [n, H]; `trailing` [m, H]; `pad_row` [H];
    `hidden` [steps, H] and `logits` [steps, V]: last position of every talker forward, the first one the
    prefill; `sub_logits` [frames, 15, W]: the predictor's logits; `codes` int16 [frames, 16].
    """

    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    instruct_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    prompt: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    trailing: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    pad_row: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    hidden: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    logits: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    sub_logits: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0), np.float32))
    codes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int16))
    talker_processors: Any = None
    predictor_processors: Any = None


def _f32(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor.detach().to("cpu").float().numpy()
    return np.ascontiguousarray(array)


@contextmanager
def observed(model: Any) -> Iterator[Trace]:
    """Hook the official model for one generate call; the trace is complete when the block ends."""
    inner = model.model
    talker, predictor = inner.talker, inner.talker.code_predictor
    trace = Trace()
    hidden: list[np.ndarray] = []
    logits: list[np.ndarray] = []
    sub: list[np.ndarray] = []
    generate, talker_generate = inner.generate, talker.generate
    make_talker, make_predictor = talker._get_logits_processor, predictor._get_logits_processor

    def on_generate(**kwargs: Any) -> Any:
        trace.ids = kwargs["input_ids"][0][0].numpy().astype(np.int32)
        instruct = kwargs.get("instruct_ids")
        if instruct is not None and instruct[0] is not None:
            trace.instruct_ids = instruct[0][0].numpy().astype(np.int32)
        codes, hiddens = generate(**kwargs)
        trace.codes = codes[0].numpy().astype(np.int16)
        return codes, hiddens

    def on_talker_generate(**kwargs: Any) -> Any:
        trace.prompt = _f32(kwargs["inputs_embeds"])[0]
        trace.trailing = _f32(kwargs["trailing_text_hidden"])[0]
        trace.pad_row = _f32(kwargs["tts_pad_embed"]).reshape(-1)
        return talker_generate(**kwargs)

    def talker_processors(*args: Any, **kwargs: Any) -> Any:
        trace.talker_processors = make_talker(*args, **kwargs)
        return trace.talker_processors

    def predictor_processors(*args: Any, **kwargs: Any) -> Any:
        trace.predictor_processors = make_predictor(*args, **kwargs)
        return trace.predictor_processors

    def after_talker(_module: Any, _args: Any, output: Any) -> None:
        hidden.append(_f32(output.past_hidden)[0, -1])
        logits.append(_f32(output.logits)[0, -1])

    def after_predictor(_module: Any, _args: Any, output: Any) -> None:
        sub.append(_f32(output.logits)[0, -1])

    hooks = [talker.register_forward_hook(after_talker), predictor.register_forward_hook(after_predictor)]
    inner.generate, talker.generate = on_generate, on_talker_generate
    talker._get_logits_processor = talker_processors
    predictor._get_logits_processor = predictor_processors
    try:
        yield trace
    finally:
        for hook in hooks:
            hook.remove()
        for owner, name in (
            (inner, "generate"),
            (talker, "generate"),
            (talker, "_get_logits_processor"),
            (predictor, "_get_logits_processor"),
        ):
            delattr(owner, name)
    trace.hidden = np.stack(hidden)
    trace.logits = np.stack(logits)
    if sub:
        groups = inner.talker.config.num_code_groups - 1
        trace.sub_logits = np.stack(sub).reshape(-1, groups, sub[0].shape[-1])


def processed_distribution(
    processors: Any, logits: np.ndarray, history: np.ndarray, do_sample: bool
) -> np.ndarray:
    """Probabilities [V] float32 that the official loop draws from.

    `processors` is a chain captured by `observed`; `logits` [V] float32; `history` int [n], the ids already
    generated by this loop. Without sampling the result is one-hot at the arg-max, as greedy search takes it.
    """
    import torch

    ids = torch.from_numpy(np.asarray(history, np.int64)).reshape(1, -1)
    scores = processors(ids, torch.from_numpy(np.asarray(logits, np.float32)).reshape(1, -1).clone())
    if do_sample:
        drawn: np.ndarray = _f32(torch.nn.functional.softmax(scores, dim=-1))[0]
        return drawn
    probs = np.zeros(scores.shape[-1], np.float32)
    probs[int(torch.argmax(scores, dim=-1))] = 1.0
    return probs


def snr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """Signal-to-noise ratio in dB of `other` against `reference`."""
    noise = float(np.sum((reference.astype(np.float64) - other) ** 2))
    signal = float(np.sum(reference.astype(np.float64) ** 2))
    return float("inf") if noise == 0.0 else 10.0 * float(np.log10(signal / noise))


def rounding_db(model: Any, codes: np.ndarray) -> float:
    """SNR in dB of the decoder's forward in float32 against the same in float64, of codes [T, groups]."""
    import copy

    import torch

    decoder = model.model.speech_tokenizer.model.decoder
    tensor = torch.from_numpy(codes.astype(np.int64)).T.unsqueeze(0)
    with torch.inference_mode():
        single = decoder(tensor).numpy()
        double = copy.deepcopy(decoder).double()(tensor).numpy()
    return snr_db(double, single)


def full_decode(model: Any, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PCM float32 [T*1920] of the decoder's one forward over all frames, and of its official chunked_decode.

    The two differ: chunked_decode with its 300-frame chunks equals the full forward below 300 frames, so the
    chunked result here uses chunks of 25 frames to show what re-decoding with 25 frames of context loses.
    """
    import torch

    decoder = model.model.speech_tokenizer.model.decoder
    tensor = torch.from_numpy(codes.astype(np.int64)).T.unsqueeze(0)
    with torch.inference_mode():
        whole = decoder(tensor)
        chunked = decoder.chunked_decode(tensor, chunk_size=25, left_context_size=25)
    return _f32(whole).reshape(-1), _f32(chunked).reshape(-1)


def generate(model: Any, task: str, arguments: Mapping[str, Any]) -> Trace:
    """Run the official wrapper of a task once and return the trace; the wrapper's PCM is not kept."""
    call = {
        "custom_voice": model.generate_custom_voice,
        "voice_design": model.generate_voice_design,
        "base": model.generate_voice_clone,
    }[task]
    with observed(model) as trace:
        call(**arguments)
    return trace
