"""Measures decoding: sentences/s of a trained run on a file. Without one: benchmark.py.

python scripts/bench_decoding.py --output_dir RUN --input FILE
    [--ctranslate2 EXPORT/1 ...] [--opennmt ONMT_MAIN CONFIG]

The file is decoded whole, and some lines of it one at a time. Start-up and the first pass, which
traces the graphs, are not counted. Beside each figure stands the floor: the multiply-adds that the
outputs need, divided by the machine's rate of matrix products in that precision. Peers, as columns
of their own: exports of t2t-exporter --format=ctranslate2, and OpenNMT-tf in an environment of its
own.
"""

import argparse
import collections
import glob
import json
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from t2t_lite.config import PRECISIONS
from t2t_lite.models.size import search_multiply_adds
from t2t_lite.runtime import start_tensorflow

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def flags() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, metavar="RUN", help="a trained run")
    parser.add_argument("--input", required=True, metavar="FILE", help="sentences, a line each")
    parser.add_argument("--beam_size", type=int, default=4)
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS,
        default=["float32", "bfloat16"],
        help="of the model, one or several (default: float32 bfloat16)",
    )
    parser.add_argument(
        "--alone", type=int, default=100, metavar="N", help="sentences decoded one at a time"
    )
    parser.add_argument(
        "--profile", action="store_true", help="what the time is spent on, by operation"
    )
    parser.add_argument(
        "--ctranslate2",
        nargs="+",
        default=[],
        metavar="DIR",
        help="CTranslate2 exports of the same run",
    )
    parser.add_argument(
        "--opennmt",
        nargs=2,
        metavar=("ONMT_MAIN", "CONFIG"),
        help="OpenNMT-tf's command and a trained model",
    )
    return parser.parse_args()


def main():
    """Measures what the flags name, each in a process of its own."""
    args = flags()
    lines = Path(args.input).read_text(encoding="utf-8").splitlines()

    some = lines[: args.alone]
    for precision in args.precision:
        rate = in_a_process(matrix_rate, precision)
        print(f"{precision} matrix products: {rate / 1e9:,.0f} GFLOP/s")
        for name, sentences, measure, *arguments in (
            (
                "whole file",
                len(lines),
                whole,
                args.output_dir,
                lines,
                args.beam_size,
                precision,
                args.profile,
            ),
            (
                "one at a time, one thread",
                len(some),
                alone,
                args.output_dir,
                some,
                args.beam_size,
                precision,
            ),
        ):
            seconds, adds = in_a_process(measure, *arguments)
            report(f"t2t_lite {precision}, {name}", sentences, seconds, adds * 2 / rate)
    for folder in args.ctranslate2:
        ctranslate2(folder, lines, some, args.beam_size)
    if args.opennmt:
        report("OpenNMT-tf, whole file", len(lines), opennmt(*args.opennmt, args.input))


