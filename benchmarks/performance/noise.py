"""How fast exact noise is drawn, beside OpenDP's exact samplers, and shares of it beside all of it.

All draw from the operating system's entropy, as a release does.
"""

from __future__ import annotations

from collections.abc import Callable

import opendp.prelude as dp

from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from dppca.common.privacy.noise.shares import gaussian_share, laplace_share

TITLE = "Exact noise"
ABOUT = """
Two million draws of the discrete Laplace and the discrete Gaussian law, exact, from the operating
system's entropy, on one core. OpenDP's samplers of the same laws, exact too, draw fewer and are
counted per draw. Shares are drawn by one owner where 2, 9 or 34 of them add up to one such noise;
Laplace shares from a stream that is keyed from the operating system.
"""

DRAWS = 2_000_000
SCALES = (1, 1000, 42_000_000, 2**40)
HONEST = (2, 9, 34)


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both laws at several scales, whole and in shares."""
    return [_beside_opendp(plan), _shares(plan)]


def _beside_opendp(plan: BenchmarkPlan) -> FigureTable:
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
    return FigureTable(
        "Seconds for two million draws.",
        ("law", "scale", "DPPCA", "OpenDP", "ratio"),
        tuple(rows),
    )


def _shares(plan: BenchmarkPlan) -> FigureTable:
    draws = 20_000 if plan.quick else DRAWS // 4
    laws = {"Laplace": (_laplace, _laplace_share), "Gaussian": (_gaussian, _gaussian_share)}
    rows: list[tuple[Cell, ...]] = []
    for law, (whole, share) in laws.items():
        for scale in SCALES[1:]:
            plan.say(f"shares of {law} noise of scale {scale}")
            subjects = [BenchmarkSubject("whole", _drawing(whole(scale), draws), draws)]
            subjects += [
                BenchmarkSubject(str(honest), _drawing(share(scale, honest), draws), draws)
                for honest in HONEST
            ]
            timings = time_subjects(subjects, rounds=plan.rounds)
            one = timings.pop("whole")
            per = 1e6 / draws
            rows += [
                (
                    *(law, scale, honest, timing.median_s * per, one.median_s * per),
                    *(timing.rate / one.rate, one.median_cpu_s / timing.median_cpu_s),
                )
                for honest, timing in zip(HONEST, timings.values(), strict=True)
            ]
    return FigureTable(
        "Microseconds for the noise of one entry: a share, and all of it in the same run.",
        ("law", "scale", "shares", "one share", "whole", "ratio", "by processor time"),
        tuple(rows),
    )


def _drawing(draw: Callable[[int], object], size: int) -> Callable[[], None]:
    def run() -> None:
        draw(size)

    return run


def _laplace(scale: int) -> Callable[[int], object]:
    return lambda size: discrete_laplace(scale, size, entropy=OperatingSystemEntropy())


def _gaussian(sigma: int) -> Callable[[int], object]:
    return lambda size: discrete_gaussian(sigma**2, size, entropy=OperatingSystemEntropy())


def _laplace_share(scale: int, honest: int) -> Callable[[int], object]:
    return lambda size: laplace_share(scale, honest, size, entropy=OperatingSystemEntropy())


def _gaussian_share(sigma: int, honest: int) -> Callable[[int], object]:
    return lambda size: gaussian_share(sigma**2, honest, size, entropy=OperatingSystemEntropy())


def _opendp_laplace(scale: int) -> Callable[[int], object]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    return lambda size: measurement([0] * size)


def _opendp_gaussian(sigma: int) -> Callable[[int], object]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(sigma))
    return lambda size: measurement([0] * size)
