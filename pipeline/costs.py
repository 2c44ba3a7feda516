"""Stage 3's prices: what a node of the prefix tree saves and costs on one device with one model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds, but only their ratios decide anything."""

    token_s: float  #: a prompt token, computed in all layers
    key_s: float  #: a key that a row holds for itself and could share, at each decode step
    level_s: float  #: a level of nodes, in each forward that reads it
    reader_s: float  #: a token that reads a node, in the forward that computes it

    def saved(self, *, tokens: int, rows: int, below: int, steps: float) -> float:
        """By one node of so many tokens over so many rows, its share of a level left out.

        `below` are the prompt tokens under it, those that are shared counted once; each row decodes `steps` tokens.
        """
        once = tokens * (rows - 1) * (self.token_s + steps * self.key_s)
        return once - (below + rows * steps) * self.reader_s


#: For devices and models never measured, in units of a token. Estimates: a level costs a GPU the launches of its
#: kernels, in the time of which it could compute many tokens.
_CPU = Costs(token_s=1.0, key_s=0.01, level_s=10.0, reader_s=0.1)
_GPU = Costs(token_s=1.0, key_s=0.01, level_s=100.0, reader_s=0.1)


def usual_costs(device_type: str) -> Costs:
    """`cpu`, `cuda`, ..."""
    return _CPU if device_type == "cpu" else _GPU
