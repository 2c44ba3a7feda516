"""Memory that torch frees on a CPU stays with the process: Linux would hand it back at once, page by page, zeroed."""

import ctypes

#: Of glibc's mallopt: blocks of up to so many bytes come from the heap, and so many free bytes stay at its end.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Where the C library can be told so; elsewhere nothing changes."""
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is not None:
        adjust(_MMAP_THRESHOLD, _KEPT_BYTES)
        adjust(_TRIM_THRESHOLD, _KEPT_BYTES)
