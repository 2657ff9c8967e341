"""Compares the outputs of all ways to translate: they should be the same.

python scripts/compare_outputs.py --output_dir RUN --export_dir EXPORT --input FILE

EXPORT is a SavedModel of the same run. The ways are the Python API, t2t-decoder, the SavedModel
where t2t_lite cannot be imported, and t2t-server.

Each gets the lines in batches of 1, 7 and 64, and all at once; t2t-decoder makes its own batches,
and of one where that is asked for. Compared with the API on all of them, a text may differ only
where the two best scores lie within 1e-4, and a score by 1e-4. Prints what differs; exit code 1 for
any other difference, and for more than --allowed lines.

With --ctranslate2 DIR/1 ... and --reference FILE also: how many lines of these exports are equal,
and sacreBLEU of both.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from t2t_lite.evaluation.bleu import corpus_bleu
from t2t_lite.files import read_lines

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

TOLERANCE = 1e-4
_STRANGER = """
import json, sys
sys.modules["t2t_lite"] = None  # an import of it fails
import tensorflow as tf, tensorflow_text
function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
for batch in json.load(sys.stdin):
    outputs = function(text=tf.constant(batch, tf.string))
    for text, score in zip(outputs["text"].numpy(), outputs["score"].numpy()):
        print(json.dumps([text.decode(), float(score)]))
