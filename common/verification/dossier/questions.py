"""What a dossier asks for once: what nobody signs, kept in a YAML file of the site or the hub.

A question that is *needed* must have an answer before anything is written: the schema of the
public registry refuses an empty author or date. Every other one stays an open line of the sheets.
Answers to ``published`` and ``purpose`` are for one study, so these two are mappings by its name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from dppca.common.kernel.documents.names import check_visible
from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES, NotYamlError, load_yaml
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Study

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST = 2000  # characters of an answer
SECTORS = ("Healthcare", "Education", "Government", "Finance", "Energy", "Technology")
SOURCES = ("Static", "Dynamic")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question.

    ``stated`` is the study's field that answers it; ``several`` takes a list, ``by_study`` a
    mapping; ``words`` are the answers that count, none for free text.
    """

    text: str
    needed: bool = False
    stated: str = ""
    several: bool = False
    by_study: bool = False
    words: tuple[str, ...] = ()


QUESTIONS: Mapping[str, Asked] = {
    "curators": Asked("Who publishes it, by full names?", needed=True, several=True),
    "authors": Asked("Who answered these questions?", needed=True, several=True),
    "region": Asked(
        "Where do its people live, or whose law applies?", needed=True, stated="region"
    ),
    "published": Asked("On which day (YYYY-MM-DD) is it published?", needed=True, by_study=True),
    "purpose": Asked("What is it for?", needed=True, stated="purpose", by_study=True),
    "sector": Asked("Which field is it of?", stated="sector", words=SECTORS),
    "rows_are": Asked("Do new rows come in over time (Dynamic), or not (Static)?", words=SOURCES),
    "plans": Asked("Which further releases of the same rows are planned?"),
    "preparation": Asked(
        "How were the rows prepared, and who chose bounds and epsilon, by looking at what?"
    ),
    "justification": Asked("Why these choices, and who checked them?"),
    "sources": Asked("Where is more about it published?"),
}


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers by the names of `QUESTIONS`, for one study; those without one are not there."""

    texts: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]


def read_answers(path: Path, study: Study) -> Answers:
    """Return the answers of a file for a study; the study's own words come first.

    Raise `SettingError` if the file cannot be read, has another field or a wrong answer, or lacks a
    needed one; the message names every question at fault.
    """
    given = _load(path)
    texts, lists, lacking = dict[str, str](), dict[str, tuple[str, ...]](), []
    for name, asked in QUESTIONS.items():
        value = given.get(name)
        if asked.by_study and value is not None:
            if not isinstance(value, Mapping):
                raise SettingError(
                    f"{path}: {name} is by study: write `{study.name}: ...` below it"
                )
            value = value.get(study.name)
        said = getattr(study, asked.stated) if asked.stated else None
        if asked.several:
            found = _several(path, name, value)
            if found:
                lists[name] = found
        elif said or value is not None:
            texts[name] = said or _text(path, name, value, asked.words)
        if asked.needed and name not in texts and name not in lists:
            lacking.append(name)
    if "published" in texts and not _is_day(texts["published"]):
        raise SettingError(f"{path}: published must be a day such as 2026-11-30")
    if lacking:
        there = "" if path.exists() else "; the file is not there yet"
        more = [name for name, asked in QUESTIONS.items() if not asked.needed]
        lines = "".join(f"\n  {name}: {QUESTIONS[name].text}" for name in lacking)
        raise SettingError(
            f"a dossier of {study.name} needs answers that nobody signed. Write them into "
            f"{path}{there}:{lines}\nIt may answer, too: {', '.join(more)}"
        )
    return Answers(texts, lists)


def _load(path: Path) -> Mapping[str, object]:
    if not path.exists():
        return {}
    try:
        text = path.read_text("utf-8")
        if len(text) > MAX_DOCUMENT_BYTES:
            raise SettingError(f"{path} is larger than {MAX_DOCUMENT_BYTES} bytes")
        found = load_yaml(text)
    except (OSError, UnicodeDecodeError, NotYamlError) as error:
        raise SettingError(f"{path} cannot be read as YAML: {error}") from error
    if found is None:
        return {}
    strangers = sorted({*found} - {*QUESTIONS}) if isinstance(found, dict) else ["no mapping"]
    if strangers or not isinstance(found, dict):
        raise SettingError(
            f"{path}: {', '.join(map(str, strangers))}: the questions are {', '.join(QUESTIONS)}"
        )
    return found


def _several(path: Path, name: str, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(_text(path, name, each, ()) for each in values)


def _text(path: Path, name: str, value: object, words: tuple[str, ...]) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST:
        raise SettingError(f"{path}: {name} must be text of at most {_MOST} characters")
    try:
        text = check_visible(" ".join(value.split()))
    except ValueError as error:
        raise SettingError(f"{path}: {name}: {error}") from error
    if words and text not in words:
        raise SettingError(f"{path}: {name} is {text}: it must be one of {', '.join(words)}")
    return text


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text)) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
