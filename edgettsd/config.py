"""The configuration file: TOML into frozen dataclasses; unknown keys and bad values are refused by name.

Every key is declared once, below, with its default, its range and its documentation; the commented sample
`edgettsd.toml` is generated from the same declarations (``python -m edgettsd.config`` prints it).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgettsd import limits, settings
from edgettsd.settings import ConfigError, key, parse_cpus

__all__ = ["DEFAULT_PATH", "Config", "ConfigError", "load", "parse_cpus", "sample"]

log = logging.getLogger(__name__)

# Where keys of older configurations are now.
_MOVED = {("engine", "reader_seconds"): ("delivery", "reader_seconds")}

DEFAULT_PATH = Path("/etc/edgettsd/edgettsd.toml")


@dataclass(frozen=True, slots=True)
class BusConfig:
    """Where the daemon offers its interface."""

    bus: str = key("system", "Message bus to use.", choices=("system", "session"))
    address: str = key("", "Address of a bus to use instead, such as unix:path=/run/x/bus; empty: none.")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Which model speaks."""

    path: str = key(
        "",
        "Folder of the model bundle (with manifest.json); empty: /var/lib/edgettsd/models/default where "
        "there is one, else the voice that comes with edgettsd.",
    )


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits, threads and defaults of synthesis."""

    queue_limit: int = key(64, "Utterances that may wait; more are refused (QueueFull).", low=1, high=4096)
    client_limit: int = key(32, "Utterances of one caller that may wait.", low=1, high=4096)
    max_text_bytes: int = key(
        100_000, "Longest text of one utterance, in bytes of UTF-8.", low=1, high=10_000_000
    )
    max_seconds: float = key(
        300.0,
        "Longest speech of one utterance in seconds; it then ends with reason limit.",
        above=0,
        high=86_400,
    )
    runaway_quiet_seconds: float = key(
        3.0,
        "Near-silence after speech that ends an utterance with reason runaway, in seconds; 0: never.",
        low=0,
        high=60,
    )
    runaway_quiet_db: float = key(
        40.0, "How far below the utterance's loudest frame near-silence begins, in dB.", low=10, high=120
    )
    runaway_repeat_seconds: float = key(
        4.0,
        "Repetition of the same codes that ends an utterance with reason runaway, in seconds; 0: never.",
        low=0,
        high=60,
    )
    runaway_period_seconds: float = key(
        2.0, "Longest pattern whose repetition is looked for, in seconds.", low=0.08, high=5
    )
    max_wait_ms: int = key(
        1000,
        "Longest that speech which goes before a render (SynthesizeToFd) waits for the end of the render's "
        "sentence, in ms; the sentence is then made again later.",
        low=0,
        high=60_000,
    )
    buffer_seconds: float = key(
        2.0, "Seconds of speech to generate ahead of the sound device.", low=0.2, high=60
    )
    context: int = key(
        512,
        "Positions of the language model's memory, one per frame and per prompt token.",
        low=128,
        high=32_768,
    )
    threads_generator: int = key(
        0, "Threads of the language model; 0: chosen for this machine.", low=0, high=limits.MAX_THREADS
    )
    threads_decoder: int = key(
        0, "Threads of the audio decoder; 0: chosen for this machine.", low=0, high=limits.MAX_THREADS
    )
    n_gpu_layers: int = key(
        0,
        "Layers of the language model on a GPU, where libllama has a GPU back end; 0: none.",
        low=0,
        high=limits.MAX_GPU_LAYERS,
    )
    weight_files: bool = key(
        True,
        "Keep the language model's weights, as this CPU reads them, in files of the cache folder: memory "
        "that the kernel can take back. false: they stay in memory, and nothing is written.",
    )
    decoder_accelerator: str = key(
        "cpu",
        "What runs the audio decoder; gpu and auto fall back to the CPU with a logged reason.",
        choices=("cpu", "gpu", "auto"),
    )
    decoder_library: str = key(
        "",
        "GPU accelerator for LiteRT by its path, such as a board's libLiteRtOpenClAccelerator.so; empty: "
        "LiteRT's own (WebGPU over Vulkan).",
    )
    cpus_generator: tuple[int, ...] = key(
        (), 'CPUs of the language model, such as "0-1,3"; empty: any.', cpus=True
    )
    cpus_decoder: tuple[int, ...] = key((), "CPUs of the audio decoder; empty: any.", cpus=True)
    cpus_playout: tuple[int, ...] = key((), "CPUs of the playout thread; empty: any.", cpus=True)
    schedule: str = key(
        "",
        "How many frames the decoder takes at once; empty: what the model proposes.",
        choices=("", "fixed", "ramp", "adaptive"),
    )
    chunks: tuple[int, ...] = key(
        (),
        "Chunk sizes of the schedule in frames; empty: what the model proposes.",
        low=1,
        high=limits.MAX_CHUNK,
        most=limits.MAX_STEPS,
    )
    sentence_pause_ms: int = key(
        200, "Silence between two sentences, in ms, the model's own at their ends included.", low=0, high=5000
    )
    calibrate: bool = key(
        True,
        "After a minute without speech measure how the CPUs are best used, once for a model and version; "
        "the next start uses it.",
    )
    step_statistics: bool = key(
        False, "Record how long each stage of each frame takes, for edgettsctl stats; costs next to nothing."
    )
    layout: str = key(
        "",
        "Prompt layout: text streamed in or given in full; empty: what the model proposes.",
        choices=("", "streaming", "full"),
    )
    voice: str = key("", "Voice when the caller names none; empty: the model's first voice.")
    language: str = key("auto", "Language when the caller names none; auto: detected by the model.")


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """How speech gets to the readers of SynthesizeToFd."""

    reader_seconds: float = key(
        10.0,
        "An utterance whose reader takes nothing for this long although there is something ends with reason "
        "device; 0: never.",
        low=0,
        high=86_400,
    )
    delivery_seconds: float = key(
        60.0,
        "After the last sample was made a reader may take this much longer for what it has not taken yet "
        "than playing it lasts; then the utterance ends with reason device. 0: as long as it likes.",
        low=0,
        high=86_400,
    )
    spool_memory_kib: int = key(
        256,
        "Speech of one utterance that is held in memory for a slow reader, in KiB; rounded up to a power of "
        "two. 256 KiB are 5 s.",
        low=64,
        high=4096,
    )
    spool_mib: int = key(
        64,
        "What all utterances together may hold beyond that, in one unlinked file in the cache folder, in "
        "MiB; 0: no file. When all is full, speech is made as fast as it is taken.",
        low=0,
        high=65_536,
    )


@dataclass(frozen=True, slots=True)
class VoiceConfig:
    """How it speaks."""

    rate: float = key(
        1.0,
        "How fast, where the caller does not say: 2 is twice as fast. Other values than 1 need a model whose "
        "front end plans lengths, as the built-in voice's does.",
        low=0.5,
        high=2,
    )


@dataclass(frozen=True, slots=True)
class AudioConfig:
    """Where speech is played."""

    sink: str = key(
        "alsa",
        "Output: the sound device, a file, or nothing (fake, keeps real time).",
        choices=("alsa", "file", "fake"),
    )
    device: str = key("default", 'ALSA PCM to play on; for sink = "file" the WAV file to write.')
    period_ms: int = key(20, "Length of one device period, in ms.", low=1, high=limits.MAX_PERIOD_MS)
    buffer_ms: int = key(
        100, "Length of the device buffer, in ms; at least two periods.", low=2, high=limits.MAX_BUFFER_MS
    )
    fade_ms: int = key(
        5,
        "Length of the fade, in ms, where an abort, a pause or an end comes in the middle of sound; 0: cut.",
        low=0,
        high=limits.MAX_FADE_MS,
    )
    preroll_ms: int = key(
        0,
        "Silence played before each utterance, in ms, for amplifiers that mute the first sound.",
        low=0,
        high=limits.MAX_ROLL_MS,
    )
    prebuffer_ms: int = key(
        0,
        "Least speech to have ready before playing starts, in ms; more is buffered when needed.",
        low=0,
        high=60_000,
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What goes to the journal."""

    level: str = key("info", "Least severity to log.", choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration."""

    bus: BusConfig = field(default_factory=BusConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    delivery: DeliveryConfig = field(default_factory=DeliveryConfig)
    voice: VoiceConfig = field(default_factory=VoiceConfig)
    audio: AudioConfig = field(default_factory=AudioConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def updated(self, tables: Mapping[str, Any], origin: str) -> Config:
        """A copy with the keys of `tables` ({section: {key: value}}) replaced, checked like a file.

        `origin` names the source in errors. Raises ConfigError.
        """
        result = settings.updated(self, _at_new_places(tables, origin), origin)
        if result.audio.buffer_ms < 2 * result.audio.period_ms:
            raise ConfigError(
                f"{origin}: [audio] buffer_ms = {result.audio.buffer_ms} must be at least two periods "
                f"(2 x {result.audio.period_ms} ms)"
            )
        return result


def load(path: Path | None = None) -> Config:
    """Read the configuration.

    With `path` only that file; without, /etc/edgettsd/edgettsd.toml and then edgettsd.toml.d/*.toml beside it
    by name, later files winning; a missing default file means defaults. Raises ConfigError.
    """
    return settings.load(Config(), DEFAULT_PATH, path)


def sample() -> str:
    """The commented sample file: every key with its documentation and default."""
    return settings.sample(Config, "edgettsd", DEFAULT_PATH)


def _at_new_places(tables: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    """The tables with keys that have moved where they are now."""
    result = dict(tables)
    for (section, moved), (new, new_key) in _MOVED.items():
        old, table = result.get(section), result.get(new, {})
        if not isinstance(old, Mapping) or not isinstance(table, Mapping) or moved not in old:
            continue
        log.warning("%s: [%s] %s is now [%s] %s", origin, section, moved, new, new_key)
        result[section] = {name: value for name, value in old.items() if name != moved}
        result[new] = {new_key: old[moved], **table}
    return result


if __name__ == "__main__":
    print(sample(), end="")
