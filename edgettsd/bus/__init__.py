"""The daemon on D-Bus: one connection and the service org.edgettsd.Speech1 on it."""

from edgettsd.bus._connection import BusError, BusLostError, CallError, Connection, NameTakenError
from edgettsd.bus._contract import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES
from edgettsd.bus._options import TYPES as OPTION_TYPES
from edgettsd.bus._options import Limits
from edgettsd.bus._service import SpeechService

__all__ = [
    "BUS_NAME",
    "INTERFACE",
    "OBJECT_PATH",
    "OPTION_TYPES",
    "PROPERTIES",
    "BusError",
    "BusLostError",
    "CallError",
    "Connection",
    "Limits",
    "NameTakenError",
    "SpeechService",
]
