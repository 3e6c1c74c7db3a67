"""Figures in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TTFA_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
RTF = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 3.0)


class Histogram:
    """Counts of values up to each of `bounds`."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[sum(value > bound for bound in self._bounds)] += 1
        self._sum += value

    def lines(self, name: str, text: str) -> Iterator[str]:
        """The lines of this histogram as metric `name`."""
        yield from _head(name, text, "histogram")
        total = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{"+Inf" if bound is None else f"{bound:g}"}"}} {total}'
        yield f"{name}_sum {self._sum:.12g}"
        yield f"{name}_count {total}"


class Metrics:
    """What was seen of every utterance of the daemon since the gateway's start."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self._ttfa = Histogram(TTFA_SECONDS)
        self._rtf = Histogram(RTF)
        self._underruns = 0
        self._audio = 0.0

    def finished(self, reason: str, stats: Mapping[str, Any]) -> None:
        """Count an utterance's end."""
        self._reasons[reason] += 1
        self._underruns += int(stats.get("underruns", 0))
        self._audio += float(stats.get("audio_seconds", 0.0))
        if "ttfa_ms" in stats:
            self._ttfa.add(stats["ttfa_ms"] / 1000)
        if "generator_rtf" in stats:
            self._rtf.add(stats["generator_rtf"])

    def text(self, properties: Mapping[str, Any], stats: Mapping[str, Any]) -> str:
        """All figures; `properties` and `stats` are the daemon's, empty while it is away."""
        lines = [
            *_head("edgettsd_up", "Whether the daemon is there and ready.", "gauge"),
            f"edgettsd_up {int(properties.get('State') in ('idle', 'speaking', 'paused'))}",
            *_head("edgettsd_utterances_total", "Utterances that have ended, by reason.", "counter"),
            *(
                f'edgettsd_utterances_total{{reason="{reason}"}} {count}'
                for reason, count in sorted(self._reasons.items())
            ),
            *self._ttfa.lines("edgettsd_ttfa_seconds", "From the call to the first sample."),
            *self._rtf.lines("edgettsd_generator_rtf", "Computing time of the language models over speech."),
            *_head("edgettsd_underruns_total", "Times that the sound device ran dry.", "counter"),
            f"edgettsd_underruns_total {self._underruns}",
            *_head("edgettsd_audio_seconds_total", "Speech that was made.", "counter"),
            f"edgettsd_audio_seconds_total {self._audio:.12g}",
            *_head("edgettsd_queue_length", "Utterances that wait.", "gauge"),
            f"edgettsd_queue_length {int(properties.get('QueueLength', 0))}",
        ]
        for key, name, text in (
            ("memory_bytes", "edgettsd_resident_memory_bytes", "Memory of the daemon."),
            ("temperature", "edgettsd_temperature_celsius", "The hottest of the machine's zones."),
        ):
            if isinstance(stats.get(key), (int, float)):
                lines += [*_head(name, text, "gauge"), f"{name} {stats[key]:.12g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
