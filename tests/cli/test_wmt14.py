"""The mission's own command, `t2t-trainer --problem=wmt14_ende --hparams=big`, on mocked downloads."""

import random
import sys

import tensorflow as tf
import tensorflow_datasets as tfds

from t2t_lite.cli import arguments, trainer

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


def test_three_updates_at_the_sets_own_sizes_resumed_once(tmp_path, monkeypatch, capsys):
    sizes = {"train": 20_000, "validation": 2, "test": 2}

    def as_dataset(builder, split, *args, **kwargs):
        pairs = generated_pairs(sizes[str(split)], seed=str(split))
        return tf.data.Dataset.from_tensor_slices(
            {"en": [en for en, _ in pairs], "de": [de for _, de in pairs]}
        )

    def run(steps):
        # Only what two CPU cores force on it is overridden: all sizes are the set's own.
        flags = [
            "--set=batch_tokens=256",
            "--set=max_length=128",
            "--set=report_steps=1",
            f"--set=train_steps={steps}",
        ]
        directories = [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"]
        monkeypatch.setattr(
            sys,
            "argv",
            ["t2t-trainer", "--problem=wmt14_ende", "--hparams=big", *flags, *directories],
        )
        with tfds.testing.mock_data(as_dataset_fn=as_dataset):
            assert arguments.run(trainer.train, "t2t-trainer") == 0
        return capsys.readouterr().err

    first = run(2)
    assert "37,000 sub-words" in first and "d_model 1024" in first and "step 2/2" in first
    second = run(3)
    assert "resuming at step 2" in second and "step 3/3" in second and "step 2/3" not in second
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "step-00000002",
        "step-00000003",
    ]