"""


def flags() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, metavar="RUN", help="a trained run")
    parser.add_argument(
        "--export_dir", required=True, metavar="DIR", help="what t2t-exporter wrote of it"
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="sentences, a line each")
    parser.add_argument(
        "--batch",
        type=int,
        nargs="+",
        default=[1, 7, 64],
        metavar="N",
        help="sizes (default: 1 7 64)",
    )
    parser.add_argument(
        "--allowed",
        type=int,
        default=2,
        metavar="N",
        help="lines that may differ, each time (default: 2)",
    )
    parser.add_argument(
        "--ctranslate2",
        nargs="+",
        default=[],
        metavar="DIR",
        help="CTranslate2 exports of the same run",
    )
    parser.add_argument("--reference", metavar="FILE", help="the right outputs, for --ctranslate2")
    args = parser.parse_args()
    if args.ctranslate2 and not args.reference:
        parser.error("--ctranslate2 needs --reference")
    return args


def main():
    """Compares each way with the Python API on all lines at once."""
    args = flags()

    import t2t_lite

    lines = list(read_lines(Path(args.input)))
    model = t2t_lite.load(args.output_dir)
    wanted = model.translate(lines, n_best=2)
    for folder in args.ctranslate2:
        compare_ctranslate2(
            folder,
            lines,
            [best.text for best, *_ in wanted],
            list(read_lines(Path(args.reference))),
        )
    failed = False
    for more in [], *([["--batch_tokens=1"]] if 1 in args.batch else []):
        way = " ".join(["t2t-decoder", *more])
        failed |= not compare(
            way, decoder(args.output_dir, args.input, more), lines, wanted, args.allowed
        )
    for size in sorted({*args.batch, len(lines)}):
        batches = [lines[start : start + size] for start in range(0, len(lines), size)]
        ways = {
            "Python": [
                (best.text, best.score) for batch in batches for [best] in model.translate(batch)
            ],
            "SavedModel": saved_model(args.export_dir, batches),
            "t2t-server": server(args.export_dir, batches),
        }
        for name, found in ways.items():
            failed |= not compare(f"{name}, batches of {size}", found, lines, wanted, args.allowed)
    sys.exit(failed)


def decoder(run: str, path: str, flags: list[str]) -> list[tuple[str, float]]:
    """(text, score) of each line of the file by t2t-decoder."""
    command = [sys.executable, "-c", "from t2t_lite.cli.decoder import main; main()"]
    flags = ["--output_dir", run, "--input", path, "--format=jsonl", *flags]
    result = subprocess.run(
        [*command, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        check=True,
    )
    bests = [json.loads(line)["hypotheses"][0] for line in result.stdout.split("\n")[:-1]]
    return [(best["text"], best["score"]) for best in bests]


def saved_model(export_dir: str, batches: list[list[str]]) -> list[tuple[str, float]]:
    """(text, score) of each line by the newest SavedModel, in a process without t2t_lite."""
    folder = max(
        (path for path in Path(export_dir).iterdir() if path.name.isdecimal()),
        key=lambda path: int(path.name),
    )
    command = [sys.executable, "-P", "-c", _STRANGER, str(folder)]
    result = subprocess.run(
        command, input=json.dumps(batches), stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return [tuple(json.loads(line)) for line in result.stdout.splitlines()]


def server(export_dir: str, batches: list[list[str]]) -> list[tuple[str, float]]:
    """(text, score) of each line by a t2t-server started for it, a request for each batch."""
    command = [
        sys.executable,
        "-c",
        "from t2t_lite.cli.server import main; main()",
        "--export_dir",
        export_dir,
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        name, address = re.fullmatch(
            r"serving (\S+) version \S+ at (\S+)\n", process.stderr.readline()
        ).groups()
        found = []
        for batch in batches:
            body = json.dumps({"instances": batch}).encode()
            with urllib.request.urlopen(f"{address}/v1/models/{name}:predict", body) as answer:
                found += [
                    (prediction["text"], prediction["score"])
                    for prediction in json.load(answer)["predictions"]
                ]
        return found
    finally:
        process.terminate()
        process.wait()


def compare(
    way: str, found: list[tuple[str, float]], lines: list[str], wanted: list, allowed: int
) -> bool:
    """Prints the lines that differ; whether they may."""
    different, errors, largest = 0, 0, 0.0
    for line, (text, score), hypotheses in zip(lines, found, wanted, strict=True):
        best = hypotheses[0]
        equal = [h.text for h in hypotheses if best.score - h.score <= TOLERANCE]
        largest = max(largest, abs(score - best.score))
        if text == best.text and abs(score - best.score) <= TOLERANCE:
            continue
        different += 1
        errors += text not in equal or abs(score - best.score) > TOLERANCE
        print(
            f"  {line!r}: {text!r} {score:.6f}; "
            f"expected {[(h.text, round(h.score, 6)) for h in hypotheses]}"
        )
    print(
        f"{way}: {different} of {len(lines)} lines differ; scores by up to {largest:.1e}",
        flush=True,
    )
    return not errors and different <= allowed


def compare_ctranslate2(
    folder: str, lines: list[str], ours: list[str], references: list[str]
) -> None:
    """Prints how far the outputs of an export, ranked as docs/exporting.md does, are ours."""
    import ctranslate2
    import sentencepiece

    how = json.loads((Path(folder) / "metadata.json").read_text(encoding="utf-8"))
    source_vocabulary, vocabulary = (
        sentencepiece.SentencePieceProcessor(f"{folder}/{how['vocabularies'][side]['file']}")
        for side in ("source", "target")
    )
    source = [
        source_vocabulary.encode(line, out_type=str) if line.strip() else [] for line in lines
    ]
    limit = max(map(len, source)) + 1 + how["extra_length"]

    def rank(pieces, score):
        return (
            pieces[-1:] == ["</s>"],
            score * (6 * len(pieces) ** 0.75 / (5 + len(pieces))) ** how["alpha"],
            pieces,
        )

    results = ctranslate2.Translator(folder).translate_batch(
        source, max_decoding_length=limit, **how["translate_batch"]
    )
    theirs = [
        vocabulary.decode(max(map(rank, result.hypotheses, result.scores))[2]) for result in results
    ]
    equal = sum(map(str.__eq__, ours, theirs))
    scores = [corpus_bleu(texts, references).value for texts in (theirs, ours)]
    print(
        f"CTranslate2 {how['quantization'] or 'float32'}: {equal} of {len(lines)} lines equal; "
        f"sacreBLEU {scores[0]:.2f} for {scores[1]:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
