"""The Transformer's parts, one noun a file, written with `keras.ops` only.

Shapes in all of them: B batch, S source length, T target length, D model width (d_model), H heads,
K head width (d_k or d_v), V vocabulary, W beam width.
"""
