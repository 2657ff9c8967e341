"""The benchmark's figures as tables and as a plot."""

from pathlib import Path

INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def machine(threads: int) -> dict:
    """What the figures depend on."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line for line in text.splitlines() if line.startswith("model name")), "unknown")
    return {
        "cpu": model.partition(":")[2].strip() or model,
        "instructions": [name for name in INSTRUCTIONS if f" {name}" in text],
        "threads": threads,
    }


def table(figures: list[dict]) -> str:
    """The figures of columns, case by case; ratios are to the first column."""
    blocks = []
    for case in dict.fromkeys(each["case"] for each in figures):
        rows = [each for each in figures if each["case"] == case]
        first = rows[0]["speed"]["median"]
        lines = [
            f"{rows[0]['part']}, {rows[0]['size']}, {case}".ljust(34)
            + f"{rows[0]['unit'] + ' (min - max)':>28} {'ratio':>6} {'GFLOP/s':>8} {'share':>6} "
            + f"{'first':>8} {'peak':>10}"
        ]
        for each in rows:
            speed, rate = each["speed"], each["gflops_of_matrix_products"]["median"]
            digits = ",.0f" if first >= 100 else ",.1f"
            low, middle, high = (format(speed[key], digits) for key in ("min", "median", "max"))
            lines.append(
                f"{each['column']:34} {f'{middle} ({low} - {high})':>27} "
                f"{speed['median'] / first:6.2f} {rate:8,.0f} "
                f"{each['share_of_matrix_rate']['median']:6.0%} {each['first_seconds']:6.1f} s "
                f"{each['peak_mib']:6,.0f} MiB"
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def plain_table(figures: list[dict]) -> str:
    """The figures of commands."""
    lines = [f"{figures[0]['part']:54} {'seconds (min - max)':>24} {'ratio':>6}"]
    for each in figures:
        seconds = each["seconds"]
        values = f"{seconds['median']:.1f} ({seconds['min']:.1f} - {seconds['max']:.1f})"
        rate = f"  {each['pairs_per_second']:,.0f} pairs/s" if "pairs_per_second" in each else ""
        lines.append(f"{each['case']:54} {values:>24} {each['ratio']:6.2f}{rate}")
    return "\n".join(lines)


def plot(figures: list[dict], file: str) -> None:
    """Bars of each part, size and case, relative to the first column."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = ("part", "size", "case")
    with_speed = [each for each in figures if "speed" in each]
    keys = list(dict.fromkeys(tuple(each[name] for name in names) for each in with_speed))
    columns = list(dict.fromkeys(each["column"] for each in with_speed))
    colours = dict(zip(columns, pyplot.get_cmap("tab20").colors))
    figure, axes = pyplot.subplots(len(keys), squeeze=False, figsize=(8, 2.6 * len(keys)))
    for axis, key in zip(axes[:, 0], keys):
        rows = [each for each in with_speed if tuple(each[name] for name in names) == key]
        for place, each in enumerate(rows):
            speed = each["speed"]
            error = [[speed["median"] - speed["min"]], [speed["max"] - speed["median"]]]
            colour = colours[each["column"]]
            axis.barh(place, speed["median"], xerr=error, color=colour, ecolor="0.3")
        axis.set_yticks(range(len(rows)), [each["column"] for each in rows], fontsize=8)
        axis.invert_yaxis()
        axis.set_title(", ".join(key), fontsize=9)
        axis.set_xlabel(rows[0]["unit"], fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
