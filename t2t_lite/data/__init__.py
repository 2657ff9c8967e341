"""Data: sources of raw pairs, sub-word vocabularies, and the batches made of them."""
