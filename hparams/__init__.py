"""The catalogue of hyperparameter sets. Each reads as the difference from its parent."""

from t2t_lite.hparams import parsing, table3, tensor2tensor, transformer  # noqa: F401
