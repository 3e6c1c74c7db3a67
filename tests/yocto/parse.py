"""Parse meta-edgetts with BitBake's own parser.

`python parse.py FOLDER LAYER [--settings FILE] [--run RECIPE TASK]`: FOLDER is an empty build folder, FILE
holds lines of local.conf. Prints a JSON object: for every recipe its variables, or {"skipped": why}; with
--run also what the task printed. A parse error ends it with status 1 and BitBake's messages on stderr.
It runs in a process of its own, since BitBake changes the interpreter it is in.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

# Servers that the parser imports and does not use.
for _name in ("hashserv", "hashserv.client", "prserv", "prserv.serv"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["hashserv"].client = sys.modules["hashserv.client"]  # type: ignore[attr-defined]
sys.modules["prserv"].serv = sys.modules["prserv.serv"]  # type: ignore[attr-defined]

import bb.build  # noqa: E402
import bb.cache  # noqa: E402
import bb.cookerdata  # noqa: E402
import bb.event  # noqa: E402
import bb.parse  # noqa: E402
import bb.process  # noqa: E402
import bb.siggen  # noqa: E402
import bb.utils  # noqa: E402

CORE = Path(__file__).with_name("core")


def configure(folder: Path, layers: list[Path], settings: str) -> Any:
    """A CookerDataBuilder with the configuration parsed."""
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "bblayers.conf").write_text(
        f'BBPATH = "${{TOPDIR}}"\nBBFILES ?= ""\nBBLAYERS = "{" ".join(map(str, layers))}"\n'
    )
    (conf / "local.conf").write_text(settings)
    os.chdir(folder)
    parameters = bb.cookerdata.CookerConfiguration()
    parameters.env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    parameters.postfile = [str(conf / "local.conf")]
    builder = bb.cookerdata.CookerDataBuilder(parameters)
    builder.parseBaseConfiguration()
    bb.parse.siggen = bb.siggen.init(builder.data)
    return builder


def values(d: Any) -> dict[str, Any]:
    """Every plain variable of a recipe, expanded; flags as NAME[flag] for what tests ask of them."""
    out: dict[str, Any] = {}
    for name in d.keys():  # noqa: SIM118
        if d.getVarFlag(name, "func", False) or name.startswith(("_", "BB")):
            continue
        try:
            out[name] = d.getVar(name)
        except Exception as error:
            sys.exit(f"{d.getVar('FILE')}: {name}: {error}")
    out["SRC_URI[sha256sum]"] = d.getVarFlag("SRC_URI", "sha256sum", True)
    out["PACKAGECONFIG[flags]"] = d.getVarFlags("PACKAGECONFIG") or {}
    out["inherits"] = [Path(p).stem for p in d.getVar("__inherit_cache", False) or []]
    return {name: value for name, value in out.items() if isinstance(value, (str, list, dict))}


def run(d: Any, task: str) -> str:
    """Execute a task as BitBake does; returns what it wrote to its log."""
    for name in ("T", "B", "D", "UNPACKDIR"):
        os.makedirs(d.getVar(name), exist_ok=True)
    for uri in (d.getVar("SRC_URI") or "").split():
        if uri.startswith("file://"):
            name = uri.removeprefix("file://")
            found = bb.utils.which(d.getVar("FILESPATH"), name)
            shutil.copy(found, Path(d.getVar("UNPACKDIR")) / name)
    log = Path(d.getVar("T")) / f"output.{task}"
    saved = os.dup(1), os.dup(2)
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            bb.build.exec_func(task, d)
            status = "done"
        except bb.process.ExecutionError as error:
            status = f"failed: {error}"
        finally:
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
    return log.read_text() + status


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("layer", type=Path)
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--run", nargs=2, metavar=("RECIPE", "TASK"))
    args = parser.parse_args()
    # BitBake works in its build folder.
    layer = args.layer.resolve()
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s")
    settings = args.settings.read_text() if args.settings else ""
    try:
        builder = configure(args.folder.resolve(), [CORE.resolve(), layer], settings)
        recipes = {}
        for path in sorted(layer.glob("recipes-*/*/*.bb")):
            datastores = builder.parseRecipeVariants(str(path), [], layername="edgetts")
            d = datastores[""]
            skipped = d.getVar("__SKIPPED", False)
            recipes[path.stem.split("_")[0]] = {"skipped": skipped} if skipped else values(d)
            if args.run and args.run[0] == path.stem.split("_")[0] and not skipped:
                recipes[args.run[0]]["output"] = run(d, args.run[1])
    except (bb.BBHandledException, bb.parse.ParseError, bb.data_smart.ExpansionError) as error:
        sys.exit(f"parse error: {error}")
    recipes["layer.conf"] = values(builder.data)
    json.dump(recipes, sys.stdout)


if __name__ == "__main__":
    main()
