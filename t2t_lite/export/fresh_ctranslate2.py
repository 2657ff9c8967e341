"""Runs a CTranslate2 export as a stranger would: a script that cannot import t2t_lite.

    python -P fresh_ctranslate2.py DIR/VERSION < texts.json     # a list of strings, none blank

Prints {"pieces": [...], "log_prob": [...]}: each text's greedy translation, EOS left out, and its
log probability, EOS included.
"""

import json
import runpy
import sys
from pathlib import Path

sys.modules["t2t_lite"] = None  # an import of it fails


def pieces_of(folder: Path, vocabulary: dict):
    """A function of a text that gives its sub-words' texts."""
    file = str(folder / vocabulary["file"])
    if vocabulary["kind"] == "sentencepiece":
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(file)
        return lambda text: processor.encode(text, out_type=str)
    module = Path(__file__).resolve().parents[1] / "data/t2t_spelling.py"
    spelling = runpy.run_path(str(module))["Spelling"].read(file)  # Python's own library suffices
    return lambda text: [spelling.subwords[i] for i in spelling.encode(text)]


def main() -> None:
    """Reads texts from stdin and writes their translations to stdout."""
    import ctranslate2

    folder = Path(sys.argv[1])
    about = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    options = about["translate_batch"] | {
        "beam_size": 1,
        "num_hypotheses": 1,
        "return_end_token": False,
    }
    source_pieces = pieces_of(folder, about["vocabularies"]["source"])
    # One thread: several wait for each other beside other work.
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    answer = {"pieces": [], "log_prob": []}
    for text in json.load(sys.stdin):
        source = source_pieces(text)
        limit = len(source) + 1 + about["extra_length"]
        [result] = translator.translate_batch([source], max_decoding_length=limit, **options)
        [scored] = translator.score_batch([source], result.hypotheses, max_input_length=0)
        answer["pieces"] += result.hypotheses
        answer["log_prob"].append(sum(scored.log_probs))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
