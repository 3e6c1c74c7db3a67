"""Errors that callers see; each one has its D-Bus name."""

from __future__ import annotations

ERROR_PREFIX = "org.edgettsd.Error."


class SpeechError(Exception):
    """Base class; `name` is the last part of the D-Bus error name."""

    name = "Failed"

    @property
    def dbus_name(self) -> str:
        """Full D-Bus error name, for example ``org.edgettsd.Error.QueueFull``."""
        return ERROR_PREFIX + self.name


class InvalidTextError(SpeechError):
    """The text cannot be spoken: too long, or not valid Unicode."""

    name = "InvalidText"


class InvalidOptionError(SpeechError):
    """An option is unknown, has a wrong type or a value out of range."""

    name = "InvalidOption"


class UnknownVoiceError(SpeechError):
    """The voice is not in the loaded model."""

    name = "UnknownVoice"


class QueueFullError(SpeechError):
    """The utterance queue is at its limit."""

    name = "QueueFull"


class NotFoundError(SpeechError):
    """No utterance of this caller has the given id."""

    name = "NotFound"


class DeviceBusyError(SpeechError):
    """Another program has the sound device; told by Finished, as no call waits for the device."""

    name = "DeviceBusy"


class ModelInvalidError(SpeechError):
    """The model bundle is missing, damaged or of an unknown format."""

    name = "ModelInvalid"


class NotReadyError(SpeechError):
    """The engine is stopping, or its model cannot be loaded."""

    name = "NotReady"


ALL_ERRORS: tuple[type[SpeechError], ...] = (
    InvalidTextError,
    InvalidOptionError,
    UnknownVoiceError,
    QueueFullError,
    NotFoundError,
    DeviceBusyError,
    ModelInvalidError,
    NotReadyError,
)
