"""Normal forms of names and labels: what is left of them without accents, capitals and blanks.

Compared are words that people wrote, never codes: 1 may be *male* here and *female* there.

Limits: letters are those of Latin scripts; other scripts keep their letters. Two words that mean
the same in two languages have no common form.
"""

import unicodedata
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

_LETTERS: Final = str.maketrans(
    {
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ı": "i",
        "ħ": "h",
        "ŋ": "n",
    }
)
"""Letters that no decomposition of Unicode takes apart."""
_OF_A_LIKENESS: Final = 0.85  # of 1, that names of like letters have at most


@lru_cache(maxsize=1 << 16)
def normal_form(text: str) -> str:
    """Return the words of a text in small plain letters and digits, with single blanks between.

    ``BirthDate``, ``birth_date`` and full-width letters of either are one form, and so are ``ü`` as
    one character and as two.
    """
    text = _apart(unicodedata.normalize("NFKC", text)).casefold().translate(_LETTERS)
    plain = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join("".join(c if c.isalnum() else " " for c in plain).split())


def likeness(one: str, other: str) -> float:
    """Return how like two names are, from 0 to 1.

    Equal names are 1, equal normal forms .98, but for blanks .95, the same words in another order
    .9; of all others the likeness by difflib's ratio is .85 at most.
    """
    if one == other:
        return 1.0
    a, b = normal_form(one), normal_form(other)
    if not a or not b:
        return 0.0
    if a == b:
        return 0.98
    if a.replace(" ", "") == b.replace(" ", ""):
        return 0.95
    if sorted(a.split()) == sorted(b.split()):
        return 0.9
    pair = SequenceMatcher(None, a.replace(" ", ""), b.replace(" ", ""), autojunk=False)
    return _OF_A_LIKENESS * pair.ratio()


def _apart(text: str) -> str:
    """Put a blank before each capital that begins a word, as in ``BirthDate``, ``HTTPServer``."""
    around = zip(" " + text, text, text[1:] + " ", strict=False)
    return "".join(
        f" {each}" if each.isupper() and _begins(before, after) else each
        for before, each, after in around
    )


def _begins(before: str, after: str) -> bool:
    return before.islower() or before.isdigit() or (before.isupper() and after.islower())
