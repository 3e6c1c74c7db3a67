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
from edgettsd.gateways import main as gateway
from edgettsd.gateways.config import GatewayConfig

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"


UNITS = ("edgettsd.service.in", "user/edgettsd.service.in")


def written(folder, name="edgettsd.service.in"):
    """The unit with a program that exists everywhere."""
    path = folder / "edgettsd.service"
    path.write_text(re.sub(r"@bindir@/edgettsd(-gateway)?", "/bin/true", (SYSTEMD / name).read_text()))
    return path


@pytest.mark.parametrize("name", [*UNITS, "edgettsd-gateway.service.in"])
def test_the_unit_is_understood_completely(tmp_path, name):
    unit = written(tmp_path, name)
    command = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # Unknown keys are only warned of, with status 0.
    complaints = [line for line in done.stderr.splitlines() if unit.name in line or "Unknown" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


@pytest.mark.parametrize("name", ["edgettsd.service.in", "edgettsd-gateway.service.in"])
def test_the_unit_is_locked_down(tmp_path, name):
    unit = written(tmp_path, name)
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


def parsed_unit(name):
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str
    parsed.read(SYSTEMD / name)
    return parsed


def test_the_gateways_sockets_are_those_that_it_serves(tmp_path):
    service = parsed_unit("edgettsd-gateway.service.in")["Service"]
    assert service["Type"] == "notify"
    assert int(service["RestartPreventExitStatus"]) == gateway.EXIT_CONFIG
    assert int(service["TimeoutStopSec"]) > gateway.STOP_SECONDS
    assert service["LoadCredential"] == gateway.CREDENTIAL
    settings = GatewayConfig()
    for name, section in ((gateway.HTTP, settings.http), (gateway.WYOMING, settings.wyoming)):
        file = f"edgettsd-gateway-{name}.socket"
        shutil.copy(SYSTEMD / file, tmp_path)
        sock = parsed_unit(file)["Socket"]
        assert sock["FileDescriptorName"] == name
        assert sock["Service"] == "edgettsd-gateway.service"
        assert sock["ListenStream"] == f"{section.host}:{section.port}"
        written(tmp_path, "edgettsd-gateway.service.in").rename(tmp_path / "edgettsd-gateway.service")
        command = ["systemd-analyze", "verify", "--man=no", tmp_path / file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, file in done.stderr) == (0, False), done.stderr


def test_the_gateways_user_may_call_the_daemon_and_nothing_else():
    service = parsed_unit("edgettsd-gateway.service.in")["Service"]
    assert (service["User"], service["SupplementaryGroups"]) == ("edgettsd-gateway", "edgettsd")
    lines = (SYSTEMD / "edgettsd-gateway.sysusers").read_text().splitlines()
    assert [line.split()[:3] for line in lines if not line.startswith("#")] == [
        ["u", "edgettsd-gateway", "-"],
        ["m", "edgettsd-gateway", "edgettsd"],
    ]


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
        "etc/edgettsd/gateway.toml",
        "usr/lib/systemd/catalog/edgettsd.catalog",
        "usr/lib/systemd/system/edgettsd-gateway-http.socket",
        "usr/lib/systemd/system/edgettsd-gateway-wyoming.socket",
        "usr/lib/systemd/system/edgettsd-gateway.service",
        "usr/lib/systemd/system/edgettsd.service",
        "usr/lib/systemd/user/edgettsd.service",
        "usr/lib/sysusers.d/edgettsd-gateway.conf",
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
