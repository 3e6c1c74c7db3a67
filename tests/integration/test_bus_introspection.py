"""What the running daemon says of itself, and how foreign clients see it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from dbus_fast import Variant
from integration.harness import Client, refused, with_client

from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES
from edgettsd.bus._contract import xml_text


def members(xml: str) -> dict:
    """Everything an interface says: its members with arguments, access and annotations."""
    interface = ET.fromstring(xml).find(f"interface[@name='{INTERFACE}']")
    assert interface is not None

    def shape(element: ET.Element):
        return element.tag, tuple(sorted(element.attrib.items())), tuple(shape(child) for child in element)

    shapes = {(member.tag, member.attrib["name"]): shape(member) for member in interface}
    assert len(shapes) == len(interface)
    return shapes


def test_the_running_daemon_introspects_as_the_xml_says(system):
    async def test(c: Client) -> None:
        async def introspect(path: str) -> str:
            return (await c.call_raw(BUS_NAME, path, "org.freedesktop.DBus.Introspectable", "Introspect"))[0]

        running = members(await introspect(OBJECT_PATH))
        assert running == members(xml_text())
        assert {name for kind, name in running if kind == "method"} == {
            "Speak",
            "Abort",
            "AbortAll",
            "Pause",
            "Resume",
            "Hold",
            "ResumeAll",
            "SynthesizeToFd",
            "ListVoices",
            "Stats",
        }
        for path, child in (("/", "org"), ("/org", "edgettsd"), ("/org/edgettsd", "Speech1")):
            assert [n.get("name") for n in ET.fromstring(await introspect(path))] == [child]

    with_client(system, test)


def test_busctl_sees_the_interface_and_its_types(system):
    listed = system.bus.busctl("introspect", BUS_NAME, OBJECT_PATH, INTERFACE)
    assert listed.returncode == 0, listed.stderr
    rows = {line.split()[0]: line.split()[1:] for line in listed.stdout.splitlines()[1:]}
    assert rows[".Speak"][:3] == ["method", "sa{sv}", "t"]
    assert rows[".SynthesizeToFd"][:3] == ["method", "sha{sv}", "t"]
    assert rows[".Finished"][:2] == ["signal", "tsa{sv}"]
    assert rows[".Model"] == ["property", "s", '"fake"', "const"]
    assert rows[".State"] == ["property", "s", '"idle"', "emits-change"]
    assert OBJECT_PATH in system.bus.busctl("tree", BUS_NAME).stdout


def test_busctl_as_a_foreign_client(system):
    spoken = system.bus.call("Speak", "sa{sv}", "hello", "2", "voice", "s", "beta", "seed", "t", "7")
    assert (spoken.returncode, spoken.stdout) == (0, "t 1\n"), spoken.stderr
    refusal = system.bus.call("Speak", "sa{sv}", "hello", "1", "voice", "s", "zeta")
    assert refusal.returncode != 0
    assert "allowed: alpha, beta" in refusal.stderr
    wrong = system.bus.call("Speak", "s", "hello")
    assert "Speak takes (sa{sv}), not (s)" in wrong.stderr
    unknown = system.bus.busctl("call", BUS_NAME, OBJECT_PATH, INTERFACE, "Sing")
    assert "no method Sing" in unknown.stderr


def test_wrong_property_calls(system):
    async def test(c: Client) -> None:
        async def call(member: str, signature: str, *body):
            return await refused(c.call_raw(BUS_NAME, OBJECT_PATH, PROPERTIES, member, signature, list(body)))

        assert "no property Volume" in (await call("Get", "ss", INTERFACE, "Volume"))[1]
        assert (await call("Get", "ss", "x.y", "State"))[0].endswith("UnknownInterface")
        assert (await call("GetAll", "s", "x.y"))[0].endswith("UnknownInterface")
        assert (await call("Set", "ssv", INTERFACE, "State", Variant("s", "x")))[0].endswith(
            "PropertyReadOnly"
        )
        assert (await call("Get", "s", "State"))[0].endswith("InvalidArgs")

    with_client(system, test)


def test_other_objects_are_unknown(system):
    async def test(c: Client) -> None:
        name, _ = await refused(c.call_raw(BUS_NAME, "/other", INTERFACE, "Pause"))
        assert name in (
            "org.freedesktop.DBus.Error.UnknownMethod",
            "org.freedesktop.DBus.Error.UnknownObject",
        )

    with_client(system, test)
