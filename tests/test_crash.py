"""A training that is killed with kill -9, and resumed, ends as one that was left alone."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "crash_test.py"


@pytest.mark.thorough
def test_three_kills(tmp_path):
    """One of them while a checkpoint is written; with dropout and micro-batches."""
    sizes = "num_encoder_layers=1 num_decoder_layers=1 d_model=16 d_ff=32 d_k=8 d_v=8 num_heads=2"
    sizes += " batch_tokens=512 train_steps=60 checkpoint_steps=4 eval_steps=12 dropout=0.2"
    trainer = [
        *(sys.executable, "-c", "from t2t_lite.cli.trainer import main; main()"),
        *("--problem=spelled_numbers_ende", "--hparams=tiny", "--micro_batch_tokens=128"),
        *(f"--data_dir={tmp_path}/data", *(f"--set={size}" for size in sizes.split())),
    ]
    result = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "runs", "--kills=3", "--", *trainer],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0 and "equal to the bit" in result.stdout, result
    assert "kill 3: while a checkpoint was written" in result.stdout
