"""Writing of a dossier: the registry's entry, and each sheet as Markdown and as HTML for A4.

The same file and the same answers give the same bytes: no clock is read.
"""

import io
import re
import zipfile
from html import escape
from pathlib import Path
from typing import Final

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.tables import html_text
from dppca.common.kernel.durable.files import SHARED, digest_file, write_file
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.shell.outputs import claiming
from dppca.common.verification.dossier.facts import Facts
from dppca.common.verification.dossier.questions import read_answers
from dppca.common.verification.dossier.registry import registry_entry, registry_text
from dppca.common.verification.dossier.sheets import SHEETS, Fact, OpenLine, Sheet
from dppca.common.verification.files import CheckedFile, check_file

ANSWERS: Final = "dossier.yaml"
"""Name of the file of answers, in a site's folder or wherever else it is kept."""
_LINE = "_" * 60
_STYLE = """
@page { size: A4; margin: 14mm }
body { font: 8.5pt/1.3 sans-serif; max-width: 182mm; margin: 0 auto; overflow-wrap: anywhere }
h1 { font-size: 13pt; margin: 0 0 1mm } h2 { font-size: 10pt; margin: 3mm 0 1mm }
p { margin: 0 0 1mm } small { color: #444 }
.open { border-bottom: 0.3mm solid #444; min-height: 9mm }
"""


def write_dossier(
    path: Path | str,
    folder: Path | str,
    *,
    ca: bytes,
    answers: Path | str = ANSWERS,
    revoked: RevocationList | None = None,
) -> tuple[Path, ...]:
    """Verify a released file and write its dossier; return the files.

    Parameters
    ----------
    path
        The file or its envelope.
    folder
        New, empty, or an earlier dossier.
    ca
        PEM of the authority that certified the parties: without it nobody vouches for a fact.
    answers
        YAML file of what nobody signs (`dppca.common.verification.dossier.questions`).
    revoked
        The authority's revocation list.

    Raises
    ------
    SettingError
        Needed answers are not there, or the folder is somebody else's.
    ArtefactError, ReceiptError, SignatureError, AlteredError
        As `dppca.verify_file`.
    """
    return dossier_of(check_file(path, ca=ca, revoked=revoked), Path(folder), Path(answers))


def dossier_of(checked: CheckedFile, folder: Path, answers: Path) -> tuple[Path, ...]:
    """Write the dossier of a file that was verified; see `write_dossier`."""
    contents = dossier_contents(checked, answers)
    with claiming(folder, contents, option="--dossier"):
        for name, text in contents.items():
            write_file(folder / name, text.encode(), mode=SHARED, durable=False)
    return tuple(folder / name for name in contents)


def dossier_archive(checked: CheckedFile, answers: Path) -> bytes:
    """Return the same files as a ZIP archive, for a page; its bytes depend on nothing else."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in dossier_contents(checked, answers).items():
            archive.writestr(zipfile.ZipInfo(name), text.encode())
    return content.getvalue()


def dossier_contents(checked: CheckedFile, answers: Path) -> dict[str, str]:
    """Return the texts of a dossier by the names of their files; errors as `write_dossier`."""
    report, study = checked.report, checked.study
    if report.authority is None:
        raise SettingError(
            "a dossier is of facts that somebody vouches for: give the authority's certificate, "
            "--ca"
        )
    digest = digest_file(checked.path)
    facts = Facts(report, study, digest, read_answers(answers, study))
    contents = {
        f"{re.sub('[^a-z0-9]', '_', study.name.lower())}.yaml": registry_text(registry_entry(facts))
    }
    for name, make in SHEETS.items():
        sheet = make(facts)
        contents[f"{name}.md"], contents[f"{name}.html"] = markdown_text(sheet), html_page(sheet)
    return contents


def markdown_text(sheet: Sheet) -> str:
    """Return a sheet as Markdown."""
    lines = [f"# {_plain(sheet.title)}", "", _plain(sheet.whose), ""]
    for section in sheet.sections:
        lines += [f"## {section.heading}", ""]
        for item in section.items:
            if isinstance(item, Fact):
                lines += [f"- **{item.name}** ({item.source}): {_plain(item.text)}"]
            else:
                lines += [f"- {_plain(item.text)}", "", f"  {_LINE}", ""]
        lines += [""] if isinstance(section.items[-1], Fact) else []
    return "\n".join([*lines, f"Made from: {_plain(sheet.origin)}"]) + "\n"


def html_page(sheet: Sheet) -> str:
    """Return a sheet as a page that prints on A4; it loads nothing."""
    parts = [f"<h1>{html_text(sheet.title)}</h1>", f"<p>{html_text(sheet.whose)}</p>"]
    for section in sheet.sections:
        parts.append(f"<h2>{html_text(section.heading)}</h2>")
        parts += map(_html_item, section.items)
    parts.append(f"<p><small>Made from: {html_text(sheet.origin)}</small></p>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html_text(sheet.title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _html_item(item: Fact | OpenLine) -> str:
    if isinstance(item, OpenLine):
        return f'<p class="open">{html_text(item.text)}</p>'
    return (
        f"<p><b>{html_text(item.name)}</b> <small>({html_text(item.source)})</small>: "
        f"{html_text(item.text)}</p>"
    )


def _plain(text: str) -> str:
    """Text in one line, in which Markdown sees no mark of its own."""
    return escape(re.sub(r"([\\`*_\[\]#|])", r"\\\1", one_line(text)), quote=False)
