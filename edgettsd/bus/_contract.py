"""The D-Bus contract, read from org.edgettsd.Speech1.xml: the only place where it is written down."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

BUS_NAME = "org.edgettsd.Speech1"
OBJECT_PATH = "/org/edgettsd/Speech1"
INTERFACE = "org.edgettsd.Speech1"

PROPERTIES = "org.freedesktop.DBus.Properties"
KEYS = "org.edgettsd.Keys"
INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"

_DOCTYPE = (
    '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n'
    ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n'
)
# Standard interfaces that every object has besides its own.
_STANDARD = """
<node>
  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect"><arg name="xml_data" type="s" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
    <method name="GetMachineId"><arg name="machine_uuid" type="s" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="out"/>
    </method>
    <method name="GetAll">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="props" type="a{sv}" direction="out"/>
    </method>
    <method name="Set">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="in"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface_name" type="s"/>
      <arg name="changed_properties" type="a{sv}"/>
      <arg name="invalidated_properties" type="as"/>
    </signal>
  </interface>
</node>
"""


@dataclass(frozen=True, slots=True)
class Method:
    """Signatures of one method."""

    inputs: str
    outputs: str


@dataclass(frozen=True, slots=True)
class Contract:
    """The members of the interface by name: methods, signals (signature) and properties (signature).

    `keys` has the types of what a method or signal says in an a{sv}, by the member's name and the key.
    """

    methods: dict[str, Method]
    signals: dict[str, str]
    properties: dict[str, str]
    keys: dict[str, dict[str, str]]
    introspection: str

    @classmethod
    def load(cls) -> Contract:
        """Read the packaged XML."""
        node = ET.fromstring(xml_text())
        interface = node.find(f"interface[@name='{INTERFACE}']")
        assert interface is not None, f"no interface {INTERFACE} in the packaged XML"

        def signature(member: ET.Element, direction: str | None) -> str:
            arguments = member.findall("arg")
            return "".join(a.attrib["type"] for a in arguments if a.get("direction") == direction)

        methods = {
            m.attrib["name"]: Method(signature(m, "in"), signature(m, "out"))
            for m in interface.findall("method")
        }
        signals = {s.attrib["name"]: signature(s, None) for s in interface.findall("signal")}
        properties = {p.attrib["name"]: p.attrib["type"] for p in interface.findall("property")}
        keys = {
            member.attrib["name"]: dict(pair.split() for pair in note.attrib["value"].split(","))
            for member in interface
            for note in member.iterfind(f"arg/annotation[@name='{KEYS}']")
        }
        node.extend(ET.fromstring(_STANDARD))
        return cls(methods, signals, properties, keys, _DOCTYPE + ET.tostring(node, encoding="unicode"))


def xml_text() -> str:
    """The packaged introspection XML, with its documentation."""
    return Path(__file__).with_name(f"{INTERFACE}.xml").read_text(encoding="utf-8")


def parent_introspection(path: str) -> str | None:
    """Introspection of a parent of the object ("/", "/org", ...), which only names its child; else None."""
    parts = OBJECT_PATH.strip("/").split("/")
    above = [part for part in path.split("/") if part]
    if len(above) >= len(parts) or parts[: len(above)] != above:
        return None
    return f'{_DOCTYPE}<node><node name="{parts[len(above)]}"/></node>'
