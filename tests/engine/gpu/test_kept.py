"""Kernels that are kept between processes: named by all that goes into them, and built anew where they cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.engine.gpu import build, device
from onebit.engine.gpu.build import CachedKernel
from onebit.engine.gpu.layout import Layout, Shape
from onebit.rules import rule_named

LAYOUT = Layout(2, "registers", 64)


def shape_of(name: str, classes: int, features: int, **form: bool) -> Shape:
    rule = rule_named(name)
    params, memory = rule.settle(classes, {})
    return Shape.of(rule, params, len(memory), features, **form)


def place_of(shape: Shape, layout: Layout = LAYOUT, capability: tuple[int, int] = (9, 0)) -> Path:
    """The file of a kernel for a device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "compute_capability", lambda: capability)
        found = build.find_cached_kernel(shape, layout)
    assert found is not None
    return found._path


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))


def test_a_kernel_is_kept_by_all_that_goes_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shape_of("linucb", 4, 9)
    others = [
        place_of(shape_of("linucb", 5, 9)),
        place_of(shape_of("linucb", 4, 10)),
        place_of(shape_of("linucb", 4, 9, late=True)),
        place_of(shape_of("thompson", 4, 9)),
        place_of(shape, Layout(4, "registers", 64)),
        place_of(shape, capability=(8, 0)),
    ]
    monkeypatch.setattr(build, "compiler_versions", lambda: (("numba-cuda", "99"),))
    others.append(place_of(shape))
    monkeypatch.undo()
    monkeypatch.setenv("ONEBIT_CACHE", str(others[0].parents[2]))
    assert place_of(shape) == place_of(shape_of("linucb", 4, 9))
    assert len({place_of(shape), *others}) == 8


def test_another_process_finds_the_same_place() -> None:
    code = "from tests.engine.gpu.test_kept import place_of, shape_of; print(place_of(shape_of('epabf', 4, 9)))"
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path]), "PYTHONHASHSEED": "7"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout.strip() == str(place_of(shape_of("epabf", 4, 9)))


def test_a_rule_that_was_changed_has_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    before = place_of(shape_of("linucb", 4, 9))
    module = sys.modules[rule_named("linucb").decide.__module__]
    monkeypatch.setattr(module, "greedy_label", lambda scores, count, draws: 0)
    assert place_of(shape_of("linucb", 4, 9)) != before


class Built:
    """A kernel as numba-cuda makes one."""

    def __init__(self, **states: Any) -> None:
        self.states = states

    def _reduce_states(self) -> dict[str, Any]:
        return self.states

    _rebuild = classmethod(lambda cls, **states: cls(**states))


@pytest.fixture
def numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    if not device.is_installed():
        pytest.skip(device.missing_message())
    device.cuda()
    import numba.cuda.dispatcher

    monkeypatch.setattr(numba.cuda.dispatcher, "_Kernel", Built)


@pytest.mark.usefixtures("numba_cuda")
def test_what_was_kept_is_found_and_what_is_damaged_is_not(tmp_path: Path) -> None:
    place = CachedKernel(tmp_path / "kernel.bin")
    assert place.load_overload(None, None) is None, "nothing is there yet"
    place.save_overload(None, Built(cubin=b"machine code"))
    assert [one.name for one in tmp_path.iterdir()] == ["kernel.bin"]
    assert place.load_overload(None, None).states == {"cubin": b"machine code"}
    whole = (tmp_path / "kernel.bin").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"\x00" + whole):
        (tmp_path / "kernel.bin").write_bytes(damaged)
        assert place.load_overload(None, None) is None
    CachedKernel(tmp_path / "no such folder" / "kernel.bin").save_overload(None, Built())


def test_the_build_asks_for_a_kernel_before_it_compiles_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Dispatcher:
        _cache: Any = None

        def compile(self, signature: Any) -> None:
            asked.append(self._cache)

    def jit(*given: Any, **more: Any) -> Any:
        return (lambda function: function) if more else Dispatcher()

    monkeypatch.setattr(build, "cuda", lambda: SimpleNamespace(jit=jit))
    monkeypatch.setattr(build, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(build, "signature", lambda shape: ())
    shape = shape_of("banditron", 3, 5)
    build._build_kernel(shape, LAYOUT)
    (cache,) = asked
    assert cache._path == place_of(shape)
