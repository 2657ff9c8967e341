"""The catalogue of problems. Importing it registers them."""

from t2t_lite.problems import spelled_numbers, translation  # noqa: F401
