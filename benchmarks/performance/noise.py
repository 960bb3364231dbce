"""How fast exact noise is drawn, beside OpenDP's exact samplers in the same run.

Both draw from the operating system's entropy, as a release does.
"""

from __future__ import annotations

from collections.abc import Callable

import opendp.prelude as dp

from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.noise.sampler import discrete_gaussian, discrete_laplace

TITLE = "Exact noise"
ABOUT = """
Two million draws of the discrete Laplace and the discrete Gaussian law, exact, from the operating
system's entropy, on one core. OpenDP's samplers of the same laws, exact too, draw fewer and are
counted per draw.
"""

DRAWS = 2_000_000
SCALES = (1, 1000, 42_000_000, 2**40)


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both laws at several scales."""
    dp.enable_features("contrib")
    laws = {"Laplace": (_laplace, _opendp_laplace), "Gaussian": (_gaussian, _opendp_gaussian)}
    ours_draws, their_draws = (20_000, 500) if plan.quick else (DRAWS, 50_000)
    rows: list[tuple[Cell, ...]] = []
    for law, (ours, theirs) in laws.items():
        for scale in SCALES:
            plan.say(f"{law} of scale {scale}")
            timings = time_subjects(
                [
                    BenchmarkSubject("ours", _drawing(ours(scale), ours_draws), ours_draws),
                    BenchmarkSubject("OpenDP", _drawing(theirs(scale), their_draws), their_draws),
                ],
                rounds=plan.rounds,
            )
            mine, other = timings["ours"], timings["OpenDP"]
            per = DRAWS / mine.rate, DRAWS / other.rate
            rows.append((law, scale, *per, mine.rate / other.rate))
    return [
        FigureTable(
            "Seconds for two million draws.",
            ("law", "scale", "DPPCA", "OpenDP", "ratio"),
            tuple(rows),
        )
    ]


def _drawing(draw: Callable[[int], object], size: int) -> Callable[[], None]:
    def run() -> None:
        draw(size)

    return run


def _laplace(scale: int) -> Callable[[int], object]:
    return lambda size: discrete_laplace(scale, size, entropy=OperatingSystemEntropy())


def _gaussian(sigma: int) -> Callable[[int], object]:
    return lambda size: discrete_gaussian(sigma**2, size, entropy=OperatingSystemEntropy())


def _opendp_laplace(scale: int) -> Callable[[int], object]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    return lambda size: measurement([0] * size)


def _opendp_gaussian(sigma: int) -> Callable[[int], object]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(sigma))
    return lambda size: measurement([0] * size)
