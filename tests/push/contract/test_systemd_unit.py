"""``deploy/systemd/``: read strictly; systemd's own tool reads it in the merge tier."""

import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import click
import pytest

from dppca.common.kernel.errors import IdentityError, InputError, SettingError, StoreVersionError
from dppca.curator.cli import serve
from dppca.curator.config import DaemonConfig, Limits
from dppca.curator.daemon import OTHER_DESCRIPTORS
from tests.support.checkout import ROOT
from tests.support.proxy import ADDRESSES, CONFIGURATION

FOLDER = ROOT / "deploy/systemd"
UNIT, PROXY = FOLDER / "dppca-curator.service", FOLDER / "dppca-proxy.service"


def read_unit(text: str) -> dict[str, dict[str, list[str]]]:
    """Values by section and directive."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header.group(1)
            sections[section] = defaultdict(list)
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        sections[section][name].append(value)
    return sections


def read_environment(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def service() -> dict[str, list[str]]:
    return read_unit(UNIT.read_text())["Service"]


def test_each_service_has_descriptors_for_all_its_connections(
    service: dict[str, list[str]],
) -> None:
    assert int(service["LimitNOFILE"][0]) >= Limits().max_connections + OTHER_DESCRIPTORS
    (together,) = re.findall(r"^    maxconn (\d+)", CONFIGURATION.read_text(), re.M)[:1]
    (proxy,) = read_unit(PROXY.read_text())["Service"]["LimitNOFILE"]
    assert int(proxy) > 2 * int(together)


def test_a_stop_waits_for_running_calls(service: dict[str, list[str]]) -> None:
    grace_s = DaemonConfig.__dataclass_fields__["grace_s"].default
    assert int(service["TimeoutStopSec"][0]) > grace_s
    assert service["KillSignal"] == ["SIGTERM"]


def test_what_trying_again_cannot_mend_is_not_tried_again(service: dict[str, list[str]]) -> None:
    assert service["Restart"] == ["on-failure"]
    codes = [int(code) for code in service["RestartPreventExitStatus"][0].split()]
    kinds = (InputError, SettingError, IdentityError, StoreVersionError)
    assert codes == [kind.exit_code for kind in kinds]


def test_the_command_is_one_that_the_daemon_takes(service: dict[str, list[str]]) -> None:
    settings = read_environment((FOLDER / "curator.env.example").read_text())
    (line,) = service["ExecStart"]
    used = set(re.findall(r"\$\{(\w+)\}", line))
    assert used <= set(settings)
    for name in used:
        line = line.replace(f"${{{name}}}", settings[name])
    program, command, *arguments = shlex.split(line)
    assert (program, command) == ("/opt/dppca/bin/dppca-curator", "serve")
    with serve.make_context("serve", arguments) as context:
        given = context.params
    assert given["listen"] == ADDRESSES["CURATOR"]
    assert given["metrics_port"] == 9464
    assert given["state"].is_relative_to(Path("/var/lib") / service["StateDirectory"][0])
    assert given["credentials"].is_relative_to(Path("/etc") / service["ConfigurationDirectory"][0])
    assert service["EnvironmentFile"][0].startswith("/etc/dppca-curator/")


def test_every_setting_of_the_example_is_one_that_is_read() -> None:
    text = (FOLDER / "curator.env.example").read_text()
    shown = set(re.findall(r"^#?([A-Z_]+)=", text, re.M))
    options = (option for option in serve.params if isinstance(option, click.Option))
    read = {str(option.envvar) for option in options if option.envvar}
    read |= {"DPPCA_LISTEN", "DPPCA_METRICS_PORT", "OPENBLAS_NUM_THREADS"}
    assert shown <= read


def test_the_proxy_reloads_by_another_worker_and_drains_at_a_stop() -> None:
    proxy = read_unit(PROXY.read_text())["Service"]
    assert proxy["Type"] == ["notify"]
    (start,) = proxy["ExecStart"]
    assert "-Ws" in shlex.split(start), "a master that tells systemd"
    checks, asks = proxy["ExecReload"]
    assert shlex.split(checks)[1:] == ["-c", "-q", "-f", shlex.split(start)[-1]]
    assert (shlex.split(asks)[1:], proxy["KillSignal"]) == (["-USR2", "$MAINPID"], ["SIGUSR1"])
    (drains_s,) = re.findall(r"^    hard-stop-after (\d+)s", CONFIGURATION.read_text(), re.M)
    assert int(proxy["TimeoutStopSec"][0]) > int(drains_s)


def test_a_reload_of_the_curator_reads_its_certificates(service: dict[str, list[str]]) -> None:
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


@pytest.mark.parametrize(
    ("prints", "mailed"),
    [("exit 0", None), ("echo survey: open", "survey: open"), ("echo down >&2; exit 40", "down")],
)
def test_a_reminder_is_mailed_where_a_study_waits_or_the_command_fails(
    prints: str, mailed: str | None, tmp_path: Path
) -> None:
    reminder = read_unit((FOLDER / "dppca-reminder.service").read_text())["Service"]
    owner, mail, box = tmp_path / "dppca-owner", tmp_path / "mail", tmp_path / "box"
    owner.write_text(f'#!/bin/sh\n[ "$*" = "studies --due 3" ] || exit 2\n{prints}\n')
    mail.write_text(f'#!/bin/sh\n{{ echo "$3"; cat; }} > {shlex.quote(str(box))}\n')
    owner.chmod(0o755)
    mail.chmod(0o755)
    (start,) = reminder["ExecStart"]
    start = start.replace("$$", "$").replace("%%", "%").replace("/opt/dppca/bin", str(tmp_path))
    variables = dict(each.split("=", 1) for each in shlex.split(reminder["Environment"][0]))
    variables["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(shlex.split(start), env=variables, check=True)
    sent = f"{variables['DPPCA_STEWARD']}\n{mailed}\n"
    assert (box.read_text() if box.exists() else None) == (None if mailed is None else sent)
