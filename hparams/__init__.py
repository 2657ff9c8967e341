"""The catalogue of hyperparameter sets. Each reads as the difference from its parent; importing a module registers its sets."""

from t2t_lite.hparams import transformer  # noqa: F401
