"""The inside of a worker process: load once, then measure batch after batch."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from attribound.auditing.at_work import heard_by


def serve(link: Connection[Any, Any], recipe: bytes, threads: int) -> None:
    """Answer every ``(number, batch)`` with ``(number, tables)`` until the link closes.

    Before the tables come the steps of the batch as they begin. The first answer is ``None``:
    ready. An exception is sent instead of an answer, and ends the worker; Ctrl-C is the parent's
    business, and so is the end of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        measure = pickle.loads(recipe)()  # noqa: S301 - written by our own parent
        link.send(None)
        while True:
            number, batch = pickle.loads(link.recv_bytes())  # noqa: S301 - of our own parent
            # Steps go the way of the answer: they wait for the parent as that one does.
            with heard_by(link.send):
                measured = measure(batch)
            link.send((number, measured))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        link.send(portable(error))


def portable(error: Exception) -> Exception:
    """``error`` if it survives pickling, else its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _follow_parent() -> None:
    """End with the parent, also in the middle of a batch: nobody waits for it any more."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
