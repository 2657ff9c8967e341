"""Memory that is freed stays in the process, unless the user has set malloc himself."""

import ctypes
import os
import resource
import subprocess
import sys

import pytest

from t2t_lite import malloc


def _is_glibc() -> bool:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False


needs_glibc = pytest.mark.skipif(not _is_glibc(), reason="glibc's malloc alone has these settings")

_REUSE = """
import ctypes, resource, sys, threading
from t2t_lite.malloc import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def use(times):
    for _ in range(times):
        blocks = [libc.malloc(20 << 20) for _ in range(2)]
        for block in blocks:
            ctypes.memset(block, 1, 20 << 20)
        for block in blocks:
            libc.free(block)
def faults():
    use(2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use(10)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
faults()
thread = threading.Thread(target=faults)
thread.start()
thread.join()
"""


def _faults(how: str, **settings: str) -> list[int]:
    """The page faults of using 40 MB ten times over: in the main thread, and in another."""
    result = subprocess.run(
        [sys.executable, "-c", _REUSE, how],
        env=_without_settings() | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in result.stdout.split()]


def _without_settings() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MALLOC_") and name not in ("GLIBC_TUNABLES", "LD_PRELOAD")
    }


@needs_glibc
def test_freed_memory_is_used_again_without_page_faults():
    pages = 10 * (40 << 20) // resource.getpagesize()
    kept = _faults("keep")
    assert len(kept) == 2
    assert max(kept) < pages / 100
    assert max(_faults("default")) > pages / 2  # or the settings would be for nothing


@pytest.mark.parametrize(
    "name, value",
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=0"),
    ],
)
def test_what_the_user_has_set_stays(monkeypatch, name, value):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("mallopt was looked for"))
    monkeypatch.setenv(name, value)
    assert not malloc.keep_freed_memory()


def _no_settings(monkeypatch):
    for name in os.environ.keys() - _without_settings().keys():
        monkeypatch.delenv(name)


@needs_glibc
def test_huge_pages_are_no_reason_to_give_memory_back():
    assert max(_faults("keep", GLIBC_TUNABLES="glibc.malloc.hugetlb=1")) < 100


def test_nothing_happens_where_the_c_library_has_no_mallopt(monkeypatch):
    _no_settings(monkeypatch)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not malloc.keep_freed_memory()


def test_nothing_happens_on_other_systems(monkeypatch):
    _no_settings(monkeypatch)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("mallopt was looked for"))
    assert not malloc.keep_freed_memory()
