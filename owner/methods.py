"""What ``dppca-owner train`` offers: each method exactly as far as its label allows.

The label follows from a method's guarantee and is not the steward's to choose:

* `released`: what leaves is private by a proof that holds. Takes the ledger's path: consent,
  reserve, draw, commit. Never without a policy.
* `site-only`: computed from raw rows. Saved here, never published, and not charged, for nothing
  leaves; noise that such a method draws for its own components protects nobody while they stay.
* `published-method`: an algorithm as its paper prints it. Only where the steward says that every
  row is public already, as in a benchmark; the file and all output say what it is.

A method that makes no sense at one site is named with what does it instead. Everything here is a
decision on names and numbers; nothing is read, and numbers are checked by the methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from common.errors import LabelError, SettingError
from common.privacy.labels import Label, require_released

LINEAR, RBF = "linear", "rbf"
SOUND, PUBLISHED = "sound", "published"
_STAYS_C, _LEAVES_C = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    Attributes
    ----------
    sound
        Label of the sound form; None where there is none.
    has_published
        Whether it can be run as printed.
    kernels
        Of its machine; the first is the default.
    C
        Default of the hinge loss.
    noised
        Whether its sound form draws noise of its own, and so takes an epsilon.
    takes_delta, takes_components
        Whether its sound form does.
    does
        What it trains, for people.
    """

    name: str
    sound: Label | None
    has_published: bool
    kernels: tuple[str, ...]
    C: float
    noised: bool
    takes_delta: bool
    takes_components: bool
    does: str


def _method(
    name: str,
    sound: Label | None,
    kernels: tuple[str, ...],
    does: str,
    *,
    noised: bool = True,
    delta: bool = False,
    components: bool = False,
    published: bool = True,
) -> Method:
    C = _LEAVES_C if sound is Label.RELEASED else _STAYS_C
    return Method(name, sound, published, kernels, C, noised, delta, components, does)


