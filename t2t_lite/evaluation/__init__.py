"""Measures of outputs and of models."""
