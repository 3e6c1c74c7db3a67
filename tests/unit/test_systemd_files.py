"""The unit, the bus files and what `meson install` puts where."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import system_files

from edgettsd import daemon, messages
from edgettsd.bus import BUS_NAME

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"


UNITS = ("edgettsd.service.in", "user/edgettsd.service.in")


def written(folder, name="edgettsd.service.in"):
    """The unit with a program that exists everywhere."""
    path = folder / "edgettsd.service"
    path.write_text((SYSTEMD / name).read_text().replace("@bindir@/edgettsd", "/bin/true"))
    return path


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_is_understood_completely(tmp_path, name):
    unit = written(tmp_path, name)
    command = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # Unknown keys are only warned of, with status 0.
    complaints = [line for line in done.stderr.splitlines() if unit.name in line or "Unknown" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_unit_is_locked_down(tmp_path):
    unit = written(tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-200:]


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_agrees_with_the_daemon(name):
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[method-assign, assignment]
    parsed.read(SYSTEMD / name)
    service = parsed["Service"]
    assert service["Type"] == "notify"
    hopeless = {daemon.EXIT_CONFIG, daemon.EXIT_MODEL, daemon.EXIT_NAME_TAKEN}
    assert {int(status) for status in service["RestartPreventExitStatus"].split()} == hopeless
    assert int(service["TimeoutStopSec"]) > daemon.STOP_SECONDS
    assert "DynamicUser" not in service


def test_user_and_groups_are_the_same_everywhere():
    sysusers = (SYSTEMD / "edgettsd.sysusers").read_text()
    assert re.search(r"(?m)^u edgettsd ", sysusers)
    assert re.search(r"(?m)^m edgettsd audio$", sysusers)
    policy = ET.parse(SYSTEMD / f"{BUS_NAME}.conf").getroot()
    owners = {
        p.get("user") for p in policy for rule in p if rule.tag == "allow" and rule.get("own") == BUS_NAME
    }
    assert owners == {"edgettsd", "root"}
    callers = {p.get("group") for p in policy if p.get("group")}
    assert callers == {"audio", "edgettsd"}


@pytest.mark.parametrize("kind", ["system.service", "session.service.in"])
def test_activation_files_name_the_bus_name(kind):
    parsed = configparser.ConfigParser()
    parsed.read(SYSTEMD / f"{BUS_NAME}.{kind}")
    section = parsed["D-BUS Service"]
    assert section["Name"] == BUS_NAME
    assert section["SystemdService"] == "edgettsd.service"
    # Sessions without systemd start it themselves; on the system bus only systemd may.
    assert ("--session" in section["Exec"]) is (kind == "session.service.in")


def test_everything_is_installed_where_it_is_looked_for(tmp_path):
    system_files.install(tmp_path / "out", tmp_path)
    found = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == {
        "etc/edgettsd/edgettsd.toml",
        "usr/lib/systemd/catalog/edgettsd.catalog",
        "usr/lib/systemd/system/edgettsd.service",
        "usr/lib/systemd/user/edgettsd.service",
        "usr/lib/sysusers.d/edgettsd.conf",
        f"usr/share/dbus-1/interfaces/{BUS_NAME}.xml",
        f"usr/share/dbus-1/services/{BUS_NAME}.service",
        f"usr/share/dbus-1/system-services/{BUS_NAME}.service",
        f"usr/share/dbus-1/system.d/{BUS_NAME}.conf",
        "usr/share/edgettsd/edgettsd-cpus.conf",
    }
    for scope, arguments in (("system", ""), ("user", " --session")):
        unit = (tmp_path / f"out/usr/lib/systemd/{scope}/edgettsd.service").read_text()
        assert f"ExecStart=/usr/bin/edgettsd{arguments}\n" in unit


def test_the_drop_in_is_understood(tmp_path):
    unit = written(tmp_path)
    drop_in = tmp_path / "edgettsd.service.d" / "board.conf"
    drop_in.parent.mkdir()
    template = (SYSTEMD / "edgettsd-cpus.conf").read_text()
    # Every proposal, but not the prose.
    drop_in.write_text(re.sub(r"(?m)^#(?=[A-Z][A-Za-z]+=)", "", template))
    assert drop_in.read_text().count("\n#") < template.count("\n#")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "board.conf" in done.stderr) == (0, False), done.stderr


def test_the_catalog_explains_every_message(tmp_path):
    ids = {name: value for name, value in vars(messages).items() if name.isupper()}
    assert len(set(ids.values())) == len(ids) >= 4
    text = (SYSTEMD / "edgettsd.catalog").read_text()
    assert set(re.findall(r"(?m)^-- ([0-9a-f]{32})$", text)) == set(ids.values())
    # The journal's own reader takes it.
    folder = tmp_path / "usr/lib/systemd/catalog"
    folder.mkdir(parents=True)
    shutil.copy(SYSTEMD / "edgettsd.catalog", folder)
    (tmp_path / "var/lib/systemd/catalog").mkdir(parents=True)
    command = ["journalctl", f"--root={tmp_path}"]
    done = subprocess.run(
        [*command, "--update-catalog"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(
        [*command, "--list-catalog"], capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.stdout.count("edgettsd") == len(ids), shown.stdout
