"""What stands on a page is text, and a page in one file needs nothing else."""

import base64
import hashlib
import re
import sys
import time as clock
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from dppca.common.analysis.loadings import KeptComponent, Loading
from dppca.common.kernel.errors import SettingError
from dppca.common.pages.rendering import check_report, check_server, render, render_file, show_time
from dppca.common.shell.study_words import exact_time

FALSE_ALARMS = 0.0  # answers are written by hand

HOSTILE = "<script>alert(1)</script>\" onload='x'\x1b]0;owned\x07\u202etxt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.html").write_text(
        '{% extends "base.html" %}{% block title %}{{ name }}{% endblock %}\n'
        '{% block main %}{% from "charts.html" import scree, loadings, marginal, gauge %}\n'
        '<p title="{{ name }}">{{ name }}</p>{{ scree(name, values, edge) }}\n'
        "{{ loadings(components) }}{{ marginal(panel, name, name) }}\n"
        "{{ gauge(name, 3, [{'name': name, 'epsilon': '1', 'width': 5}]) }}{% endblock %}\n"
    )
    return tmp_path


def _render(folder: Path, **changes: object) -> str:
    loading = Loading(HOSTILE, HOSTILE, -0.5)
    values = {
        "who": HOSTILE,
        "name": HOSTILE,
        "values": [0.5, 0.2, -0.1],
        "edge": 0.3,
        "components": [
            KeptComponent(0.5, 0.3, above_noise=above, loadings=(loading,))
            for above in (False, True)
        ],
        "panel": {
            "name": HOSTILE,
            "numeric": True,
            "cells": [{"name": HOSTILE, "ours": 0.25, "theirs": 0.0}],
            "left_out": 0,
        },
        **changes,
    }
    return render_file([folder], "one.html", **values)


class _Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


def test_names_are_text_wherever_they_stand(folder: Path) -> None:
    page = _render(folder)
    reader = _Reader(page)
    assert not {"script", "link", "a", "iframe"} & {*reader.tags}
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert page.count("&lt;script&gt;alert(1)") > 8
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert r"\x1b]0;owned\x07\u202etxt" in page


def test_a_page_in_one_file_allows_its_own_style_and_nothing_else(folder: Path) -> None:
    page = _render(folder)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert f"style-src &#39;sha256-{digest}&#39;" in policy[1]
    assert "http:" not in page
    assert "https:" not in page


def test_marks_have_a_second_sign_beside_their_colour_and_a_table_beside_them(
    folder: Path,
) -> None:
    page = _render(folder)
    assert '<rect class="first"' in page
    assert '<rect class="hollow"' in page
    assert "1: 0.5, above the noise edge" in page
    assert '<td class="number">-0.1</td><td>no</td>' in page
    assert '<td class="number">-0.500</td>' in page


@pytest.mark.parametrize("values", [[0.0], [-1.0, -2.0], [1e-300, 0.0], [5.0] * 200])
@pytest.mark.parametrize("edge", [0.0, 1e-9, 7.0])
def test_a_scree_plot_stays_inside_its_frame(
    folder: Path, values: list[float], edge: float
) -> None:
    page = _render(folder, values=values, edge=edge)
    bars = re.findall(r'<rect class="\w+" x="([\d.-]+)" y="([\d.-]+)" width="[\d.]+" height="([\d.]+)"><title>\d+:', page)  # fmt: skip  # noqa: E501
    assert len(bars) == min(24, len(values))
    for x, y, height in bars:
        assert 60 <= float(x) <= 640
        assert 0 <= float(y) <= float(y) + float(height) <= 280


