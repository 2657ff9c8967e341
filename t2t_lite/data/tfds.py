"""TensorFlow Datasets as a source."""

import multiprocessing
import sys

from t2t_lite.data.sources import PART, Source, digest
from t2t_lite.errors import UserError


class TfdsTranslation(Source):
    """One split of a translation set of TensorFlow Datasets, such as `wmt14_translate/de-en`."""

    def __init__(
        self, name: str, split: str, input_language: str, target_language: str, data_dir=None
    ):
        self.name = name
        self.split = split
        self.languages = input_language, target_language
        self.data_dir = data_dir

    def __str__(self):
        return f"TFDS {self.name}, split {self.split}"

    def parts(self):
        """Lists of pairs of bytes. Downloads and prepares the set where that has not been done.

        Where TensorFlow does not run yet, it does not afterwards either: once it runs, its threads
        and devices are settled, and this process can no longer be forked.
        """
        if "tensorflow" in sys.modules:
            yield from self._parts()
            return
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=self._send, args=[sender], daemon=True)
        child.start()
        sender.close()
        try:
            while part := receiver.recv():
                if isinstance(part, Exception):
                    raise part
                yield part
        except EOFError:
            raise UserError(f"{self}: its reader ended ({child.exitcode}); try again") from None
        finally:
            child.kill()

    def _send(self, sender) -> None:
        try:
            for part in self._parts():
                sender.send(part)
            sender.send(None)
        except UserError as error:
            sender.send(error)

    def _parts(self):
        import tensorflow_datasets as tfds

        try:
            examples = tfds.load(
                self.name, split=self.split, data_dir=self.data_dir, shuffle_files=False
            )
        except Exception as error:  # whatever the network, the disk or TFDS may raise
            reason = next(iter(str(error).strip().splitlines()), "")
            raise UserError(
                f"{self}: cannot be downloaded or prepared ({type(error).__name__}: {reason}); "
                "give --raw_dir with local files instead"
            ) from error
        for batch in examples.batch(PART).as_numpy_iterator():
            yield list(zip(*(batch[language].tolist() for language in self.languages)))

    def read(self, part, left_out):
        """The pairs, decoded."""
        return ((source.decode(), target.decode()) for source, target in part)

    def fingerprint(self):
        """Of the data set's name, the split and the languages."""
        return digest(self.name, self.split, *self.languages)
