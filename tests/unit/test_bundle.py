"""The bundle store refuses by name whatever is missing, damaged or hostile, before a library loads it."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import model_files
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgettsd.errors import ModelInvalidError
from edgettsd.families.qwen3_tts.manifest import FILES
from edgettsd.models.gguf import read_gguf_header
from edgettsd.models.manifest import parse_manifest
from edgettsd.models.safetensors import SafetensorsFile
from edgettsd.models.store import open_bundle

EMBEDDINGS = "embeddings.safetensors"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of the tiny bundle to damage."""
    return model_files.copy(model_files.bundle(), tmp_path / "bundle")


def _refused(folder: Path, message: str, verify: str = "size") -> None:
    with pytest.raises(ModelInvalidError, match=message):
        open_bundle(folder, verify)


# --- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_file_is_named(name: str, damaged: Path) -> None:
    (damaged / name).unlink()
    _refused(damaged, f"{name} is missing")


@pytest.mark.parametrize("name", FILES)
def test_a_cut_off_file_is_named(name: str, damaged: Path) -> None:
    data = (damaged / name).read_bytes()
    model_files.replace(damaged / name, data[:-1])
    _refused(damaged, f"{name} has {len(data) - 1} bytes, {len(data)} are needed")
    model_files.restate(damaged)
    if name != "decoder.tflite":
        _refused(damaged, name)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_by_full_verification(name: str, damaged: Path) -> None:
    data = bytearray((damaged / name).read_bytes())
    data[-100] ^= 4
    model_files.replace(damaged / name, bytes(data))
    _refused(damaged, f"{name} is damaged: SHA-256 is", "full")


def test_an_undamaged_copy_opens_both_ways(damaged: Path) -> None:
    for verify in ("size", "full"):
        assert open_bundle(str(damaged), verify).files["talker.gguf"] == damaged / "talker.gguf"
    with pytest.raises(ValueError, match="verify is 'quick'; allowed are size, full"):
        open_bundle(damaged, "quick")


def test_links_may_stay_inside_but_not_lead_out(damaged: Path, tmp_path: Path) -> None:
    file = damaged / "talker.gguf"
    file.rename(damaged / "real")
    file.symlink_to("real")
    open_bundle(damaged)
    (damaged / "real").rename(tmp_path / "real")
    file.unlink()
    file.symlink_to(tmp_path / "real")
    _refused(damaged, f"talker.gguf leads out of the bundle, to {tmp_path / 'real'}")
    file.unlink()
    file.symlink_to("talker.gguf")
    _refused(damaged, "talker.gguf")


def test_the_bundle_itself_may_be_a_link(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "default").symlink_to(damaged)
    assert open_bundle(tmp_path / "default").manifest.name == open_bundle(damaged).manifest.name


@pytest.mark.parametrize("name", ["talker.gguf", "manifest.json"])
def test_what_is_no_regular_file_is_refused_without_opening_it(name: str, damaged: Path) -> None:
    (damaged / name).unlink()
    os.mkfifo(damaged / name)
    _refused(damaged, f"{name} is not a regular file")


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    _refused(tmp_path / "file", "file is not a folder")
    _refused(tmp_path / "none", "none is missing")


# --- tensors ---------------------------------------------------------------------------------------------


def _names(file: str, size: str = "tiny") -> list[str]:
    # Written out here, so that collecting the tests needs no bundle; `test_names_are_complete` compares them.
    layers = 2
    parts = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm")
    parts += ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    blocks = [f"blk.{layer}.{part}.weight" for layer in range(layers) for part in parts]
    if file == "talker.gguf":
        return ["token_embd.weight", *blocks, "output_norm.weight", "output.weight"]
    if file == "predictor.gguf":
        projection = ["input_proj.weight", "input_proj.bias"] if size == "tiny17" else []
        return [*blocks, "output_norm.weight", *(f"head.{n}.weight" for n in range(1, 16)), *projection]
    return ["text", *(f"codec.{n}" for n in range(16))]


@pytest.mark.parametrize("size", ["tiny", "tiny17"])
def test_names_are_complete(size: str) -> None:
    folder = model_files.bundle(size)
    for file in ("talker.gguf", "predictor.gguf"):
        assert list(read_gguf_header(folder / file).tensors) == _names(file, size)
    with SafetensorsFile(folder / EMBEDDINGS) as tables:
        assert list(tables) == _names(EMBEDDINGS)


