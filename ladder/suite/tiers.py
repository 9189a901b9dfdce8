"""Which modules make which tier; see ladder.suite.case for what a tier module is."""

MODULES: dict[int, tuple[str, ...]] = {
    0: ("ladder.suite.platform",),
    1: ("ladder.suite.runtime",),
    2: ("ladder.suite.operators", "ladder.suite.nets"),
}