def test_a_value_that_was_forgotten_is_an_error_and_no_gap(folder: Path) -> None:
    (folder / "gap.html").write_text("{{ forgotten }}")
    with pytest.raises(UndefinedError):
        render([folder], "gap.html")


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_report()
    check_server()
    for name in ("jinja2", "starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingError, match="pip install jinja2 starlette uvicorn"):
        check_server()
    with pytest.raises(SettingError, match="pip install jinja2"):
        check_report()


NOW = datetime(2026, 11, 22, 19, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "time", "shown"),
    [
        ("UTC", "2026-11-22T19:12:00+00:00", "22 November, 19:12"),
        ("Europe/Berlin", "2026-11-22T19:12:00+00:00", "22 November, 20:12"),
        ("UTC", "2025-01-03T05:06:07+00:00", "3 January 2025, 05:06"),
        ("UTC", "2026-11-23T19:00:00+00:00", "23 November, 19:00"),
        ("UTC", "2027-01-31T12:00:00+00:00", "31 January 2027 (in 69 d)"),
        ("UTC", "2026-11-25T22:00:00+00:00", "25 November (in 3 d 2 h)"),
    ],
)
def test_times_are_shown_as_people_say_them_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zone: str, time: str, shown: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    clock.tzset()
    try:
        assert show_time(time, NOW) == shown
        (tmp_path / "when.html").write_text("{{ time | when }}")
        page = render([tmp_path], "when.html", time=time)
        assert f'title="{exact_time(time)}"' in page
    finally:
        monkeypatch.undo()
        clock.tzset()


def test_a_message_on_a_page_ends_once_and_shows_its_commands_as_code(tmp_path: Path) -> None:
    (tmp_path / "said.html").write_text("{{ said | sentence | coded }}")
    for said, shown in (
        ("It failed", "It failed."),
        ("no.", "no."),
        (
            "run `dppca-owner doctor` & `<b>`",
            "run <code>dppca-owner doctor</code> &amp; <code>&lt;b&gt;</code>.",
        ),
        ("a ` alone <b>", "a ` alone &lt;b&gt;."),
        ("`\x1b[31m`!", "<code>\\x1b[31m</code>!"),
    ):
        assert render([tmp_path], "said.html", said=said) == shown


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:26443", ["127.", "0.", "0.", "1:26443"]),
        ("hub.example.org:7443", ["hub.", "example.", "org:7443"]),
        ("[::1]:7443", ["[::1]:7443"]),
        ("hub", ["hub"]),
        ("<b>:1", ["&lt;b&gt;:1"]),
    ],
)
def test_an_address_ends_a_line_at_a_dot_and_never_in_its_port(
    tmp_path: Path, address: str, parts: list[str]
) -> None:
    (tmp_path / "address.html").write_text("{{ address | address }}")
    page = render([tmp_path], "address.html", address=address)
    assert page == "".join(f'<span class="whole">{part}</span>' for part in parts)


def test_until_when_something_waits_says_whether_that_has_passed(tmp_path: Path) -> None:
    (tmp_path / "until.html").write_text("{{ time | until }}")
    for days, passed in ((2, False), (-2, True)):
        time = datetime.now(UTC) + timedelta(days=days)
        for given in (time, time.isoformat()):
            page = render([tmp_path], "until.html", time=given)
            assert page.startswith(f'until <time datetime="{time.isoformat()}"')
            assert page.endswith("</time>, which has passed" if passed else "</time>")


@pytest.mark.parametrize(("value", "said"), [(0, "0 rows"), (1, "1 row"), (2000, "2,000 rows")])
def test_a_count_agrees_with_what_it_counts(tmp_path: Path, value: int, said: str) -> None:
    (tmp_path / "counts.html").write_text('{{ value | of("rows") }}')
    assert render_file([tmp_path], "counts.html", value=value) == said


@pytest.mark.parametrize(
    ("unbounded", "shown"),
    [
        (None, ["1", "", "", ""]),
        ("above", ["1", "", "no end", ""]),
        ("below", ["1", "no end", "", ""]),
        ("both", ["1", "no end", "no end", ""]),
    ],
)
def test_an_interval_without_an_end_says_so_in_its_table(
    tmp_path: Path, unbounded: str | None, shown: list[str]
) -> None:
    (tmp_path / "one.html").write_text(
        '{% from "charts.html" import forest %}{{ forest(answer) }}', encoding="utf-8"
    )
    ends = {"low": None, "high": None, "pvalue": None, "noise": None, "refusal": None}
    row = {"name": "sex=m", "estimate": 1.0, "unbounded": unbounded, **ends}
    answer = {"title": "odds ratios", "estimates": [row], "cells": None}
    text = render([tmp_path], "one.html", answer=answer)
    cells = re.findall(r'<td class="number">(.*?)</td>', text)
    assert cells[:4] == shown
