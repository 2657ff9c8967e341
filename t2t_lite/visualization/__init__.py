"""Attention made visible: a page to explore it, and figures as the paper's."""
