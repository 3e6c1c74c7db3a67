"""The fields that the manifest of a Qwen3-TTS bundle has beside those of every family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from edgettsd import limits
from edgettsd.models._fields import Fields
from edgettsd.models.manifest import EMBEDDING_DTYPES, LM_PRECISIONS, Manifest, common

from .frontends import BPE, FRONTENDS

FAMILY = "qwen3-tts-12hz"
TASKS = ("custom_voice", "voice_design", "base")
SIZES = ("tiny", "0.6b", "1.7b")
LAYOUTS = ("streaming", "full")
COMMON_FILES = ("talker.gguf", "predictor.gguf", "embeddings.safetensors", "decoder.tflite")
TOKENS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")
CODEC_TOKENS = ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos")


def bundle_files(frontend: str) -> tuple[str, ...]:
    """Names of the files of a bundle with this text front end, the manifest apart."""
    return (*COMMON_FILES, *FRONTENDS[frontend].files)


FILES = bundle_files(BPE)


@dataclass(frozen=True, slots=True)
class TransformerSizes:
    """Sizes of the talker or the code predictor; it takes `input_hidden` and works in `hidden`."""

    hidden: int
    input_hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    rope_theta: float
    rms_eps: float
    max_context: int
    precision: str


@dataclass(frozen=True, slots=True)
class VoiceEntry:
    """A voice: either a codec row of the talker or a tensor of the embeddings file."""

    codec_id: int | None
    row: str | None
    dialect: str | None
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SamplingTable:
    """Sampling defaults of the talker or the predictor; top_k 0 means all."""

    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenManifest(Manifest):
    """A checked manifest of this family.

    `lead_frames` is how far the text is ahead of the audio (front ends with a token a frame), in frames.
    """

    task: str
    size: str
    talker: TransformerSizes
    predictor: TransformerSizes
    embeddings_dtype: str
    text_frontend: str
    text_vocab: int
    lead_frames: int
    tokens: Mapping[str, int]
    codec_tokens: Mapping[str, int]
    languages: Mapping[str, int]
    voices: Mapping[str, VoiceEntry]
    supports_instruct: bool
    talker_sampling: SamplingTable
    predictor_sampling: SamplingTable
    min_new_tokens: int
    suppress: tuple[tuple[int, int], ...]
    max_frames: int
    layout: str


def parse(top: Fields) -> QwenManifest:
    """Check every field; raises ModelInvalidError."""
    talker, predictor = _talker(top.table("talker")), _predictor(top.table("predictor"))
    if predictor.input_hidden != talker.hidden:
        raise top.refuse("predictor", f"input_hidden must be talker.hidden, {talker.hidden}")
    frontend, text_vocab, lead_frames = _text(top.table("text"))
    embeddings = top.table("embeddings")
    embeddings_dtype = embeddings.text("dtype", EMBEDDING_DTYPES)
    embeddings.done()
    languages = _ids(top, "languages", (), talker.vocab)
    sampling = top.table("sampling")
    # A frame is a code of the talker's and one or more of the predictor's.
    top.whole("code_groups", 2, limits.MAX_GROUPS)
    manifest = QwenManifest(
        **common(top, bundle_files(frontend)),
        task=top.text("task", TASKS),
        size=top.text("size", SIZES),
        talker=talker,
        predictor=predictor,
        embeddings_dtype=embeddings_dtype,
        text_frontend=frontend,
        text_vocab=text_vocab,
        lead_frames=lead_frames,
        tokens=_tokens(top, frontend, text_vocab),
        codec_tokens=_ids(top, "codec_tokens", CODEC_TOKENS, talker.vocab),
        languages=languages,
        voices=_voices(top.table("voices"), languages, talker.vocab),
        supports_instruct=top.flag("supports_instruct"),
        talker_sampling=_sampling(sampling.table("talker"), penalty=True),
        predictor_sampling=_sampling(sampling.table("predictor"), penalty=False),
        min_new_tokens=sampling.whole("min_new_tokens", 0, 1 << 16),
        suppress=_suppress(sampling, talker.vocab),
        max_frames=sampling.whole("max_frames", 1, 1 << 20),
        layout=top.text("layout", FRONTENDS[frontend].layouts),
    )
    sampling.done()
    return manifest


def _transformer(
    table: Fields, layers: int, input_hidden: int | None, max_context: int | None
) -> TransformerSizes:
    hidden = table.whole("hidden", 2, limits.MAX_HIDDEN)
    heads = table.whole("heads", 1, limits.MAX_HEADS)
    kv_heads = table.whole("kv_heads", 1, heads)
    if heads % kv_heads:
        raise table.refuse("kv_heads", f"a divisor of heads, {heads}, is needed")
    head_dim = table.whole("head_dim", 2, limits.MAX_HEAD_DIM)
    if head_dim % 2:
        raise table.refuse("head_dim", "an even number is needed")
    sizes = TransformerSizes(
        hidden=hidden,
        input_hidden=hidden if input_hidden is None else input_hidden,
        layers=table.whole("layers", 1, layers),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=table.whole("ffn", 1, limits.MAX_FFN),
        vocab=table.whole("vocab", 2, limits.MAX_VOCAB),
        rope_theta=table.real("rope_theta", 1.0, 1e12),
        rms_eps=table.real("rms_eps", 0.0, 1.0),
        max_context=table.whole("max_context", 64, 1 << 20) if max_context is None else max_context,
        precision=table.text("precision", LM_PRECISIONS),
    )
    table.done()
    return sizes


def _talker(table: Fields) -> TransformerSizes:
    return _transformer(table, limits.MAX_TALKER_LAYERS, None, None)


def _predictor(table: Fields) -> TransformerSizes:
    # The predictor's context is one frame: the talker's hidden state and the codes of the frame.
    input_hidden = table.whole("input_hidden", 2, limits.MAX_HIDDEN)
    return _transformer(table, limits.MAX_PREDICTOR_LAYERS, input_hidden, 0)


def _text(table: Fields) -> tuple[str, int, int]:
    """Front end, number of text ids, and how many frames the text is ahead of the audio."""
    name, vocab = table.text("frontend", tuple(FRONTENDS)), table.whole("vocab", 1, 1 << 22)
    frontend = FRONTENDS[name]
    lead = table.whole("lead_frames", 0, 64) if frontend.timed else 0
    wanted = frontend.vocab()
    if wanted is not None and vocab != wanted:
        raise table.refuse("vocab", f"front end {name} has {wanted} ids")
    table.done()
    return name, vocab, lead


def _tokens(top: Fields, frontend: str, vocab: int) -> Mapping[str, int]:
    tokens = _ids(top, "tokens", TOKENS, vocab)
    fixed = FRONTENDS[frontend].special_ids()
    for name, token in tokens.items():
        if token != fixed.get(name, token):
            raise top.table("tokens").refuse(name, f"front end {frontend} has {fixed[name]} for it")
    return tokens


def _ids(top: Fields, key: str, names: tuple[str, ...], vocab: int) -> Mapping[str, int]:
    """A table of ids below `vocab`: exactly `names`, or any names when that is empty."""
    table = top.table(key)
    found = {name: table.whole(name, 0, vocab - 1) for name in (names or table.names())}
    table.done()
    return MappingProxyType(found)


def _voices(table: Fields, languages: Mapping[str, int], vocab: int) -> Mapping[str, VoiceEntry]:
    voices: dict[str, VoiceEntry] = {}
    for name, entry in table.tables():
        if entry.has("row") == entry.has("codec_id"):
            raise table.refuse(name, "either codec_id or row is needed")
        row = codec_id = dialect = None
        if entry.has("row"):
            row = entry.text("row")
            if not row.startswith("speaker."):
                raise entry.refuse("row", "a tensor name that starts with speaker. is needed")
        else:
            codec_id = entry.whole("codec_id", 0, vocab - 1)
        if entry.has("dialect") and entry.any("dialect") is not None:
            dialect = entry.text("dialect")
            if dialect not in languages:
                raise entry.refuse("dialect", f"allowed are {', '.join(languages)}")
        spoken = entry.texts("languages") if entry.has("languages") else ()
        for language in spoken:
            if language not in languages:
                raise entry.refuse("languages", f"allowed are {', '.join(languages)}")
        entry.done()
        voices[name] = VoiceEntry(codec_id, row, dialect, spoken)
    return MappingProxyType(voices)


def _sampling(table: Fields, penalty: bool) -> SamplingTable:
    sampling = SamplingTable(
        do_sample=table.flag("do_sample"),
        temperature=table.real("temperature", 0.01, 10.0),
        top_k=table.whole("top_k", 0, 65536),
        top_p=table.real("top_p", 1e-6, 1.0),
        repetition_penalty=table.real("repetition_penalty", 0.1, 10.0) if penalty else 1.0,
    )
    table.done()
    return sampling


def _suppress(table: Fields, vocab: int) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of codec ids that are never sampled (end of speech excepted)."""
    value = table.any("suppress")
    ranges: list[tuple[int, int]] = []
    for item in value if isinstance(value, list) else [()]:
        pair = item if isinstance(item, list) and all(type(bound) is int for bound in item) else []
        if len(pair) != 2 or not 0 <= pair[0] < pair[1] <= vocab:
            raise table.refuse("suppress", f"a list of [first, end) within 0 to {vocab} is needed")
        ranges.append((pair[0], pair[1]))
    return tuple(ranges)
