"""Sinks: sound device, descriptor, fake."""

from edgettsd.audio._api import AudioSettings, Sink, open_sink

__all__ = ["AudioSettings", "Sink", "open_sink"]
