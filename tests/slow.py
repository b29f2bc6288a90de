"""What takes long and is run on demand; every such test has a shorter one beside it that always runs."""

from __future__ import annotations

import os

import pytest

SLOW = bool(os.environ.get("ONEBIT_SLOW"))

slow = pytest.mark.skipif(not SLOW, reason="takes long; ONEBIT_SLOW=1 runs it")
