"""What clients may ask of the server, so that none takes its memory or time from the others."""

import dataclasses

from t2t_lite.errors import UserError

MAX_SUBWORDS = 6_000  # of a text: the model's memory and time grow with their square
MAX_ATTENTION = 250_000  # weights of a request in each layer: some 15 MB of JSON


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits that t2t-server has flags for."""

    max_body_bytes: int = 4 << 20  # of a request
    max_lines: int = 10_000  # of a request
    max_line_length: int = 20_000  # characters of a text, numbers of a row of ids
    max_waiting_lines: int = 20_000  # of all requests together, that no call of the model has begun
    max_batch_lines: int = 64  # in a call of the model
    # Seconds that a client may take to send a request, wait before the next, or read nothing.
    timeout: float = 30.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise UserError(f"--{field.name}={getattr(self, field.name)}: expected more than 0")
        if self.max_waiting_lines < self.max_lines:
            raise UserError(
                f"--max_waiting_lines={self.max_waiting_lines}: expected at least "
                f"--max_lines={self.max_lines}, or requests of as many lines could never be "
                "answered"
            )
