# Sourced by the other scripts: makes a virtual environment in the checkout, with the project installed in it.
#   use_venv [EXTRA]    e.g. use_venv test
# PYTHON chooses the interpreter, VENV the folder (default: .venv).

use_venv() {
    local extra=${1:-} candidate
    if [ -z "${PYTHON:-}" ]; then
        for candidate in python3 python3.13 python3.12 python3.11; do
            if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
                PYTHON=$candidate
                break
            fi
        done
    fi
    if [ -z "${PYTHON:-}" ]; then
        echo "no Python 3.11, 3.12 or 3.13 found; name one: PYTHON=/path/to/python $0" >&2
        exit 2
    fi
    VENV=${VENV:-.venv}
    [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
    # Installed again only when what it depends on has changed.
    local stamp="$VENV/installed-${extra:-plain}"
    if [ ! "$stamp" -nt pyproject.toml ]; then
        echo "installing t2t_lite into $VENV with $("$VENV/bin/python" --version) ..." >&2
        "$VENV/bin/pip" install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
        touch "$stamp"
    fi
    PATH="$PWD/$VENV/bin:$PATH"
}
