"""Inside stage 5: tokens that rows go on with whatever the model says, several to a row, read in one forward."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.inference.attention import LayerRule
from pipeline.inference.kernels.kernel import Kernel, Part
from pipeline.inference.lanes import Lanes
from pipeline.inference.masks import past_mask
from pipeline.inference.padding import Padding


class Spans:
    """Of some lanes that hold tokens already. What comes behind them in the same forward finds their keys there.

    lane      |  kept, seen by all of the span  |  the span, each token sees those before it  |  the newest, not of it
    places    0                               start                                     start + length
    """

    def __init__(
        self, kernel: Kernel, lanes: Lanes, numbers: Sequence[int], starts: Sequence[int], lengths: Sequence[int]
    ) -> None:
        """Each list has an entry for each of the lanes, whose `numbers` are distinct."""
        device = lanes.device
        places = [range(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        self._kernel, self._lanes, self._padding = kernel, lanes, Padding(lengths, device)
        self._keys = torch.arange(max(span.stop for span in places), device=device)[None]
        self._numbers = torch.tensor(numbers, device=device)
        self._lane = self._numbers.repeat_interleave(torch.tensor(lengths, device=device))
        self._place = torch.tensor([place for span in places for place in span], device=device)
        self._queries = self._padding.pad(self._place[None, None, :, None])[:, 0, :, 0]

    @property
    def tokens(self) -> int:
        return self._padding.tokens

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Part:
        self._lanes.put(layer, self._lane, self._place, k[0].transpose(0, 1), v[0].transpose(0, 1))
        keys, values = self._lanes.copies(layer, self._numbers, self._keys.shape[1])
        mask = past_mask(self._queries, self._keys, rule.window)
        out, lse = self._kernel(self._padding.pad(q), keys, values, scale=rule.scale, mask=mask, softcap=rule.softcap)
        return self._padding.unpad(out), self._padding.unpad(lse)
