"""The GPU: whether there is one, and how to reach it."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from onebit.contract.installation import install_command
from onebit.errors import InputError, OnebitError, clean_lines

INITIAL = "Error at driver init"


def missing() -> str:
    """What is said where nothing that drives a GPU is installed."""
    return f"the GPU engine needs numba-cuda: {install_command('gpu')}"


def is_installed() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None


@cache
def cuda() -> Any:
    """The module `numba.cuda`, as the package numba-cuda has it."""
    if not is_installed():
        raise InputError(missing())
    if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it when it is imported; NumPy 2.5 no longer has it
        setattr(np, "row_stack", np.vstack)  # noqa: B010 - a plain assignment is "modernised" away
    from numba.core import config

    with quiet():
        from numba import cuda as found
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # small sweeps are no mistake
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """What NumPy 2.5 thinks of numba-cuda 0.30, which imports parts of itself late, is not for our users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@cache
def trouble() -> str | None:
    """Why there is no GPU to be used, in a sentence; None where there is one."""
    if not is_installed():
        return missing()
    try:
        found = cuda()
        if found.is_available():
            return None
        why = gist(found.cuda_error() or "", INITIAL)
    except Exception as error:  # what is there and broken, a driver or a package, says so in many ways
        why = gist(error, INITIAL)
    return "there is no GPU that can be used here" + (f": {why}" if why else "")


@contextmanager
def spoken() -> Iterator[None]:
    """What the driver raises becomes a sentence."""
    try:
        yield
    except OnebitError:
        raise
    except Exception as error:  # which it does in many ways: out of memory, a launch that failed, a device that is gone
        why = gist(error, INITIAL) or type(error).__name__
        raise InputError(
            f"the GPU failed ({why}); runs that are done are kept, and threads can run the others"
        ) from error


def gist(said: object, *beside: str) -> str:
    """The first line that says something, and has none of these words, which stand beside the cause."""
    lines = (line.strip(" -") for line in clean_lines(said))
    told = (line for line in lines if line and not any(words in line for words in beside))
    return next(told, "").rstrip(".: ")


@cache
def name() -> str:
    found = cuda().get_current_device().name
    return found.decode() if isinstance(found, bytes) else str(found)


def free_memory() -> int:
    """Bytes of the device's memory that nobody uses."""
    with spoken():
        return int(cuda().current_context().get_memory_info()[0])


@cache
def shared_memory() -> int:
    """Bytes of shared memory that a block may have."""
    return int(cuda().get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)


@cache
def compute_capability() -> tuple[int, int]:
    major, minor = cuda().get_current_device().compute_capability
    return int(major), int(minor)
