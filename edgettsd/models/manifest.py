"""The manifest of a model bundle: what the model is, and what each of its files must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import ModelInvalidError
from ..frontends.english import frames
from ._fields import Fields

FORMAT = 1
FAMILY = "qwen3-tts-12hz"
TASKS = ("custom_voice", "voice_design", "base")
SIZES = ("tiny", "0.6b", "1.7b")
LM_PRECISIONS = ("f32", "f16", "q8_0", "q4_K", "q4_0")
DECODER_PRECISIONS = ("f32", "f16", "int8", "w8")
EMBEDDING_DTYPES = ("f32", "f16")
SCHEDULES = ("fixed", "ramp", "adaptive")
LAYOUTS = ("streaming", "full")
COMMON_FILES = ("talker.gguf", "predictor.gguf", "embeddings.safetensors", "decoder.tflite")
BPE, FRAMES = "qwen2-bpe", "en-frames"
FRONTENDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {BPE: ("tokenizer.gguf",), FRAMES: ("lexicon.bin", "letters.bin", "durations.bin")}
)
"""Text front ends with the files that each one adds to a bundle."""
FILES = (*COMMON_FILES, *FRONTENDS[BPE])
TOKENS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")
CODEC_TOKENS = ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos")
MAX_MANIFEST = 1 << 20


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the bundle: size in bytes and SHA-256 in lower-case hex."""

    size: int
    sha256: str


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
class DecoderInfo:
    """The decoder: precision of its weights, chunk sizes it has signatures for, number of state tensors."""

    precision: str
    chunks: tuple[int, ...]
    states: int


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


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest; `raw` is the same as plain JSON values.

    `lead_frames` is how far the text is ahead of the audio (front end en-frames), in frames.
    """

    task: str
    size: str
    name: str
    license: str
    source: Mapping[str, Any]
    sample_rate: int
    samples_per_frame: int
    code_groups: int
    files: Mapping[str, FileEntry]
    talker: TransformerSizes
    predictor: TransformerSizes
    decoder: DecoderInfo
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
    schedule_kind: str
    schedule_chunks: tuple[int, ...]
    layout: str
    raw: Mapping[str, Any]


def parse_manifest(data: bytes, source: str = "manifest.json") -> Manifest:
    """Check a manifest. `source` names the file in messages.

    Raises ModelInvalidError for whatever is missing, unknown, of a wrong type or out of range.
    """
    if len(data) > MAX_MANIFEST:
        raise ModelInvalidError(f"{source}: {len(data)} bytes, at most {MAX_MANIFEST} are allowed")
    try:
        raw = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{source}: not valid JSON: {error}") from None
    top = Fields(source, "", raw)
    version = top.any("format")
    if version != FORMAT or isinstance(version, bool):
        raise top.refuse("format", f"this version of edgettsd reads format {FORMAT}")
    top.text("family", (FAMILY,))
    talker, predictor = _talker(top.table("talker")), _predictor(top.table("predictor"))
    if predictor.input_hidden != talker.hidden:
        raise top.refuse("predictor", f"input_hidden must be talker.hidden, {talker.hidden}")
    frontend, text_vocab, lead_frames = _text(top.table("text"))
    embeddings = top.table("embeddings")
    embeddings_dtype = embeddings.text("dtype", EMBEDDING_DTYPES)
    embeddings.done()
    decoder, languages = _decoder(top.table("decoder")), _ids(top, "languages", (), talker.vocab)
    sampling = top.table("sampling")
    schedule = top.table("schedule")
    source_table = top.table("source")
    schedule_kind, schedule_chunks = _schedule(schedule, decoder)
    manifest = Manifest(
        task=top.text("task", TASKS),
        size=top.text("size", SIZES),
        name=top.text("name"),
        license=top.text("license", empty=True),
        source=MappingProxyType({key: source_table.any(key) for key in source_table.names()}),
        sample_rate=top.whole("sample_rate", 8000, 192000),
        samples_per_frame=top.whole("samples_per_frame", 1, 1 << 16),
        code_groups=top.whole("code_groups", 2, 32),
        files=_files(top.table("files"), bundle_files(frontend)),
        talker=talker,
        predictor=predictor,
        decoder=decoder,
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
        schedule_kind=schedule_kind,
        schedule_chunks=schedule_chunks,
        layout=top.text("layout", LAYOUTS if frontend == BPE else LAYOUTS[:1]),
        raw=MappingProxyType(raw),
    )
    sampling.done()
    top.done()
    return manifest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} appears twice")
        result[key] = value
    return result


def _transformer(table: Fields, input_hidden: int | None, max_context: int | None) -> TransformerSizes:
    hidden = table.whole("hidden", 2, 16384)
    heads = table.whole("heads", 1, 256)
    kv_heads = table.whole("kv_heads", 1, heads)
    if heads % kv_heads:
        raise table.refuse("kv_heads", f"a divisor of heads, {heads}, is needed")
    head_dim = table.whole("head_dim", 2, 256)
    if head_dim % 2:
        raise table.refuse("head_dim", "an even number is needed")
    sizes = TransformerSizes(
        hidden=hidden,
        input_hidden=hidden if input_hidden is None else input_hidden,
        layers=table.whole("layers", 1, 128),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=table.whole("ffn", 1, 65536),
        vocab=table.whole("vocab", 2, 65536),
        rope_theta=table.real("rope_theta", 1.0, 1e12),
        rms_eps=table.real("rms_eps", 0.0, 1.0),
        max_context=table.whole("max_context", 64, 1 << 20) if max_context is None else max_context,
        precision=table.text("precision", LM_PRECISIONS),
    )
    table.done()
    return sizes


def _talker(table: Fields) -> TransformerSizes:
    return _transformer(table, None, None)


def _predictor(table: Fields) -> TransformerSizes:
    # The predictor's context is one frame: the talker's hidden state and the codes of the frame.
    return _transformer(table, table.whole("input_hidden", 2, 16384), 0)


def _decoder(table: Fields) -> DecoderInfo:
    chunks = table.wholes("chunks", 1, 1024)
    if list(chunks) != sorted(set(chunks)):
        raise table.refuse("chunks", "ascending sizes are needed")
    info = DecoderInfo(table.text("precision", DECODER_PRECISIONS), chunks, table.whole("states", 1, 99))
    table.done()
    return info


def _schedule(table: Fields, decoder: DecoderInfo) -> tuple[str, tuple[int, ...]]:
    kind, chunks = table.text("kind", SCHEDULES), table.wholes("chunks", 1, 1024)
    if not set(chunks) <= set(decoder.chunks):
        raise table.refuse("chunks", f"the decoder has {', '.join(map(str, decoder.chunks))}")
    table.done()
    return kind, chunks


def bundle_files(frontend: str) -> tuple[str, ...]:
    """Names of the files of a bundle with this text front end, the manifest apart."""
    return (*COMMON_FILES, *FRONTENDS[frontend])


def _text(table: Fields) -> tuple[str, int, int]:
    """Front end, number of text ids, and how many frames the text is ahead of the audio."""
    frontend, vocab = table.text("frontend", tuple(FRONTENDS)), table.whole("vocab", 1, 1 << 22)
    lead = 0
    if frontend == FRAMES:
        lead = table.whole("lead_frames", 0, 64)
        if vocab != frames.VOCAB:
            raise table.refuse("vocab", f"front end {FRAMES} has {frames.VOCAB} ids")
    table.done()
    return frontend, vocab, lead


def _tokens(top: Fields, frontend: str, vocab: int) -> Mapping[str, int]:
    tokens = _ids(top, "tokens", TOKENS, vocab)
    if frontend == FRAMES:
        for name, token in tokens.items():
            if token != frames.SPECIAL_IDS[name]:
                raise top.table("tokens").refuse(
                    name, f"front end {FRAMES} has {frames.SPECIAL_IDS[name]} for it"
                )
    return tokens


def _files(table: Fields, wanted: tuple[str, ...]) -> Mapping[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for name in table.names():
        if name not in wanted:
            plain = not set(name) & set("/\\") and name not in (".", "..")
            what = "is unknown" if plain else "is not a plain file name"
            raise table.refuse(name, f"this name {what}, allowed are {', '.join(wanted)}")
    for name in wanted:
        entry = table.table(name)
        size, digest = entry.whole("size", 1, 1 << 48), entry.text("sha256")
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise entry.refuse("sha256", "64 lower-case hexadecimal digits are needed")
        entry.done()
        files[name] = FileEntry(size, digest)
    return MappingProxyType(files)


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