def _without(folder: Path, file: str, name: str) -> None:
    if file == EMBEDDINGS:
        model_files.edit_safetensors(folder / file, lambda tensors: tensors.pop(name), "F16")
    else:
        model_files.replace(folder / file, model_files.gguf_without(folder / file, name))
    model_files.restate(folder)


@pytest.mark.parametrize(
    "file, name", [(file, name) for file in ("talker.gguf", "predictor.gguf") for name in _names(file)]
)
def test_a_missing_tensor_of_a_language_model_is_named(file: str, name: str, damaged: Path) -> None:
    _without(damaged, file, name)
    _refused(damaged, rf"{file}: tensor {name} is missing$")


@pytest.mark.parametrize("name", _names(EMBEDDINGS))
def test_a_missing_embedding_table_is_named(name: str, damaged: Path) -> None:
    _without(damaged, EMBEDDINGS, name)
    _refused(damaged, rf"{EMBEDDINGS}: tensor {name} is missing$")


@pytest.mark.parametrize("name", ["input_proj.weight", "input_proj.bias"])
def test_a_missing_input_projection_is_named(name: str, tmp_path: Path) -> None:
    folder = model_files.copy(model_files.bundle("tiny17"), tmp_path / "bundle")
    _without(folder, "predictor.gguf", name)
    _refused(folder, rf"predictor.gguf: tensor {name} is missing$")


def test_an_extra_or_misshapen_table_is_named(damaged: Path) -> None:
    file = damaged / EMBEDDINGS
    model_files.edit_safetensors(file, lambda t: t.update({"codec.16": t["codec.15"]}), "F16")
    model_files.restate(damaged)
    _refused(damaged, r"tensor codec.16 does not belong there")
    model_files.edit_safetensors(file, lambda t: [t.pop("codec.16"), t.update(text=t["text"][:-1])], "F16")
    model_files.restate(damaged)
    _refused(damaged, r"tensor text has shape \[151935, 64\], \[151936, 64\] is needed")


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda m: m["talker"].update(hidden=128) or m["predictor"].update(input_hidden=128),
            "qwen3.embedding_length is 64, 128",
        ),
        (lambda m: m["talker"].update(layers=3), "qwen3.block_count is 2, 3 is needed"),
        (
            lambda m: m["talker"].update(rope_theta=1e4),
            r"qwen3.rope.freq_base is 1000000.0, 10000.0 is needed",
        ),
        (lambda m: m["talker"].update(vocab=4096), "qwen3.vocab_size is 3072, 4096 is needed"),
        (lambda m: m["predictor"].update(ffn=64), "predictor.feed_forward_length is 128, 64"),
        (lambda m: m.update(code_groups=8), "code_groups is 16, 8 is needed"),
        (lambda m: m["text"].update(vocab=152000), "tokenizer.ggml.tokens has 151936 entries, 152000"),
        (lambda m: m["embeddings"].update(dtype="f32"), "tensor text has dtype F16, allowed are F32"),
        (lambda m: m["voices"].update(x={"row": "speaker.x"}), "tensor speaker.x is missing"),
    ],
)  # fmt: skip
def test_sizes_of_manifest_and_files_must_agree(
    change: Callable[[dict[str, Any]], Any], message: str, damaged: Path
) -> None:
    model_files.edit_json(damaged / "manifest.json", change)
    _refused(damaged, message)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind_is_named(name: str, damaged: Path) -> None:
    model_files.replace(damaged / name, b"\0" * 4096)
    model_files.restate(damaged)
    _refused(damaged, name)


# --- the manifest ----------------------------------------------------------------------------------------


def _manifest() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((model_files.bundle() / "manifest.json").read_text())
    return value


