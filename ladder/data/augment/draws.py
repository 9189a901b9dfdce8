"""The draws of one purpose, one after another, from a named stream (ladder.rng)."""

from statistics import NormalDist

from ladder import rng

WORDS = 64  # of a stream; the most that a purpose takes is 41, for erasing, and a rejected word is one in 2^50
GRID = 2.0**16  # a value that a library's logarithm or root goes into is rounded to one part of it: the last bits of
# such functions differ between builds, and what is drawn must not


class Draws:
    """A stream's draws. Taking more than `WORDS` words is an error in the caller."""

    def __init__(self, key: str) -> None:
        self._words = iter(rng.raw(key, WORDS).tolist())

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """In [low, high), with 53 bits."""
        return low + (high - low) * ((next(self._words) >> 11) * 2.0**-53)

    def below(self, bound: int) -> int:
        """An integer in [0, bound), each as likely."""
        return rng.below(bound, self._words)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.uniform() < probability

    def sign(self) -> int:
        """1 or -1."""
        return 1 if self.chance(0.5) else -1

    def normal(self, mean: float, deviation: float) -> float:
        """Normal, by the inverse of its distribution; on the grid."""
        middle = ((next(self._words) >> 11) + 0.5) * 2.0**-53  # never 0 or 1
        return on_grid(NormalDist(mean, deviation).inv_cdf(middle))

    def beta(self, alpha: float) -> float:
        """Of the beta distribution with both parameters `alpha`, by the inverse of its distribution; on the grid."""
        from scipy.special import betaincinv  # here, since only a recipe that mixes needs it

        return on_grid(float(betaincinv(alpha, alpha, self.uniform())))


def on_grid(value: float) -> float:
    """The nearest multiple of 2^-16."""
    return round(value * GRID) / GRID


def of_example(purpose: str, identity: str, epoch: int, example: int, copy: int) -> Draws:
    """The draws for an example in an epoch, or for one of its copies there, where a recipe repeats examples."""
    return Draws(f"{purpose}/{identity}/epoch={epoch}/example={example}/copy={copy}")


def of_step(purpose: str, identity: str, epoch: int, step: int) -> Draws:
    """The draws for all of a step's batch; `step` counts from 0 in its epoch."""
    return Draws(f"{purpose}/{identity}/epoch={epoch}/step={step}")
