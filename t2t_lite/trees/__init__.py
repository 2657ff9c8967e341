"""Constituency trees: from treebank files to sequences of symbols, and back."""