def _paths(value: dict[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, item in value.items():
        yield (*prefix, key)
        if isinstance(item, dict):
            yield from _paths(item, (*prefix, key))


def _parent(value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in path[:-1]:
        value = value[key]
    return value


FREE = {"source"}
OPEN_TABLES = {"languages", "voices", "source"}
OPTIONAL = {"languages", "dialect"}


def test_every_missing_key_is_named() -> None:
    whole = _manifest()
    checked = 0
    for path in _paths(whole):
        if (path[0] in FREE and len(path) > 1) or (path[0] in OPEN_TABLES and len(path) == 2):
            continue
        if path[0] == "voices" and path[-1] in OPTIONAL:
            continue
        broken = copy.deepcopy(whole)
        del _parent(broken, path)[path[-1]]
        with pytest.raises(ModelInvalidError) as caught:
            parse_manifest(json.dumps(broken).encode(), "m")
        assert path[-1] in str(caught.value), path
        checked += 1
    assert checked > 70


@pytest.mark.parametrize("wrong", [None, [], {}, True, -1, 1e300, "", "\0", ["x"], {"x": 1}])
def test_every_wrong_type_is_named(wrong: Any) -> None:
    whole = _manifest()
    for path in _paths(whole):
        if path[0] in FREE and len(path) > 1:
            continue
        value = _parent(whole, path)[path[-1]]
        # A table of ids by any name; the voices' dialects are what no longer fits then.
        table = (path == ("languages",) and isinstance(wrong, dict)) or (path == ("voices",) and wrong == {})
        fits = (
            (isinstance(wrong, bool) and isinstance(value, bool))
            or (path in (("name",), ("license",)) and isinstance(wrong, str))
            or (path[0] == "voices" and path[-1] in OPTIONAL and (wrong is None or wrong == []))
            or (path[0] in FREE and isinstance(wrong, dict))
            or (path == ("sampling", "suppress") and wrong == [])
            or table
        )
        if fits:
            continue
        broken = copy.deepcopy(whole)
        _parent(broken, path)[path[-1]] = wrong
        with pytest.raises(ModelInvalidError) as caught:
            parse_manifest(json.dumps(broken).encode(), "m")
        assert str(caught.value).startswith("m: "), path
        assert path[-1] in str(caught.value) or path[0] in str(caught.value), (path, str(caught.value))


def test_every_unknown_key_is_named() -> None:
    whole = _manifest()
    tables = [path for path in _paths(whole) if isinstance(_parent(whole, path)[path[-1]], dict)]
    for path in [(), *tables]:
        if (path and path[0] in FREE) or path in (("languages",), ("voices",)):
            continue
        broken = copy.deepcopy(whole)
        table = broken
        for key in path:
            table = table[key]
        table["surprise"] = 1
        with pytest.raises(ModelInvalidError, match="surprise"):
            parse_manifest(json.dumps(broken).encode(), "m")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda m: m.update(format=2), "format is 2; this version of edgettsd reads format 1"),
        (lambda m: m.update(format=True), "format is True"),
        (lambda m: m.update(family="bark"), "family is 'bark'; allowed are qwen3-tts-12hz"),
        (lambda m: m.update(task="sing"), "task is 'sing'; allowed are custom_voice, voice_design, base"),
        (lambda m: m.update(layout="x"), "layout is 'x'; allowed are streaming, full"),
        (lambda m: m["talker"].update(precision="q3"), "talker.precision is 'q3'; allowed are f32, f16"),
        (lambda m: m["talker"].update(kv_heads=3), "talker.kv_heads is 3; a divisor of heads, 4"),
        (lambda m: m["talker"].update(head_dim=33), "talker.head_dim is 33; an even number"),
        (
            lambda m: m["talker"].update(hidden=1 << 30),
            "talker.hidden is 1073741824; a whole number from 2 to",
        ),
        (lambda m: m["predictor"].update(input_hidden=65), "input_hidden must be talker.hidden, 64"),
        (lambda m: m["decoder"].update(chunks=[4, 1]), r"decoder.chunks is \[4, 1\]; ascending"),
        (lambda m: m["schedule"].update(chunks=[2]), r"schedule.chunks is \[2\]; the decoder has 1, 4, 8"),
        (lambda m: m["schedule"].update(kind="x"), "schedule.kind is 'x'; allowed are fixed, ramp, adaptive"),
        (
            lambda m: m["codec_tokens"].update(eos=3072),
            "codec_tokens.eos is 3072; a whole number from 0 to 3071",
        ),
        (lambda m: m["tokens"].update(im_end=151936), "tokens.im_end is 151936"),
        (lambda m: m["languages"].update(elvish=-1), "languages.elvish is -1"),
        (lambda m: m["voices"].update(x={}), "voices.x is {}; either codec_id or row is needed"),
        (lambda m: m["voices"].update(x={"row": "text"}), "voices.x.row is 'text'; a tensor name"),
        (
            lambda m: m["voices"].update(x={"codec_id": 1, "dialect": "no"}),
            "voices.x.dialect is 'no'; allowed are",
        ),
        (lambda m: m["voices"].update(x={"codec_id": 1, "languages": ["no"]}), "voices.x.languages is"),
        (lambda m: m["sampling"].update(suppress=[[2048, 3073]]), r"suppress is \[\[2048, 3073\]\]"),
        (lambda m: m["sampling"].update(suppress=[[5, 5]]), r"suppress is \[\[5, 5\]\]"),
        (
            lambda m: m["sampling"]["talker"].update(temperature=0),
            "sampling.talker.temperature is 0; a number",
        ),
        (
            lambda m: m["files"].update({"../x": {}}),
            r"files.../x is \{\}; this name is not a plain file name",
        ),
        (
            lambda m: m["files"].update({"/etc/passwd": {}}),
            "this name is not a plain file name, allowed are talker",
        ),
        (lambda m: m["files"].update({"..": {}}), "this name is not a plain file name"),
        (lambda m: m["files"].update({"spare.bin": {}}), "this name is unknown, allowed are talker.gguf"),
        (lambda m: m["files"]["talker.gguf"].update(sha256="A" * 64), "64 lower-case hexadecimal digits"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    broken = _manifest()
    change(broken)
    with pytest.raises(ModelInvalidError, match=message):
        parse_manifest(json.dumps(broken).encode(), "m")


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "not valid JSON"),
        (b"[]", r"the manifest is \[\]; a table is needed"),
        (b"\xff", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b'{"format": 1, "format": 1}', "'format' appears twice"),
        (b" " * (1 << 21), "at most 1048576 are allowed"),
    ],
)
def test_hostile_manifests(data: bytes, message: str) -> None:
    with pytest.raises(ModelInvalidError, match=message):
        parse_manifest(data, "m")