_BOTH = (LINEAR, RBF)
METHODS = MappingProxyType(
    {
        each.name: each
        for each in (
            _method(
                *("dppca-svm", Label.SITE_ONLY, _BOTH),
                "a machine on own rows in the study's components",
                noised=False,
            ),
            _method(
                *("dp-svm", Label.RELEASED, (LINEAR,)),
                "a machine on the study's components with noise on its weights",
                delta=True,
                published=False,
            ),
            _method(
                *("pca-dpsvm", Label.RELEASED, (LINEAR,)),
                "components of own rows and a machine on them, both with noise",
                delta=True,
                components=True,
            ),
            _method(
                *("private-svm", Label.RELEASED, (RBF,)),
                "a machine on public random features with noise on its weights",
                delta=True,
            ),
            _method(
                *("dpsvd", Label.SITE_ONLY, _BOTH),
                "a machine on rows with noise on every entry; released with --label-epsilon",
                delta=True,
                components=True,
            ),
            _method(
                *("ag-svm", Label.SITE_ONLY, _BOTH),
                "a machine on own rows in own components, those with Gaussian noise",
                delta=True,
                components=True,
            ),
            _method(
                *("mod-sulq-svm", Label.SITE_ONLY, _BOTH),
                "the same with more noise",
                delta=True,
                components=True,
            ),
            _method(
                *("svm", Label.SITE_ONLY, _BOTH),
                "a machine on own rows, without any privacy: a ceiling",
                noised=False,
                published=False,
            ),
            _method(
                *("dpsvmdvp", None, (RBF,)),
                "a machine that holds raw rows in the clear; no sound form is known",
            ),
        )
    }
)
ELSEWHERE = MappingProxyType(
    {
        "ppca-dp-mh": (
            "ppca-dp-mh is the study itself, of all owners together, and makes components and "
            "synthetic rows, not a classifier: use `contribute`, `components` and `synthesize`, "
            "then train whatever you like on the synthetic rows"
        )
    }
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the steward typed; None where an option was not given."""

    method: str
    variant: str = SOUND
    epsilon: str | None = None
    delta: str | None = None
    label_epsilon: str | None = None
    kernel: str | None = None
    C: float | None = None
    n_components: int | None = None
    max_rows: int | None = None
    publish: bool = False
    yes: bool = False
    public_data: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """What will be done.

    Attributes
    ----------
    label
        Of the model.
    of_study
        Whether it stands on the study's components.
    """

    method: Method
    variant: str
    label: Label
    kernel: str
    C: float
    of_study: bool


def choose(asked: Asked) -> Choice:
    """Decide, or say what is wrong, before anything is read, drawn or charged.

    Raises
    ------
    SettingError
        An option that the method would not heed, or one that it needs.
    LabelError
        The model may not do what was asked: be published, or be made from rows that are not public.
    """
    if asked.method in ELSEWHERE:
        raise SettingError(ELSEWHERE[asked.method])
    method, variant = METHODS[asked.method], asked.variant
    label = _label(method, variant, asked)
    what = f"a model made by {method.name}" + (" as printed" if variant == PUBLISHED else "")
    if label is not Label.RELEASED and asked.publish:
        require_released(label, what)
    if label is Label.PUBLISHED_METHOD and not asked.public_data:
        message = (
            f"{what} is {label}: no privacy claim holds for it, and it is for benchmarks on "
            "public data only. If every row of this data set is public already, say --public-data"
        )
        raise LabelError(message)
    if asked.publish:
        message = (
            f"{what} may leave, but curators do not take models: make it without --publish, then "
            "hand over its file yourself"
        )
        raise SettingError(message)
    _require_heeded(method, variant, label, asked)
    kernel = asked.kernel or method.kernels[0]
    if kernel not in method.kernels:
        message = (
            f"kernel is {kernel}, and {method.name} is {' or '.join(method.kernels)}"
            + (
                ": an rbf machine is made of rows, so it cannot leave"
                if method.kernels == (LINEAR,)
                else ""
            )
            + f"; use --kernel {method.kernels[0]}"
        )
        raise SettingError(message)
    return Choice(
        method=method,
        variant=variant,
        label=label,
        kernel=kernel,
        C=method.C if asked.C is None else asked.C,
        of_study=variant == SOUND and method.name in ("dppca-svm", "dp-svm"),
    )


def _label(method: Method, variant: str, asked: Asked) -> Label:
    if variant == PUBLISHED:
        if not method.has_published:
            message = f"{method.name} has one form only: leave --variant out"
            raise SettingError(message)
        return Label.PUBLISHED_METHOD
    if method.sound is None:
        message = (
            f"{method.name} is known as printed only, and its privacy claim does not hold: "
            "--variant published makes it from data that are public already"
        )
        raise LabelError(message)
    if method.name == "dpsvd" and asked.label_epsilon is not None:
        return Label.RELEASED
    return method.sound


def _require_heeded(method: Method, variant: str, label: Label, asked: Asked) -> None:
    """Refuse options that would have no effect."""
    name, sound = method.name, variant == SOUND
    stays = label is not Label.RELEASED
    noised = method.noised or not sound
    if not noised and (asked.epsilon is not None or asked.delta is not None):
        message = (
            "--epsilon and --delta are for a method with noise of its own, and a model made by "
            f"{name} has none and may not leave: leave them out, or use --method dp-svm"
        )
        raise SettingError(message)
    if stays and asked.yes:
        message = f"--yes consents to a charge, and {name} makes none: leave it out"
        raise SettingError(message)
    # Whether a delta is needed or not meant is said by the methods themselves.
    refused = {
        "--label-epsilon": asked.label_epsilon is not None and not (name == "dpsvd" and sound),
        "--components": asked.n_components is not None
        and not (method.takes_components or (name == "dppca-svm" and not sound)),
        "--public-data": asked.public_data and label is not Label.PUBLISHED_METHOD,
    }
    for option, wrong in refused.items():
        if wrong:
            message = f"{option} means nothing to {name}, {variant} form: leave it out"
            raise SettingError(message)
    if asked.max_rows is not None and not stays:
        message = (
            f"--max-rows is for models that stay: {name} trains on all rows, whose number is public"
        )
        raise SettingError(message)
