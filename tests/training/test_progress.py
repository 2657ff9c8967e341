"""What is shown of a training; tests/cli/test_trainer.py reads the log of a whole run."""

from types import SimpleNamespace

from t2t_lite.training.progress import dev_report
from t2t_lite.translator import Evaluation


def test_a_huge_line_is_shown_in_part():
    line = "wide " * 2_000_000
    dev = Evaluation(
        {"loss": 1.0, "tokens": 9},
        [],
        ["short", line],
        ["kurz", line],
        [SimpleNamespace(text="")] * 2,
    )
    report = dev_report("dev", dev)
    assert report.startswith("dev: loss 1\n  in : short\n  out: \n  ref: kurz\n  in : wide wide ")
    assert report.count("... (10,000,000 characters)") == 2 and len(report) < 3_000
