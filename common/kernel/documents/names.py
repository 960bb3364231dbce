r"""Text that somebody else chose, where it becomes characters on a screen, a file's name or a cell.

The author of a study chooses the names of attributes and their labels, a curator writes the reason
why a study ended, and a file says who made it. Such text is

* refused in a new study where its text is invisible (`check_name`): control characters, line
  and paragraph separators, marks that turn the direction of writing, other invisible format
  characters, surrogates, and code points without a meaning. U+200C and U+200D are invisible too,
  but words of Persian and Hindi, for instance, are not spelt right without them: they are allowed;
* shown, wherever it comes from, with ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN`` for each of those
  (`shown`, `one_line`, `escaped_json`);
* guessed where it was written wrongly (`nearest_name`);
* made the part of a file's name by `file_part` only;
* taken for a name of this machine by `is_loopback` only.

Limits: letters that look alike, and marks piled up on a letter, are not looked for. Which code
points have a meaning depends on the version of Unicode that Python knows.
"""

import hashlib
import ipaddress
import json
import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

_PARTY = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
_PLAIN_FILE = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")  # Windows opens no file
_NOT_IN_FILES = re.compile(r"[^A-Za-z0-9._-]+")
_KEPT_IN_FILES = 40  # readable characters of a name in a file's name; a digest follows
_FORMULA = re.compile(r'[=+@-].*(?:["|!]|\w\()', re.DOTALL)


def is_party_name(value: str) -> bool:
    """Whether a study, owner or other party may be called so."""
    return _PARTY.fullmatch(value) is not None


def require_party_name(value: str) -> str:
    """Pass on a name that a study, owner or other party may have; `ValueError` otherwise."""
    if not is_party_name(value):
        raise ValueError(
            "a name has 1 to 64 characters, only a-z 0-9 . _ - (no space, no capital letter), "
            "and begins and ends with a letter or digit"
        )
    return value


def is_loopback(host: str) -> bool:
    """Whether an address, or the name localhost, means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1 << 12)  # the same name stands at many places of a document
def check_name(text: str) -> str:
    """Pass on a name or label that a new study may have.

    Raise `ValueError` if it has a character that cannot be seen, or a spreadsheet would run it; the
    message gives the character's code.
    """
    if is_formula(check_visible(text)):
        raise ValueError(
            f"{text!r} begins with {text[0]} and has a call in it: a spreadsheet would run it as a "
            "formula. Begin it with another character"
        )
    return text


def check_visible(text: str) -> str:
    """Pass on a text of a new study; `ValueError` names the first character that is invisible."""
    hidden = next((character for character in text if _is_hidden(character)), None)
    if hidden is not None:
        raise ValueError(
            f"{text!r} has the character U+{ord(hidden):04X} "
            f"({unicodedata.category(hidden)}), which is invisible: leave it out"
        )
    return text


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The name among those that are known that was most likely meant; None if none is like it."""
    spelt = {each.strip().lower(): each for each in known}
    near = get_close_matches(name.strip().lower(), spelt, n=1)
    return spelt[near[0]] if near else None


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run a cell with this text: call a function, or reach outside.

    Numbers with a sign, and labels such as ``+``, ``-ve`` and ``=``, are none.
    """
    return _FORMULA.match(text) is not None


def shown(text: str) -> str:
    """Text for a terminal: hidden characters as escapes, line feeds as they are."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def one_line(text: str) -> str:
    """Text for one line of output: hidden characters and line feeds become escapes."""
    if text.isprintable():
        return text
    return "".join(_escape(c) if _is_hidden(c) else c for c in text)


def escaped_json(document: str) -> str:
    """A line of JSON with its hidden characters escaped as JSON does; the same document."""
    if document.isprintable():
        return document
    return "".join(json.dumps(c)[1:-1] if _is_hidden(c) else c for c in document)


def file_part(name: str) -> str:
    """A part of a file's name for any text, in ``[A-Za-z0-9._+-]``, never empty, ``.`` or ``..``.

    A name of up to 64 of ``a-z 0-9 . _ -`` that begins and ends with a letter or digit is its own
    part. Any other is what it has of ``[A-Za-z0-9._-]``, ``+``, and half of its SHA-256. So
    different names have different parts, also where a file system does not tell A from a.
    """
    if _PLAIN_FILE.fullmatch(name) and not _DEVICE.fullmatch(name):
        return name
    readable = _NOT_IN_FILES.sub("-", name).lstrip(".-")[:_KEPT_IN_FILES]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}+{digest}"


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
