"""Small studies are computed beside a large one, a few at a time, in their order."""

import asyncio

import pytest

from dppca.curator.service.computing_places import SMALL_COLUMNS, ComputingPlaces

SMALL, LARGE = SMALL_COLUMNS, SMALL_COLUMNS + 1


class _Work:
    """Computations that begin when they have a place, and end when a test says so."""

    def __init__(self, n_small: int) -> None:
        self.places = ComputingPlaces(n_small)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, name: str, n_columns: int) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._run(name, n_columns))
        await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await asyncio.sleep(0)

    async def _run(self, name: str, n_columns: int) -> None:
        async with self.places.take(n_columns):
            self.begun.append(name)
            await self._ends[name].wait()


@pytest.mark.parametrize("n_small", [1, 3])
def test_large_studies_wait_for_each_other_and_small_ones_never_for_them(n_small: int) -> None:
    async def steps() -> None:
        work = _Work(n_small)
        for name in ("huge", "vast"):
            await work.add(name, LARGE)
        for number in range(n_small + 2):
            await work.add(f"small-{number}", SMALL)
        running = ["huge", *(f"small-{number}" for number in range(n_small))]
        assert work.begun == running
        assert (work.places.running, work.places.waiting) == (n_small + 1, 3)
        await work.end("small-0")
        assert work.begun == [*running, f"small-{n_small}"]
        await work.cancel("huge")
        assert work.begun[-1] == "vast"
        for name in (*running[2:], f"small-{n_small}", f"small-{n_small + 1}", "vast"):
            await work.end(name)
        assert (work.places.running, work.places.waiting) == (0, 0)

    asyncio.run(steps())


def test_who_comes_again_waits_behind_who_was_there_and_who_leaves_the_line_holds_no_place() -> (
    None
):
    async def steps() -> None:
        work = _Work(1)
        for name in ("first", "second", "third"):
            await work.add(name, SMALL)
        await work.cancel("second")
        await work.end("first")
        await work.add("first again", SMALL)
        assert work.begun == ["first", "third"]
        await work.end("third")
        assert work.begun == ["first", "third", "first again"]
        await work.end("first again")

    asyncio.run(steps())


@pytest.mark.parametrize(("cores", "n_small"), [(1, 1), (2, 1), (4, 3), (64, 4)])
def test_small_studies_have_the_cores_beside_a_large_one(
    cores: int, n_small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.curator.service.computing_places.count_cores", lambda: cores)

    async def steps() -> None:
        work = _Work(ComputingPlaces().n_small)
        for number in range(6):
            await work.add(f"small-{number}", SMALL)
        assert work.places.running == n_small
        for number in range(6):
            await work.end(f"small-{number}")

    asyncio.run(steps())
