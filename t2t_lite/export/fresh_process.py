"""Runs an export as a stranger would, in a process that cannot import t2t_lite.

    python -P fresh_process.py DIR/VERSION < texts.json     # a list of strings

Prints {"text": [...], "score": [...], "log_prob": [...]} of `serving_default`.
"""

import json
import sys

sys.modules["t2t_lite"] = None  # an import of it fails


def main() -> None:
    """Runs the script."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers SentencePiece's operations

    function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
    results = function(text=tf.constant(json.load(sys.stdin), tf.string))
    answer = {name: tensor.numpy().tolist() for name, tensor in results.items()}
    answer["text"] = [text.decode() for text in answer["text"]]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
