"""Decoding by a kernel for whole blocks: the lanes up to the longest row, behind a mask."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import DecodeKernel, Kernel, Part
from pipeline.inference.masks import length_mask, window_mask


def masked(kernel: Kernel) -> DecodeKernel:
    """For kernels that serve any mask themselves."""

    def decode(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths: Tensor,
        *,
        scale: float,
        longest: int,
        window: int | None = None,
        softcap: float | None = None,
    ) -> Part:
        mask = _mask(lengths, longest, window)
        return kernel(q, k[:, :, :longest], v[:, :, :longest], scale=scale, mask=mask, softcap=softcap)

    return decode


def _mask(lengths: Tensor, longest: int, window: int | None) -> Tensor:
    """[rows, 1, 1, longest]"""
    mask = length_mask(lengths, longest)
    if window is None or window >= longest:
        return mask
    place = torch.arange(longest, device=lengths.device)[None]
    return mask + window_mask(lengths[:, None] - 1, place, window)
