"""Pages on which a steward decides how the columns of a file become a study's attributes.

Three steps: the file; a column for each attribute; a label for each word. Nothing is decided
without a choice of the steward: what is doubtful is left open, and so is all that is not chosen.
Names of columns and words come from forms by their places, never by their text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Attribute
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.pages.guard import read_form
from dppca.owner.client.calls import agreed_study, connect
from dppca.owner.commands.mapping import MappingPlan, plan_mapping
from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.page.site_pages import SitePages, said_in_the_list, study_name
from dppca.owner.records.mapping_drafts import Columns, Draft
from dppca.owner.records.mapping_proposals import Sureness, propose_labels
from dppca.owner.records.text_format import USUAL
from dppca.owner.render.mapping import map_lines, policy_lines, unused_columns

_SOON_S = 1.0  # in which a small file is read, so that no progress is shown
_UNKNOWN, _OPEN = "unknown", ""
_TITLE = "The proposal of a mapping"


@dataclass(slots=True)
class _Begun:
    """A mapping that a steward is deciding; ``decided`` are columns by attribute, if chosen."""

    plan: MappingPlan
    columns: Columns
    draft: Draft
    decided: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Word:
    """A cell whose label is asked: the place of its field, the label that is chosen at first."""

    place: str
    cell: str
    meaning: str
    chosen: str
    guess: str


class MapPages:
    """The steps of a mapping, for each study."""

    def __init__(self, pages: SitePages) -> None:
        self._pages = pages
        self._begun: dict[str, _Begun] = {}

    def map(self, request: Request) -> Response:
        """Show the step that waits: the file, or the columns of the file that was named."""
        name, again = study_name(request), "again" in request.query_params
        job = self._pages.jobs.of(name)
        if job is not None and job.runs:
            return self._pages.show_progress(job)
        if again:
            self._begun.pop(name, None)
        if name not in self._begun:
            ended = job is not None and job.title == _TITLE and not again
            return self._file(name, {}, wrong=job.error if ended and job is not None else None)
        begun = self._begun[name]
        lines = map_lines(begun.draft, begun.columns, begun.plan.study.table)
        return self._answer("map_columns.html", name, begun, lines=lines, sure=Sureness.SURE)

    def propose(self, request: Request) -> Response:
        """Read the file that a form names, and propose."""
        name, form = study_name(request), read_form(request)
        data = Path(form.get("data", "").strip()).expanduser()
        book = form.get("dictionary", "").strip()
        if not data.is_file() or not form.get("data", "").strip():
            return self._file(name, form, wrong="this is no file here: give its path at this site")
        with connect(self._pages.site, warn=said_in_the_list) as client:
            study, _ = agreed_study(self._pages.site, client, name, study_file=None)

        def work(job: Job) -> None:
            plan = plan_mapping(
                self._pages.site.folder,
                study,
                data,
                key=form.get("key", "").strip(),
                missing=tuple(form.get("missing", "").replace(",", " ").split()),
                dictionary=Path(book).expanduser() if book else None,
                again=True,
            )
            columns = plan.columns()
            job.check_cancelled()
            self._begun[name] = _Begun(plan, columns, plan.draft(columns))

        self._begun.pop(name, None)
        return self._work(name, work)

    def columns(self, request: Request) -> Response:
        """Take the columns that were chosen, and read their words."""
        name, form = study_name(request), read_form(request)
        if name not in self._begun:
            return self._to(name)
        begun, names = self._begun[name], [*self._begun[name].columns]
        begun.decided = {
            line.attribute: _chosen(form, f"column-{place}", names)
            for place, line in enumerate(begun.draft.lines)
            if not line.kept
        }

        def work(job: Job) -> None:
            asked = begun.plan.study.table.attributes
            labelled = (each.name for each in asked if list_labels(each) is not None)
            read = {begun.decided.get(name, "") for name in labelled}
            columns = begun.plan.columns(also=read)
            job.check_cancelled()
            begun.columns = columns

        return self._work(name, work, "/map/words")

    def words(self, request: Request) -> Response:
        """Show the words of the columns that were chosen, each with its label."""
        name = study_name(request)
        job = self._pages.jobs.of(name)
        if job is not None and job.runs:
            return self._pages.show_progress(job)
        if name not in self._begun or not self._begun[name].decided:
            return self._to(name)
        return self._words(name)

    def write(self, request: Request) -> Response:
        """Write the file as it was decided."""
        name, form = study_name(request), read_form(request)
        if name not in self._begun or not self._begun[name].decided:
            return self._to(name)
        begun, labels = self._begun[name], dict[str, dict[str, str]]()
        decided = dict(begun.decided)
        for attribute, asked in self._asked(begun).items():
            chosen = {each.cell: form.get(each.place, _OPEN) for each in asked}
            known = [*(list_labels(_attribute(begun, attribute)) or ()), _UNKNOWN]
            if not {*chosen.values()} <= {*map(str, range(len(known)))}:
                decided[attribute] = ""
                continue
            found = {cell: known[int(place)] for cell, place in chosen.items()}
            labels[attribute] = {c: "" if w == _UNKNOWN else w for c, w in found.items()}
            if not any(labels[attribute].values()):
                decided[attribute] = ""
        draft = begun.plan.draft(begun.columns, decided=decided, labels=labels)
        try:
            begun.plan.write(draft)
        except SettingError as error:
            return self._words(name, wrong=str(error))
        del self._begun[name]
        path = begun.plan.path.relative_to(self._pages.site.folder)
        return self._answer(
            "map_written.html",
            name,
            begun,
            path=begun.plan.path,
            undecided=draft.undecided,
            unused=unused_columns(draft, begun.columns),
            policy=policy_lines(path, begun.plan.form, begun.plan.key)[1:],
        )

    def _asked(self, begun: _Begun) -> dict[str, list[_Word]]:
        """Return the words whose label is asked, by attribute, in the study's order."""
        asked: dict[str, list[_Word]] = {}
        for place, attribute in enumerate(begun.plan.study.table.attributes):
            column = begun.columns.get(begun.decided.get(attribute.name, ""))
            labels = list_labels(attribute)
            if labels is None or column is None:
                continue
            found = propose_labels(attribute, column.words).items()
            asked[attribute.name] = [
                _Word(
                    f"label-{place}-{number}",
                    cell,
                    each.words,
                    str(labels.index(each.label)) if each.sureness is Sureness.SURE else _OPEN,
                    each.label,
                )
                for number, (cell, each) in enumerate(found)
                if each.label or cell not in column.absent
            ]
        return {name: words for name, words in asked.items() if words}

    def _words(self, name: str, *, wrong: str | None = None) -> Response:
        begun = self._begun[name]
        labels = {
            attribute: (*(list_labels(_attribute(begun, attribute)) or ()), _UNKNOWN)
            for attribute in self._asked(begun)
        }
        return self._answer(
            "map_words.html", name, begun, asked=self._asked(begun), labels=labels, wrong=wrong
        )

    def _file(self, name: str, form: Mapping[str, str], *, wrong: str | None) -> Response:
        return self._pages.answer(
            "map_file.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            name=name,
            address=self._pages.place(name),
            typed=form,
            wrong=wrong,
        )

    def _work(self, name: str, work: Callable[[Job], None], page: str = "/map") -> Response:
        address = self._pages.place(name, page)
        job = self._pages.jobs.start(Job(name, _TITLE, review=address), work)
        job.wait(_SOON_S)
        return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)

    def _to(self, name: str) -> Response:
        return RedirectResponse(self._pages.place(name, "/map"), status_code=HTTPStatus.SEE_OTHER)

    def _answer(self, template: str, name: str, begun: _Begun, **values: Any) -> Response:
        form = begun.plan.form
        return self._pages.answer(
            template,
            name=name,
            address=self._pages.place(name),
            data=begun.plan.data,
            form="" if form == USUAL else form.to_yaml(),
            columns=[*begun.columns],
            **values,
        )


def _chosen(form: Mapping[str, str], name: str, names: list[str]) -> str:
    """Return the column whose place a form has; empty for none."""
    places = {str(place): each for place, each in enumerate(names)}
    return places.get(form.get(name, ""), "")


def _attribute(begun: _Begun, name: str) -> Attribute:
    return next(each for each in begun.plan.study.table.attributes if each.name == name)
