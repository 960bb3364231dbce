"""Header of every page of a study."""

from dppca.common.kernel.documents.amounts import decimal_text, spent_text
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.composition import Round, compose_guarantee
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.pages.rendering import exact_time
from dppca.common.shell.study_words import show_state


def study_header(
    study: Study, state: StudyState | None = None, *, first: Study | None = None
) -> list[tuple[str, str]]:
    """Return names and values, the study's name first, without empty values.

    ``first`` is the study that this one continues, if it is known: one person's loss is by both.
    """
    cost = calibrate(study)
    before = None if first is None else Round(first, calibrate(first))
    whole = compose_guarantee(study, cost, first=before)
    together = "" if first is None else f", together with study {first.name}"
    if study.continues is not None and first is None:
        together = ", of this study alone"
    rows = [
        ("Study", study.name),
        ("State", "" if state is None else show_state(state)),
        (
            "Each owner's release",
            f"epsilon {decimal_text(cost.epsilon)}, delta {decimal_text(cost.delta)}",
        ),
        (
            "One person, all owners together",
            f"epsilon {spent_text(whole.epsilon)}, delta {whole.delta}{together}",
        ),
        ("Owners", ", ".join(study.owners)),
        ("Deadline", "" if study.deadline is None else exact_time(study.deadline)),
        ("Trust", study.trust.value),
        ("Digest", study.digest),
    ]
    return [(name, value) for name, value in rows if value]
