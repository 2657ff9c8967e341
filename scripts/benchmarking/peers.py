"""The columns, and the environments of the peers: each has its own, made where it is missing."""

import importlib.util
import subprocess
import sys
from pathlib import Path

COLUMNS = Path(__file__).parent / "columns"
VENV = ".venv-{}"  # ignored by git

TRAINING, DECODING = ("training",), ("decoding",)
BOTH = TRAINING + DECODING

# For each column its script and flags, and the parts of the benchmark that it has.
OURS = {
    "t2t_lite float32": ("t2t_lite", ["--precision=float32"], BOTH),
    "t2t_lite float32 apart": ("t2t_lite", ["--precision=float32", "--apart"], BOTH),
    "t2t_lite bfloat16 apart": ("t2t_lite", ["--precision=bfloat16", "--apart"], BOTH),
    "t2t_lite float32 XLA apart": ("t2t_lite", ["--precision=float32", "--apart", "--xla"], BOTH),
    "t2t_lite float32 packing": ("t2t_lite", ["--precision=float32"], TRAINING),
    "t2t_lite float32 XLA": (
        "t2t_lite",
        ["--precision=float32", "--xla"],
        BOTH,
    ),
    "t2t_lite bfloat16": ("t2t_lite", ["--precision=bfloat16"], BOTH),
    "t2t_lite bfloat16 packing": ("t2t_lite", ["--precision=bfloat16"], TRAINING),
    "t2t_lite bfloat16 XLA": ("t2t_lite", ["--precision=bfloat16", "--xla"], TRAINING),
}
# Of packages that the tests of this project need too.
EXTRAS = {
    "KerasHub float32": ("kerashub", ["--precision=float32"], TRAINING),
    "KerasHub bfloat16": ("kerashub", ["--precision=bfloat16"], TRAINING),
    "CTranslate2 float32": ("ctranslate2", [], DECODING),
    "CTranslate2 int8": ("ctranslate2", ["--int8"], DECODING),
}
PEERS = {
    "PyTorch float32": ("pytorch", ["--precision=float32"], TRAINING),
    "PyTorch bfloat16 autocast": ("pytorch", ["--precision=bfloat16"], TRAINING),
    "OpenNMT-tf float32": ("opennmt", [], BOTH),
    "JoeyNMT float32": ("joeynmt", [], BOTH),
}
NEEDS = {"kerashub": "keras_hub", "ctranslate2": "ctranslate2"}
REQUIREMENTS = {
    # From 2.4 on autocast has bfloat16 on all CPUs.
    "pytorch": ["torch>=2.4,<3", "numpy>=1.26"],
    # The last TensorFlow that it was made for, and the NumPy of its time. Python 3.11 at most.
    "opennmt": ["OpenNMT-tf==2.32.0", "tensorflow==2.13.*"],
    "joeynmt": ["joeynmt==2.3.0"],
}


def commands(part: str, threads: int, peers: bool) -> dict[str, list[str]]:
    """The command of each column that can be measured here, by its name.

    Args:
        part: training or decoding.
        threads: of each.
        peers: whether those are wanted that need environments of their own.
    """
    found = {}
    for name, (script, flags, parts) in (OURS | EXTRAS | (PEERS if peers else {})).items():
        package = NEEDS.get(script)
        if part not in parts or (package and not importlib.util.find_spec(package)):
            continue
        python = environment(script) if script in REQUIREMENTS else sys.executable
        if python:
            file = COLUMNS / f"with_{script}.py"
            found[name] = [python, str(file), f"--part={part}", f"--threads={threads}", *flags]
    return found


def environment(script: str) -> str | None:
    """The interpreter of a peer's environment, installed where it is missing; None: it can't be."""
    folder = Path(VENV.format(script)).absolute()
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        print(f"installing {', '.join(REQUIREMENTS[script])} into {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[script]]
        if subprocess.run(pip).returncode:
            print(
                f"{script}: cannot be installed here, so its columns are left out", file=sys.stderr
            )
            return None
        done.touch()
    return str(python)
