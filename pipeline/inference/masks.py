"""What hides keys from queries: additive masks, 0 where a query sees a key and -inf where it does not."""

import torch
from torch import Tensor


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """[rows, 1, 1, longest]: the first lengths[i] places of row i are seen."""
    return _additive(torch.arange(longest, device=lengths.device) < lengths[:, None])[:, None, None]


def window_mask(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """queries [rows, n], keys [1 or rows, m], both positions -> [rows, 1, n, m]. Of the future it says nothing."""
    return _additive(queries[:, :, None] - keys[:, None, :] < window)[:, None]


def past_mask(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """The same, where the future is hidden too."""
    seen = keys[:, None, :] <= queries[:, :, None]
    if window is not None:
        seen &= queries[:, :, None] - keys[:, None, :] < window
    return _additive(seen)[:, None]


def _additive(seen: Tensor) -> Tensor:
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, float("-inf"))
