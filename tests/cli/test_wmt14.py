"""`t2t-trainer --problem=wmt14_ende --hparams=big`, the mission's own command, mocked downloads.

Run as a script, this file is that command: it needs 10 GB, which end with its process.
"""

import random
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough
SIZES = {"train": 20_000, "validation": 2, "test": 2}
SYLLABLES = [
    a + b
    for a in ("b", "d", "f", "g", "k", "l", "m", "n", "pr", "s", "t", "v", "st", "br")
    for b in "aeiou"
]


def generated_pairs(count, seed):
    """Sentences of made-up words, enough different ones for 37,000 sub-words."""
    rng = random.Random(seed)

    def sentence(ending):
        words = [
            "".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) + ending
            for _ in range(rng.randint(4, 12))
        ]
        return " ".join(words).capitalize() + "."

    return [(sentence(""), sentence("en")) for _ in range(count)]


def test_three_updates_at_the_sets_own_sizes_resumed_once(tmp_path):
    def run(steps):
        # Only what two CPU cores force on it is overridden: all sizes are the set's own.
        flags = ["--set=batch_tokens=256", "--set=max_length=128", "--set=report_steps=1"]
        folders = [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"]
        command = [sys.executable, __file__, "--problem=wmt14_ende", "--hparams=big", *flags]
        result = subprocess.run(
            [*command, f"--set=train_steps={steps}", *folders], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stderr

    first = run(2)
    assert "37,000 sub-words" in first and "d_model 1024" in first and "step 2/2" in first
    second = run(3)
    assert "resuming at step 2" in second and "step 3/3" in second and "step 2/3" not in second
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "step-00000002",
        "step-00000003",
    ]


def main():
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from t2t_lite.cli import trainer

    def as_dataset(builder, split, *args, **kwargs):
        sources, targets = zip(*generated_pairs(SIZES[str(split)], seed=str(split)))
        return tf.data.Dataset.from_tensor_slices({"en": list(sources), "de": list(targets)})

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        trainer.main()


if __name__ == "__main__":
    main()
