"""The catalogue of problems. Importing it registers them."""

from t2t_lite.problems import parsing, spelled_numbers, toy_parsing, translation  # noqa: F401
