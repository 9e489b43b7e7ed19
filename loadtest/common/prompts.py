"""Prompts of an exact length: token ids from a seeded generator."""
import random


class Prompts:
    """Ids lie in [low, high): above the special ids, which stand at the beginning of the usual vocabularies, and
    below the size of the smallest of them. Other models' may need another range."""

    def __init__(self, seed, low=1000, high=30000):
        self._random = random.Random(seed)
        self._seed, self._low, self._high = seed, low, high

    def new(self, tokens):
        """Another one each time; equal seeds give equal series."""
        return self._ids(self._random, tokens)

    def block(self, name, tokens):
        """The same one for the same name, whatever was made before."""
        return self._ids(random.Random(f"{self._seed}/{name}"), tokens)

    def _ids(self, source, tokens):
        return [source.randrange(self._low, self._high) for _ in range(tokens)]
