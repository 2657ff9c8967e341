"""Measures the layer types of the paper's Table 1: time and memory against length n and width d.

python scripts/layer_complexity.py [--lengths N ...] [--widths D ...] [--output FILE.png]

Each figure is one of a forward and backward pass over one sequence on one CPU core, in a process of
its own: the least of several times, which the core has worked, so that it matters little what else
the machine does; and the most memory besides what the process had. The plot has the table's column
"Complexity per Layer" as dashed lines through the last point of each curve.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import time

# Name of the layer type, complexity per layer, and what that is proportional to.
KINDS = {
    "self_attention": ("O(n² d)", lambda n, d: n**2 * d),
    "recurrent": ("O(n d²)", lambda n, d: n * d**2),
    "convolution": ("O(k n d²)", lambda n, d: n * d**2),
    "restricted_self_attention": ("O(r n d)", lambda n, d: n * d),
}
LENGTHS, WIDTHS = [512, 1024, 2048, 4096, 8192, 16384], [128, 256, 512, 1024]
LENGTH, WIDTH = 2048, 256  # of the other sweep
HEAD = 64  # d_k and d_v, so that h = d / 64 as in the paper
MOST_SCORES = 4 << 26  # of self-attention, h n^2; more of them would take more than some 10 GiB
SECONDS = 2.0  # of repetitions


def main():
    """Measures all, prints two tables and writes the plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="N")
    parser.add_argument("--widths", nargs="+", type=int, default=WIDTHS, metavar="D")
    parser.add_argument("--output", metavar="FILE.png", help="the plot (default: none)")
    args = parser.parse_args()
    sweeps = {
        "n": [(n, WIDTH) for n in args.lengths],
        "d": [(LENGTH, d) for d in args.widths],
    }
    figures = {}
    for size in dict.fromkeys(size for sizes in sweeps.values() for size in sizes):
        for kind in KINDS:
            if kind != "self_attention" or size[0] ** 2 * (size[1] // HEAD) <= MOST_SCORES:
                figures[kind, size] = measured(kind, *size)
    for name, sizes in sweeps.items():
        print_table(name, sizes, figures)
    if args.output:
        plot(sweeps, figures, args.output)


def measured(kind, n, d):
    """-> (seconds, MiB)."""
    command = [sys.executable, __file__, "--measure", kind, str(n), str(d)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds, mebibytes = json.loads(output)
    print(f"{kind} n={n} d={d}: {seconds:.4f} s, {mebibytes:,.0f} MiB", file=sys.stderr)
    return seconds, mebibytes


def measure(kind, n, d):
    """Prints the seconds and MiB of one pass, in a process of its own."""
    from t2t_lite.runtime import start_tensorflow

    start_tensorflow(threads=1)
    import tensorflow as tf

    from t2t_lite import HParams
    from t2t_lite.layers.encoder import mixing_layer
    from t2t_lite.training.memory import peak_memory, used_memory

    h = HParams(d_model=d, num_heads=d // HEAD, d_k=HEAD, d_v=HEAD, encoder_layer=kind)
    layer = mixing_layer(h, name="layer")
    layer.build((None, None, d))
    variables = [variable.value for variable in layer.trainable_variables]

    @tf.function(autograph=False)
    def update(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, tf.ones([1, 1, 1, tf.shape(x)[1]], tf.bool))[0] ** 2)
        return [tf.reduce_sum(gradient) for gradient in tape.gradient(loss, [x, *variables])]

    update = update.get_concrete_function(tf.TensorSpec([1, None, d]))
    x = tf.random.normal([1, n, d])
    update(x[:, :64])
    ctypes.CDLL(None).malloc_trim(0)  # else what is freed already would be taken again, unseen
    before, times = used_memory(), []
    while len(times) < 2 or sum(times) < SECONDS:
        began = time.process_time()
        [gradient.numpy() for gradient in update(x)]
        times.append(time.process_time() - began)
    print(json.dumps([min(times), max(0, peak_memory() - before) / 2**20]))


def print_table(name, sizes, figures):
    """One of time and memory, a row for each size; last, what the last doubling costs."""
    heads = " | ".join(f"{kind}, {order}" for kind, (order, _) in KINDS.items())
    print(f"\n| {name} | {heads} |\n|---:|" + "---:|" * len(KINDS))
    for size in sizes:
        cells = [cell(figures.get((kind, size))) for kind in KINDS]
        print(f"| {size['nd'.index(name)]:,} | " + " | ".join(cells) + " |")
    cells = [growth([figures[kind, size] for size in sizes if (kind, size) in figures])
             for kind in KINDS]  # fmt: skip
    print("| last step | " + " | ".join(cells) + " |")


def cell(figure):
    """Milliseconds and MiB."""
    return f"{1000 * figure[0]:,.1f} ms, {figure[1]:,.0f} MiB" if figure else "-"


def growth(figures):
    """By what the last figures are larger than those before."""
    if len(figures) < 2:
        return "-"
    before, last = figures[-2:]
    return ", ".join(f"x {y / max(x, 1e-9):.1f}" for x, y in zip(before, last))


def plot(sweeps, figures, output):
    """Time and memory against n and against d, all axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for row, what in zip(rows, ("seconds of a core", "MiB")):
        for axes, (name, sizes) in zip(row, sweeps.items()):
            for colour, kind in enumerate(KINDS):
                draw(axes, kind, sizes, figures, what == "MiB", "nd".index(name), f"C{colour}")
            fixed = f"d = {WIDTH}" if name == "n" else f"n = {LENGTH:,}"
            axes.set(
                xscale="log", yscale="log", ylabel=what, title=f"{what} against {name}, {fixed}"
            )
            axes.set_xticks([size["nd".index(name)] for size in sizes])
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.minorticks_off()
    rows[0][0].legend(fontsize="small")
    figure.suptitle("Layer types of Table 1, forward and backward; dashed: complexity per layer")
    figure.savefig(output, dpi=110)


def draw(axes, kind, sizes, figures, which, axis, colour):
    """One curve, with its order of growth through the last point."""
    order, cost = KINDS[kind]
    sizes = [size for size in sizes if (kind, size) in figures]
    values = [figures[kind, size][which] for size in sizes]
    x = [size[axis] for size in sizes]
    axes.plot(x, values, "o-", color=colour, label=f"{kind}, {order}")
    if not which:
        scale = values[-1] / cost(*sizes[-1])
        axes.plot(x, [scale * cost(*size) for size in sizes], "--", color=colour, alpha=0.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