def test_numbers_that_json_should_not_have_are_refused() -> None:
    text = json.dumps(_manifest()).replace('"rope_theta": 1000000.0', '"rope_theta": NaN')
    with pytest.raises(ModelInvalidError, match="rope_theta is nan; a number from"):
        parse_manifest(text.encode(), "m")


# --- GGUF headers ----------------------------------------------------------------------------------------


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _gguf(keys: list[bytes], tensors: list[bytes], data: bytes = bytes(64), **counts: int) -> bytes:
    numbers = {"version": 3, "n_tensors": len(tensors), "n_keys": len(keys)} | counts
    head = b"GGUF" + struct.pack("<IQQ", *numbers.values())
    head += b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


def _key(name: str = "k", kind: int = 4, value: bytes = b"\1\0\0\0") -> bytes:
    return _text(name) + struct.pack("<I", kind) + value


def _info(name: str = "t", shape: tuple[int, ...] = (8, 2), kind: int = 0, offset: int = 0) -> bytes:
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARRAY = struct.pack("<IQ", 8, 2) + _text("ab") + _text("c")
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes are too few"),
    "magic": (b"GGML" + bytes(60), "not a GGUF file"),
    "version": (_gguf([], [], version=2), "GGUF version 2, 3 is needed"),
    "many tensors": (_gguf([], [], n_tensors=2**60), "tensors, at most 65536"),
    "many keys": (_gguf([], [], n_keys=2**60), "keys, at most 4096"),
    "keys beyond the end": (_gguf([], [], n_keys=4096), "key|cut off"),
    "long name": (_gguf([struct.pack("<Q", 2**62)], []), "key name of 4611686018427387904 bytes"),
    "name not text": (_gguf([struct.pack("<Q", 2) + b"\xff\xff" + bytes(8)], []), "is not UTF-8"),
    "long string": (_gguf([_key("s", 8, struct.pack("<Q", 2**40))], []), "key s of 1099511627776 bytes"),
    "key type": (_gguf([_key("k", 13)], []), "key k has unknown type 13"),
    "key twice": (_gguf([_key(), _key()], []), "key k appears twice"),
    "array type": (_gguf([_key("a", 9, struct.pack("<IQ", 9, 1))], []), "key a: array of unknown type 9"),
    "long array": (_gguf([_key("a", 9, struct.pack("<IQ", 4, 2**61))], []), "cut off"),
    "long string array": (_gguf([_key("a", 9, struct.pack("<IQ", 8, 2**61))], []), "does not fit"),
    "string in array": (_gguf([_key("a", 9, struct.pack("<IQQ", 8, 1, 2**63))], []), "cut off"),
    "alignment": (_gguf([_key("general.alignment", 4, b"\3\0\0\0")], []), "general.alignment is 3"),
    "zero alignment": (_gguf([_key("general.alignment", 4, bytes(4))], []), "general.alignment is 0"),
    "tensor twice": (_gguf([], [_info(), _info()]), "tensor t appears twice"),
    "dimensions": (_gguf([], [_info(shape=(1,) * 5)]), "tensor t has 5 dimensions, 1 to 4"),
    "no dimensions": (_gguf([], [_info(shape=())]), "tensor t has 0 dimensions"),
    "tensor type": (_gguf([], [_info(kind=99)]), "tensor t has type number 99, known are f32"),
    "half a block": (_gguf([], [_info(shape=(33, 1), kind=8)]), r"rows of 33, not a multiple of 32 \(q8_0\)"),
    "huge": (_gguf([], [_info(shape=(2**62, 2**62))]), "tensor t ends at byte .*is it cut off"),
    "empty tensor": (_gguf([], [_info(shape=(8, 0))]), "tensor t is empty"),
    "beyond": (_gguf([], [_info(offset=32)]), "tensor t ends at byte .*is it cut off"),
    "far": (_gguf([], [_info(offset=2**63)]), "tensor t ends at byte"),
    "unaligned": (_gguf([], [_info(offset=4)]), "tensor t is at offset 4, not a multiple of 32"),
    "overlap": (_gguf([], [_info("a"), _info("b", offset=32)], bytes(128)), "tensor b overlaps"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_gguf_headers_are_refused_by_name(case: str, tmp_path: Path) -> None:
    data, message = HOSTILE[case]
    file = tmp_path / "x.gguf"
    file.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ModelInvalidError, match=message) as caught:
            read_gguf_header(file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert str(file) in str(caught.value)


def _sound() -> bytes:
    keys = [_key(), _key("s", 8, _text("qwen3")), _key("a", 9, ARRAY), _key("b", 7, b"\1")]
    return _gguf(keys, [_info("a"), _info("b", (32, 1), 8, 64)], bytes(64 + 34))


def test_a_sound_header_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(_sound())
    header = read_gguf_header(file)
    assert dict(header.values) == {"k": 1, "s": "qwen3", "b": True}
    assert dict(header.arrays) == {"a": 2}
    assert header.tensors["a"].shape == (2, 8) and header.tensors["b"].type == "q8_0"
    for value in (True, 2, "1", 1.0000001):
        if value != 1:
            with pytest.raises(ModelInvalidError, match="key k is 1"):
                header.expect_value("k", value)
    with pytest.raises(ModelInvalidError, match="key z is missing"):
        header.expect_value("z", 1)
    with pytest.raises(ModelInvalidError, match="tensor b does not belong there"):
        header.expect_tensors({"a": (2, 8)})
    with pytest.raises(ModelInvalidError, match=r"tensor a has shape \[2, 8\], \[8, 2\] is needed"):
        header.expect_tensors({"a": (8, 2)})


def test_every_truncation_of_a_gguf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    for length in range(len(_sound())):
        file.write_bytes(_sound()[:length])
        with pytest.raises(ModelInvalidError):
            read_gguf_header(file)


@settings(max_examples=300)
@given(st.data())
def test_no_damage_of_a_gguf_is_worse_than_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    file = tmp_path_factory.mktemp("g") / "x.gguf"
    content = bytearray(_sound())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    with contextlib.suppress(ModelInvalidError):
        for tensor in read_gguf_header(file).tensors.values():
            assert tensor.offset + tensor.nbytes <= len(content)
