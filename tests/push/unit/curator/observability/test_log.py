from dppca.curator.observability.log import LineLimiter


def test_a_flood_of_one_kind_makes_few_lines_and_other_kinds_are_still_written() -> None:
    now = [0.0]
    repeats = LineLimiter(3, clock=lambda: now[0])
    assert [repeats.take("flood") for _ in range(100)] == [0, 0, 0, *[None] * 97]
    assert repeats.take("other") == 0
    now[0] = 60.0
    assert repeats.take("flood") == 97
    assert repeats.take("flood") == 0
