"""The real engine over scripted kernels, for tests and demonstrations without a model.

Threads, pipe, playout and sound device are the real ones; only talker, code predictor and decoder are
scripted: they give a fixed sound of a fixed length, at a given pace, with given faults. `edgettsd --engine
scripted[:KEY=VALUE,...]` uses it; the keys are below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgettsd.config import Config, ConfigError
from edgettsd.hw import Plan

if TYPE_CHECKING:
    from edgettsd.engine.engine import Engine

# Key: default, what it does.
KEYS = {
    "load_us": (0, "time until the model is loaded"),
    "load_fails": (0, "1: the model cannot be loaded"),
    "frames": (25, "frames of a sentence; -1: it never ends"),
    "quiet_after": (-1, "frames until only near-silence follows; -1: never"),
    "repeat_after": (-1, "frames until the same code is repeated for ever; -1: never"),
    "step_us": (0, "time of a talker step"),
    "decode_us": (0, "time to decode a frame"),
    "talker_fail_at": (-1, "step of each sentence that fails; -1: none"),
    "dies": (0, "1: the first sentence ends the generator thread"),
    "decoder_fail_at": (-1, "frame of each sentence that cannot be decoded; -1: none"),
}
# Division by 2^13: 78 dB below the scripted speech.
QUIET_LEVEL = 13


def parse(text: str) -> dict[str, int]:
    """The values of "KEY=VALUE,...", else their defaults. Raises ValueError naming key and value."""
    values = {key: default for key, (default, _) in KEYS.items()}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in values:
            raise ValueError(f"{key!r} is no key of the script; allowed: {', '.join(KEYS)}")
        try:
            values[key] = int(value)
        except ValueError:
            raise ValueError(f"{key} = {value!r}: must be an integer") from None
        if not -1 <= values[key] <= 60_000_000:
            raise ValueError(f"{key} = {value}: must be from -1 to 60000000")
    return values


def make(config: Config, text: str, plan: Plan | None = None) -> Engine:
    """An engine that follows the script `text`.

    Raises ConfigError when the scripted kernels were not built.
    """
    from edgettsd.engine.engine import Engine as RealEngine
    from edgettsd.engine.parts import FakeParts

    try:
        import cython_kernels.fake  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigError(
            "--engine scripted: this edgettsd was built without the scripted kernels "
            "(cython_kernels.fake); build it with 'meson setup -Dtesting=true'"
        ) from None
    values = parse(text)
    quiet, repeat = values["quiet_after"], values["repeat_after"]
    parts = FakeParts(
        load_us=max(0, values["load_us"]),
        load_fails=values["load_fails"] > 0,
        dies=values["dies"] > 0,
        eos_after=values["frames"],
        step_us=max(0, values["step_us"]),
        decode_us=max(0, values["decode_us"]),
        talker_fail_at=values["talker_fail_at"],
        decoder_fail_at=values["decoder_fail_at"],
        levels=[0] * quiet + [QUIET_LEVEL] if quiet >= 0 else (),
        script=[*range(100, 100 + repeat), 7] if repeat >= 0 else (),
        period=1 if repeat >= 0 else 0,
    )
    return RealEngine(config, load=lambda _: parts, plan=plan)
