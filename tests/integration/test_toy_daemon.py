"""The real daemon speaks with a model of another family that somebody has made known."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from pathlib import Path

from dbus_fast import Variant
from integration.harness import Client, System, environment, with_client
from toy_family import RATE, sound, write_bundle

UNIT = Path(__file__).parents[1] / "unit"


def test_it_speaks_over_the_bus(start: Callable[..., System], folder: Path, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "toy")
    # Python itself imports this file first, also in the daemon.
    code = f"import sys\nsys.path.append({str(UNIT)!r})\nimport toy_family\nfrom edgettsd import families\n"
    (folder / "sitecustomize.py").write_text(f"{code}families.register(toy_family.ToyFamily())\n")
    path = os.pathsep.join([str(folder), environment()["PYTHONPATH"]])
    system = start(
        engine="",
        config=f'[model]\npath = "{bundle}"\n[audio]\nsink = "fake"\n',
        env={"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder)},
    )

    async def test(client: Client) -> None:
        assert await client.get("Model") == "cricket"
        reader, writer = os.pipe()
        utterance = await client.to_fd("Chirp.", writer, format=Variant("s", "wav"))
        os.close(writer)
        with open(reader, "rb") as file:
            data = await asyncio.to_thread(file.read)
        assert await client.finished(utterance) == "completed"
        assert struct.unpack_from("<I", data, 24) == (RATE,)
        assert data[44:] == sound(5).astype("<i2").tobytes()
        assert await client.finished(await client.speak("Ha.")) == "completed"

    with_client(system, test)
