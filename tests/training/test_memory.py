"""Memory: what a cgroup leaves, and what a training takes."""

from typing import get_args

import pytest

from t2t_lite.config import HParams, LayerType
from t2t_lite.data.buckets import Bucket
from t2t_lite.training import memory
from t2t_lite.training.memory import (
    TrainingMemory,
    available_memory,
    peak_memory,
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


BATCH = Bucket(8, 20, 20)


def test_an_update_takes_more_for_more():
    small = dict(hparams=HParams(), symbols=[1000])

    def update(batch=BATCH, micro_batches=1, **changes):
        return TrainingMemory(**small | changes).update(batch, micro_batches)

    large = Bucket(100, 20, 20)
    assert update() < update(micro_batches=2) == update(micro_batches=3)
    assert update() < update(symbols=[2000])
    assert update() < update(symbols=[1000, 1000]), "embeddings of the source have gradients, too"
    assert update() < update(hparams=HParams(num_decoder_layers=7))
    assert update() < update(large) < update(Bucket(200, 20, 20))
    assert update(large, precision="bfloat16") < update(large) < update(Bucket(20, 100, 100))
    assert update(replicas=3) == 3 * update()


def test_long_inputs_take_least_where_not_all_positions_see_each_other():
    long = Bucket(1, 2000, 20)

    def update(kind):
        return TrainingMemory(HParams(encoder_layer=kind), [1000]).update(long)

    whole, *others = map(update, get_args(LayerType))
    assert max(others) < whole
    assert min(others) == update("convolution")


def test_the_whole_is_the_sum_of_its_parts():
    memory = TrainingMemory(HParams(), [1000], replicas=2)
    weights = count_of(HParams(), 1000)
    assert memory.checkpoint == pytest.approx(12 * weights, rel=0.01)
    assert memory.state == 2 * memory.checkpoint
    batches = [BATCH, Bucket(100, 20, 20)]
    parts = memory.state + memory.checkpoint + memory.update(batches[1], 2)
    assert memory.total(batches, 2) == parts


def count_of(h, symbols):
    """The weights of a model that is made."""
    from t2t_lite.models.transformer import Transformer

    return Transformer(h, symbols, symbols).count_params()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_weights_of_any_model(positions):
    """Biases and normalisation are not counted: some of a narrow model's, few of a wide one's."""
    h = HParams(
        num_encoder_layers=1, num_decoder_layers=3, d_model=128, d_ff=256, num_heads=2, d_k=24,
        d_v=40, positions=positions,
    )  # fmt: skip
    assert TrainingMemory(h, [500]).checkpoint == pytest.approx(12 * count_of(h, 500), rel=0.03)
