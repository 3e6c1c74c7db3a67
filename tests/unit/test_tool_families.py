"""The tools know a family by its checkpoint or bundle, and another one converts through the same convert."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import model_files
import pytest
import toy_family
from edgettsd_tools import convert as tool
from edgettsd_tools import families, make_checkpoint, oracle, parity

from edgettsd import families as daemon
from edgettsd.errors import ModelInvalidError
from edgettsd.models.store import open_bundle


class ToyConversion:
    """A checkpoint of the toy family is a folder with the letters."""

    def __init__(self, folder: Path, options: Any, note: Any) -> None:
        if not (folder / "letters.txt").is_file():
            raise ModelInvalidError(f"{folder / 'letters.txt'} is missing")
        self.folder, self.closed = folder, False
        note("crickets are loud")
        opened.append(self)

    def write(self, partial: Path, name: str, source: Any, quiet: bool) -> dict[str, Any]:
        made = toy_family.write_bundle(partial / "toy")
        manifest: dict[str, Any] = json.loads((made / "manifest.json").read_text())
        (made / "manifest.json").unlink()
        for file in made.iterdir():
            file.rename(partial / file.name)
        made.rmdir()
        return manifest | {"name": name, "source": dict(source)}

    def close(self) -> None:
        self.closed = True


opened: list[ToyConversion] = []


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A checkpoint of the toy family, which device and tools know."""
    module, other = ModuleType("conversion"), ModuleType("tools")
    module.Conversion = ToyConversion  # type: ignore[attr-defined]
    other.main = lambda arguments: 40 + len(arguments)  # type: ignore[attr-defined]
    package = "edgettsd_tools.families.toy"
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setitem(sys.modules, f"{package}.conversion", module)
    for name in ("oracle", "parity", "make_checkpoint"):
        monkeypatch.setitem(sys.modules, f"{package}.{name}", other)
    known = families.ToolFamily(toy_family.NAME, "Toy Chirps", "toy", ("cricket",))
    every = (*families.FAMILIES, known)
    for place in (families, make_checkpoint):
        monkeypatch.setattr(place, "FAMILIES", every)
    daemon.register(toy_family.ToyFamily())
    opened.clear()
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text('{"model_type": "cricket"}')
    (checkpoint / "letters.txt").write_text(toy_family.LETTERS)
    yield checkpoint
    daemon.unregister(toy_family.NAME)


def test_another_familys_checkpoint_is_converted(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.convert(toy, tmp_path / "out", tool.Options(), quiet=False)
    bundle = open_bundle(tmp_path / "out", verify="full")
    assert isinstance(bundle.manifest, toy_family.ToyManifest)
    assert bundle.manifest.name == "out" and bundle.manifest.source["checkpoint"] == "checkpoint"
    assert capsys.readouterr().err == "note: crickets are loud\n"
    assert [conversion.closed for conversion in opened] == [True]


def test_its_refusal_leaves_nothing(toy: Path, tmp_path: Path) -> None:
    (toy / "letters.txt").unlink()
    with pytest.raises(ModelInvalidError, match=r"letters\.txt is missing"):
        tool.convert(toy, tmp_path / "made" / "out", tool.Options())
    assert not (tmp_path / "made").exists()


def test_oracle_parity_and_make_checkpoint_go_to_the_family(toy: Path, tmp_path: Path) -> None:
    assert oracle.main([str(toy), "out"]) == 42
    tool.convert(toy, tmp_path / "out", tool.Options())
    assert parity.main([str(tmp_path / "out"), "references", "--threads", "1"]) == 44
    assert make_checkpoint.main(["--family", toy_family.NAME, "out"]) == 41


def test_an_unknown_checkpoint_is_refused_with_the_known_ones(toy: Path, tmp_path: Path) -> None:
    (toy / "config.json").write_text('{"model_type": "bert"}')
    message = "model_type is 'bert'; allowed are qwen3_tts, cricket"
    with pytest.raises(ModelInvalidError, match=message):
        families.of_checkpoint(toy)
    with pytest.raises(ModelInvalidError, match=message):
        tool.convert(toy, tmp_path / "out", tool.Options())


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1, 2]", '{"model_type": [1]}', "\udcff", "[" * 9999])
def test_what_no_family_can_be_told_from_is_left_to_the_default(text: str, tmp_path: Path) -> None:
    """Its own messages say what is wrong with such a file."""
    (tmp_path / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    if text.startswith('{"model_type'):
        with pytest.raises(ModelInvalidError, match=r"model_type is \[1\]; allowed are qwen3_tts"):
            families.of_checkpoint(tmp_path)
    else:
        assert families.of_checkpoint(tmp_path) is families.DEFAULT


def test_without_a_folder_the_default_family_answers(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (oracle.main, parity.main, make_checkpoint.main):
        with pytest.raises(SystemExit) as left:
            main(["--help"])
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith("usage: ")


def test_an_unknown_family_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        make_checkpoint.main(["--family", "bert", "out"])
    assert left.value.code == 2
    assert "--family bert: allowed are qwen3-tts-12hz" in capsys.readouterr().err
    with pytest.raises(ModelInvalidError, match="family is 'bert'; allowed are qwen3-tts-12hz"):
        families.named("bert")


def test_a_bundle_is_known_by_its_manifest() -> None:
    assert families.of_arguments([str(model_files.bundle()), "x"], manifest=True).name == "qwen3-tts-12hz"
    assert families.of_arguments([str(model_files.checkpoint())]).folder == "qwen3_tts"
