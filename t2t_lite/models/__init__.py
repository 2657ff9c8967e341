"""Models made of the layers: one, the Transformer."""
