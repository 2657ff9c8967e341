"""glibc's malloc, told to keep what it has: tensors made and freed all the time are dear else."""

import ctypes
import os
import sys

# Of <malloc.h>: what each is called there, its number and our value.
_MMAP_THRESHOLD = -3, 32 << 20  # bytes; the highest that glibc takes; larger ones are mapped alone
_TRIM_THRESHOLD = -1, -1  # never give the end of the heap back
_TOP_PAD = -2, 128 << 20  # bytes; more than a thread's heap of 64 MiB: keeps those too


def keep_freed_memory() -> bool:
    """Has malloc keep freed memory for the next tensor rather than give it back to the kernel.

    Returns:
        whether it was told so: not where the C library is not glibc (musl, macOS, Windows), nor
        where the user has set malloc himself with MALLOC_* or GLIBC_TUNABLES.

    """
    if sys.platform != "linux" or _set_by_user():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl has none
        return False
    return all([mallopt(*setting) for setting in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD)])


def _set_by_user() -> bool:
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in os.environ
    )