def in_a_process(function, *arguments):
    """Calls the function in a new process: TensorFlow's threads are chosen once in each."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(function, arguments)


def whole(output_dir, lines, beam_size, precision, profiled):
    """(seconds, multiply-adds) of all lines at once, with threads as t2t-decoder has them."""
    import t2t_lite

    model = t2t_lite.load(output_dir, precision=precision)

    def translate():
        return model.translate(lines, beam_size=beam_size)

    translate()
    outputs, seconds = timed(translate)
    if profiled:
        profile(translate)
    return seconds, multiply_adds(model, lines, outputs, beam_size)


def alone(output_dir, lines, beam_size, precision):
    """(seconds, multiply-adds) of the lines one at a time, as `t2t-decoder --interactive` does."""
    import t2t_lite

    model = t2t_lite.load(output_dir, precision=precision, threads=1)
    for line in lines[:10]:
        model.translate([line], beam_size=beam_size)
    outputs, seconds = timed(
        lambda: [model.translate([line], beam_size=beam_size)[0] for line in lines]
    )
    return seconds, multiply_adds(model, lines, outputs, beam_size)


def timed(function, *arguments):
    """(what the function returns, seconds)."""
    started = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - started


def report(name, sentences, seconds, floor=None):
    """Prints one figure; `floor`: the seconds that the multiply-adds alone need."""
    ratio = f"  {seconds / floor:6.1f} times the floor" if floor else ""
    print(f"{name:46} {sentences / seconds:8.1f} sentences/s{ratio}", flush=True)


def matrix_rate(precision) -> float:
    """FLOP/s, two a multiply-add, of large matrix products: the best of several."""
    start_tensorflow()
    import tensorflow as tf

    size = 2048
    matrix = tf.cast(tf.random.normal([size, size]), precision)
    return 2 * size**3 / min(timed(lambda: tf.matmul(matrix, matrix).numpy())[1] for _ in range(8))


def multiply_adds(model, lines, outputs, beam_size) -> int:
    """Those of the encoder and of each step of each beam, up to the best output's end."""
    source, target = model.vocabularies.source, model.vocabularies.target
    lengths = [
        list(map(len, side))
        for side in (source.encode_lines(lines), target.encode_lines(o[0].text for o in outputs))
    ]
    return sum(
        search_multiply_adds(model.model.hparams, target.size, *pair, beam_size)
        for pair in zip(*lengths)
    )


def profile(translate):
    """Prints the operations that take most time, summed over threads, without what they call."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            translate()
        [file] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace.FromString(Path(file).read_bytes())
    own = collections.Counter()
    for plane in space.planes:
        if "CPU" in plane.name:
            for line in plane.lines:
                open_ = []  # (end, name), innermost last
                for event in sorted(
                    line.events, key=lambda event: (event.offset_ps, -event.duration_ps)
                ):
                    while open_ and open_[-1][0] <= event.offset_ps:
                        open_.pop()
                    name = plane.event_metadata[event.metadata_id].name.rpartition(":")[2]
                    own[name] += event.duration_ps
                    if open_:
                        own[open_[-1][1]] -= event.duration_ps
                    open_.append((event.offset_ps + event.duration_ps, name))
    del own["Run"]  # threads that wait
    for name, picoseconds in own.most_common(12):
        print(f"  {name:30} {picoseconds / own.total():6.1%}")


def ctranslate2(folder, lines, some, beam_size):
    """Measures an export: all `lines` at once, and `some` one at a time."""
    import ctranslate2
    import sentencepiece

    how = json.loads((Path(folder) / "metadata.json").read_text(encoding="utf-8"))
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(next(Path(folder).glob("*.model")))
    )
    options = how["translate_batch"] | {"beam_size": beam_size, "num_hypotheses": beam_size}
    cores = os.cpu_count()

    def measure(name, calls, **threads):
        engine = ctranslate2.Translator(folder, device="cpu", **threads)

        def translate(calls):
            for call in calls:
                engine.translate_batch(processor.encode(call, out_type=str), **options)

        translate([lines[:64]])
        seconds = timed(translate, calls)[1]
        report(
            f"CTranslate2 {how['quantization'] or 'float32'}, {name}", sum(map(len, calls)), seconds
        )

    measure("whole file, a batch on each core", [lines], inter_threads=cores, intra_threads=1)
    for threads in sorted({1, cores}):
        measure(
            f"one at a time, threads: {threads}",
            [[line] for line in some],
            inter_threads=1,
            intra_threads=threads,
        )


def opennmt(command, config, features) -> float:
    """Seconds of prediction, as it reports them itself, start-up left out."""
    with tempfile.NamedTemporaryFile() as predictions:
        result = subprocess.run(
            [command, "--config", config, "--auto_config", "infer", "--features_file", features]
            + ["--predictions_file", predictions.name, "--log_prediction_time"],
            capture_output=True,
            text=True,
        )
    if result.returncode:
        raise SystemExit(f"{command}: {result.stderr.strip().splitlines()[-1]}")
    return float(
        re.search(r"Total prediction time \(s\): ([\d.]+)", result.stderr + result.stdout)[1]
    )


if __name__ == "__main__":
    main()
