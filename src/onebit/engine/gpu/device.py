"""The GPU: whether one is usable, and how to access it."""

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

INIT_PREFIX = "Error at driver init"


def missing_message() -> str:
    """Return the message for when no package that drives a GPU is installed."""
    return f"the GPU engine needs numba-cuda: {install_command('gpu')}"


def is_installed() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None


@cache
def cuda() -> Any:
    """Return the module `numba.cuda` of the package numba-cuda; raise InputError if it is not installed."""
    if not is_installed():
        raise InputError(missing_message())
    if not hasattr(np, "row_stack"):  # numba-cuda 0.30 needs it on import; NumPy 2.5 has removed it
        setattr(np, "row_stack", np.vstack)  # noqa: B010 - a plain assignment is "modernised" away
    from numba.core import config

    with suppress_warnings():
        from numba import cuda as module
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # small sweeps are intended
    return module


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress the deprecation warnings of NumPy 2.5 about numba-cuda 0.30, which users cannot act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@cache
def find_problem() -> str | None:
    """Return why no GPU can be used, in one sentence; None if one can."""
    if not is_installed():
        return missing_message()
    try:
        module = cuda()
        if module.is_available():
            return None
        cause = first_cause(module.cuda_error() or "", INIT_PREFIX)
    except Exception as error:  # a broken driver or package may raise anything
        cause = first_cause(error, INIT_PREFIX)
    return "there is no usable GPU" + (f": {cause}" if cause else "")


@contextmanager
def explain_errors() -> Iterator[None]:
    """Turn errors of the GPU driver into an InputError with one sentence."""
    try:
        yield
    except OnebitError:
        raise
    except Exception as error:  # it may raise anything: out of memory, a failed launch, a lost device
        why = first_cause(error, INIT_PREFIX) or type(error).__name__
        raise InputError(f"the GPU failed ({why}); finished runs are kept, and threads can do the others") from error


def first_cause(error: object, *skipped: str) -> str:
    """Return the first informative line of an error, skipping lines that contain a word in `skipped`."""
    lines = (line.strip(" -") for line in clean_lines(error))
    causes = (line for line in lines if line and not any(words in line for words in skipped))
    return next(causes, "").rstrip(".: ")


@cache
def device_name() -> str:
    value = cuda().get_current_device().name
    return value.decode() if isinstance(value, bytes) else str(value)


def free_memory() -> int:
    """Return the free memory of the device in bytes."""
    with explain_errors():
        return int(cuda().current_context().get_memory_info()[0])


@cache
def shared_memory() -> int:
    """Return the most shared memory that a block may have, in bytes."""
    return int(cuda().get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)


@cache
def compute_capability() -> tuple[int, int]:
    major, minor = cuda().get_current_device().compute_capability
    return int(major), int(minor)
