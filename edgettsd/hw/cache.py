"""The folder of what is kept between starts: weights as this CPU reads them, and calibrations."""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """Where packed weights are kept between starts; None when there is no such place.

    The service's CacheDirectory, or the user's cache folder.
    """
    given = os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    if given:
        folder = Path(given)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if not os.path.isabs(home):
            return None
        folder = Path(home) / "edgettsd"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.info("no cache folder: %s", error)
        return None
    return folder if os.access(folder, os.W_OK) else None


def weight_file(folder: Path | None, part: str, digest: str) -> Path | None:
    """Where the rearranged weights of a model's part are kept.

    Those of other models are deleted, and what killed starts have left.

    `digest` is of the part's own file. None without a folder.
    """
    if folder is None:
        return None
    # Imported here because the import loads the kernels' libraries, which only users of weight files need.
    from cython_kernels import _leftovers

    name = f"{part}.{digest[:24]}.weights"
    _leftovers.delete(folder.glob(f"{part}.*.weights.*"), keep=f"{name}.")
    return folder / name
