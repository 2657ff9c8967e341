"""Memory: what a cgroup leaves, and what an update takes."""

import pytest

from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket
from t2t_lite.training import memory
from t2t_lite.training.memory import (
    available_memory,
    peak_memory,
    update_memory,
    used_memory,
)


def test_this_process():
    before = used_memory()
    block = bytearray(300 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    assert used_memory() - before == pytest.approx(len(block), rel=0.1)
    assert peak_memory() >= used_memory() - 2**20
    assert 0 < available_memory() < 2**50


MIB = 2**20


@pytest.mark.parametrize(
    "line, limit, usage",
    [
        ("4:memory:/a/b", "memory/a/memory.limit_in_bytes", "memory/a/memory.usage_in_bytes"),
        ("0::/a/b", "a/memory.max", "a/memory.current"),
        ("0::/../elsewhere", "memory.max", "memory.current"),  # in a container
    ],
)
def test_the_limit_of_a_cgroup(tmp_path, monkeypatch, line, limit, usage):
    """Of one that the process's own is in, too; files in memory do not count."""
    root, processes = tmp_path / "cgroup", tmp_path / "cgroups"
    (root / "memory/a/b").mkdir(parents=True)
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/memory.max").write_text("max\n")
    processes.write_text(f"3:cpu:/x\n{line}\n")
    monkeypatch.setattr(memory, "CGROUPS", root)
    monkeypatch.setattr(memory, "PROCESS_CGROUPS", processes)
    plain = available_memory()
    (root / limit).write_text(f"{40 * MIB}\n")
    (root / usage).write_text(f"{30 * MIB}\n")
    (root / limit).with_name("memory.stat").write_text(f"anon 1\ninactive_file {5 * MIB}\n")
    assert available_memory() == 15 * MIB < plain
    (root / usage).write_text(f"{90 * MIB}\n")
    assert available_memory() == 0


def test_an_update_takes_more_for_more():
    small = dict(weights=10**6, vocabulary=1000, precision="float32", batch=Bucket(8, 20, 20))
    least = update_memory(HParams(), **small)
    for name, value in {
        "weights": 2 * 10**6,
        "vocabulary": 2000,
        "batch": Bucket(16, 20, 20),
    }.items():
        assert update_memory(HParams(), **small | {name: value}) > least
    assert update_memory(HParams(), **small | {"precision": "bfloat16"}) < least
    assert update_memory(HParams(num_decoder_layers=7), **small) > least
