"""edgettsd: a text-to-speech daemon for embedded Linux."""

__version__ = "0.1.0"
