"""What every attention back end is: a function that returns its log-sum-exp too, so that parts can be merged."""

from typing import Protocol

from torch import Tensor

#: An attention output [rows, heads, queries, dim] and its log-sum-exp [rows, heads, queries], which is fp32.
Part = tuple[Tensor, Tensor]


class Kernel(Protocol):
    """q [rows, heads, queries, dim] and k, v [rows, kv_heads, keys, dim], with heads a multiple of kv_heads.

    `causal` needs as many queries as keys; `mask` [rows, 1, 1 or queries, keys], 0 or -inf, is added to the scores. A
    query that sees no key has the output 0 and the log-sum-exp -inf. What a back end cannot serve, the reference does.
    """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        scale: float,
        causal: bool = False,
        mask: Tensor | None = None,
        softcap: float | None = None,
    ) -> Part: ...


class DecodeKernel(Protocol):
    """One query a row, q [rows, heads, 1, dim], which sees the first `lengths[i]` keys of its lane, at least one.

    k, v [rows, kv_heads, capacity, dim] are views of the lanes, all capacity included; `lengths` [rows] are integers on
    their device, none over `longest`. The query is of the last key: with `window` it sees only so many of the last.
    Nothing waits for the device, so that a step can be queued, or captured in a CUDA graph.
    """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths: Tensor,
        *,
        scale: float,
        longest: int,
        window: int | None = None,
        softcap: float | None = None,
    ) -> Part: ...
