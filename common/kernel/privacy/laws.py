"""Every law of the noise that a study may ask for.

No other module asks which law it has: what depends on one is a method of it
(`dppca.common.kernel.privacy.noise_law`). A new law is a module beside `laplace_law`, a sampler,
the form in which a study asks for it (`dppca.common.kernel.study`), its place here, and its page:
docs/how-to/add-a-mechanism.md.
"""

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.matrix_law import MatrixLaplaceLaw
from dppca.common.kernel.privacy.noise_law import IndependentLaw, NoiseLaw, ReleaseLaw

LAWS: dict[str, type[IndependentLaw]] = {law.name: law for law in (LaplaceLaw, GaussianLaw)}
"""Every law of one entry that a study may ask for, by its name; one without a delta first."""

JOINT_LAWS: dict[str, type[ReleaseLaw]] = {law.name: law for law in (MatrixLaplaceLaw,)}
"""Every law of a whole release, by its name."""


def every_law() -> dict[str, type[NoiseLaw]]:
    """Return every law that a study may ask for, by its name."""
    return {**LAWS, **JOINT_LAWS}


USUAL = {law.needs_delta: law.name for law in (LaplaceLaw, GaussianLaw)}
"""The law that is taken where none is named, by whether there is a delta."""


def choose_law(name: str | None, delta: object | None, *, joint: bool = True) -> type[NoiseLaw]:
    """Return the law of a name; where there is none, the usual one with or without a delta.

    ``joint`` is False where single numbers are noised. Raise `SettingError` for a name that no law
    has, or whose law does not go with the delta, or is joint where it may not be.
    """
    law = every_law().get(USUAL[delta is not None] if name is None else name)
    if law is None:
        raise SettingError(f"no mechanism is called {name!r}: there are {', '.join(every_law())}")
    if law.needs_delta != (delta is not None):
        needs = "needs a delta" if law.needs_delta else "takes no delta"
        raise SettingError(f"mechanism {law.name} {needs}")
    if law.is_joint and not joint:
        raise SettingError(
            f"mechanism {law.name} is for the sums and products of a study, not for single "
            f"numbers such as a model's weights: take {USUAL[law.needs_delta]}"
        )
    return law
