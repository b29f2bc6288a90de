"""How a kernel is put together: where weights lie, what fits, the record, names bound to constants; and how a GPU is found."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.contract.choices import highest, sort_descending
from onebit.contract.installation import install_command
from onebit.engine import generic
from onebit.engine.gpu import build, device, kernel
from onebit.engine.gpu import layout as layout_module
from onebit.engine.gpu import round as round_module
from onebit.engine.gpu.build import Binding, KernelError, bind_names, layout_for, make_record_builder
from onebit.engine.gpu.layout import Layout, Shape
from onebit.errors import OnebitError
from onebit.experiments.executors import make_executor
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.rules import rule_named
from tests.engine.gpu.lanes import Lanes
from tests.engine.gpu.walks import EXAMPLES
from tests.logged import heard

WHERE = ("registers", "shared", "memory")
MOST_OF_A_BLOCK = 227 * 1024  # bytes of shared memory on a Hopper


def shape_of(name: str, classes: int, features: int, **options: Any) -> Shape:
    rule = rule_named(name)
    params, memory = rule.settle(classes, options)
    return Shape.of(rule, params, len(memory), features)


# --- layouts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "classes", "features", "where"),
    [
        ("banditron", 3, 4, "registers"),
        ("banditron", 10, 100, "registers"),
        ("banditron", 10, 256, "registers"),
        ("banditron", 10, 784, "shared"),
        ("banditron", 10, 5000, "memory"),
        ("banditron", 100, 100, "shared"),
        ("banditron", 100, 2000, "memory"),
        ("banditron", 10, 200_000, None),
        ("banditron", 5000, 10, None),
        ("linucb", 10, 100, "registers"),
        ("linucb", 10, 784, "shared"),
        ("linucb", 10, 5000, "memory"),
    ],
)
def test_weights_lie_where_they_fit(name: str, classes: int, features: int, where: str | None) -> None:
    layout = Layout.of(shape_of(name, classes, features))
    assert (None if layout is None else layout.where) == where


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["banditron", "linucb"]), st.integers(2, 400), st.integers(1, 20_000))
def test_the_layout_chosen_fits_and_has_the_fewest_lanes_in_registers(name: str, classes: int, features: int) -> None:
    shape = shape_of(name, classes, features)

    def held(lanes: int) -> bool:
        layout = Layout(lanes, "registers", layout_module.BLOCK_THREADS)
        fits = layout.scratch_bytes(shape) <= layout_module.SCRATCH_BYTES
        return fits and shape.lines * layout.width(shape) <= layout_module.MOST_REGISTER_WEIGHTS

    chosen = Layout.of(shape)
    fewest = next((lanes for lanes in (1, 2, 4, 8, 16, 32) if held(lanes)), None)
    if fewest is not None:
        assert chosen == Layout(fewest, "registers", layout_module.BLOCK_THREADS)
    elif chosen is not None:
        assert chosen.where in ("shared", "memory")
        assert chosen.threads == layout_module.WARP
        assert chosen.shared_bytes(shape) <= layout_module.SHARED_BYTES
        assert chosen.scratch_bytes(shape) <= layout_module.USUAL_SHARED_BYTES
        assert chosen.shared_bytes(shape) + chosen.scratch_bytes(shape) <= MOST_OF_A_BLOCK
    else:
        least = Layout(layout_module.WARP, "memory", layout_module.WARP)
        row, rest = least.shared_bytes(shape), least.scratch_bytes(shape)
        assert row > layout_module.SHARED_BYTES or rest > layout_module.USUAL_SHARED_BYTES, "else there would be room"


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["banditron", "offset-tree", "linucb", "second-order-perceptron"]),
    st.integers(2, 60),
    st.integers(1, 3000),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.sampled_from(WHERE),
)
def test_sizes_add_up(name: str, classes: int, features: int, lanes: int, where: str) -> None:
    shape = shape_of(name, classes, features)
    layout = Layout(lanes, where, 64 if where == "registers" else 32)
    padded = layout.padded(shape)
    assert features <= padded < features + lanes * (1 if where == "registers" else 8)
    assert padded == layout.width(shape) * lanes
    assert layout.width(shape) % layout.unrolled(shape) == 0
    assert layout.groups * lanes == layout.threads
    names = bind_names(shape, layout, None, lambda function: function).names[kernel.__name__]
    assert names["BLOCKS"] * names["UNROLLED"] == names["WIDTH"] == layout.width(shape)
    assert names["SLOTS"] * lanes >= shape.sums > (names["SLOTS"] - 1) * lanes
    for stride, least in (("SCORE_STRIDE", shape.scores), ("MEMORY_STRIDE", shape.memory), ("WORK_STRIDE", classes)):
        assert names[stride] % 2 == 1, "so that groups read from different banks"
        assert names[stride] - max(least, shape.heads if stride == "WORK_STRIDE" else 0) in (0, 1)
    assert layout.shared_bytes(shape) % (4 * layout.groups) == 0
    assert (layout.shared_bytes(shape) == 0) == (where == "registers")


@pytest.mark.parametrize("where", WHERE)
def test_what_the_kernel_asks_for_is_what_is_counted(where: str) -> None:
    """The shared memory that lanes ask for by themselves is `scratch_bytes`; the room beside it has no size of its own."""
    shape, layout, lanes = shape_of("banditron", 5, 7), Layout(4, where, 8), Lanes()
    written = lanes.wrap(bind_names(shape, layout, lanes, lanes.wrap).plain(kernel.replicate))
    with pytest.raises(TypeError, match="not subscriptable"):  # there are no arrays beside
        lanes.launch(written, 1, 8, 0, [None] * 18)
    asked = [int(np.prod(of)) * np.dtype(kind).itemsize for of, kind, _ in lanes.arrays]
    assert sum(asked) == layout.scratch_bytes(shape)
    assert asked.count(0) == 1


@pytest.mark.parametrize(("room", "where"), [(227, "shared"), (50, "memory"), (42, None)])
def test_the_device_says_how_much_there_is_room_for(
    room: int, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "shared_memory", lambda: room * 1024)
    layout = layout_for(shape_of("banditron", 10, 784))
    assert (None if layout is None else layout.where) == where


# --- shapes and records ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_a_record_is_made_from_its_numbers(place: int) -> None:
    """Codes and counts are in the function, numbers come from the replicate; the record is that of the CPU."""
    rule, options = EXAMPLES[place]
    params, memory = rule.settle(7, options)
    shape = Shape.of(rule, params, len(memory), 12)
    numbers = np.array(shape.numbers(params))
    made = make_record_builder(shape)(numbers)
    assert type(made) is rule.record
    np.testing.assert_array_equal(np.array(made, dtype=float), np.array(params, dtype=float))
    assert [type(one) for one in made] == [int if kind is int else np.float64 for kind in rule.kinds.values()]
    assert (shape.classes, shape.heads, shape.full_information) == (
        7,
        rule.heads(params),
        rule.has_full_information(params),
    )
    others = make_record_builder(shape)(numbers + 1.0)
    assert [one == other for one, other in zip(made, others, strict=True)] == [
        kind is int for kind in rule.kinds.values()
    ]


def test_shapes_differ_where_kernels_do() -> None:
    one = shape_of("bpa", 5, 10)
    assert one == shape_of("bpa", 5, 10, aggressiveness=0.3, exploration=0.2)
    assert hash(one) == hash(shape_of("bpa", 5, 10, aggressiveness=0.3))
    assert one not in (shape_of("bpa", 5, 10, variant="PA"), shape_of("bpa", 6, 10), shape_of("bpa", 5, 11))


# --- binding -----------------------------------------------------------------------------------------------------------

FACTOR = 2
helper: Any = None


def doubled(value: int) -> int:
    return FACTOR * value


def twice(value: int) -> int:
    return doubled(doubled(value)) + int(helper(value))


def tripled(value: int) -> int:
    return 3 * value


def nothing(value: int) -> int:
    return 0


def test_names_are_bound_in_all_that_a_function_calls() -> None:
    bound_ones = Binding({__name__: {"FACTOR": 10, "helper": nothing}}, {}, lambda function: function)
    assert bound_ones.plain(twice)(1) == 100
    assert FACTOR == 2, "what was bound is a copy"
    with pytest.raises(TypeError):
        twice(1)


def test_functions_take_the_place_of_others() -> None:
    bound_ones = Binding({__name__: {"helper": nothing}}, {doubled: tripled}, lambda function: function)
    assert bound_ones.plain(twice)(1) == 9
    assert bound_ones.called(doubled) is bound_ones.called(tripled)


def test_a_function_is_wrapped_once() -> None:
    wrapped: list[str] = []

    def wrap(function: Any) -> Any:
        wrapped.append(function.__name__)
        return function

    bound_ones = Binding({__name__: {"helper": doubled}}, {}, wrap)
    bound_ones.plain(twice)
    bound_ones.plain(twice)
    assert wrapped == ["doubled"]


def test_what_a_function_closes_over_is_bound_too() -> None:
    def made(step: int, other: Any) -> Any:
        def stepped(value: int, *, more: int = 5) -> int:
            return step * value + int(other(value)) + more

        return stepped

    bound_ones = Binding({__name__: {"FACTOR": 10}}, {}, lambda function: function)
    assert made(100, doubled)(1) == 107
    assert bound_ones.plain(made(100, doubled))(1) == 115
    assert bound_ones.called(made(200, tripled))(2) == 411
    assert bound_ones.called(made(7, made(100, doubled)))(1) == 7 + 115 + 5


def test_a_rule_takes_the_place_of_the_generic_names() -> None:
    shape = shape_of("epabf", 4, 6)
    binding = bind_names(shape, Layout(2, "registers", 4), SimpleNamespace(), lambda function: function)
    assert binding.instead[generic.decide] is shape.rule.decide
    assert binding.instead[generic.learn] is shape.rule.learn
    written = binding.plain(kernel.replicate)
    assert written.__globals__["play_round"].__globals__["decide"].__code__ is shape.rule.decide.__code__
    assert written.__globals__["HEADS"] == 4
    assert kernel.HEADS == 0


# --- building ----------------------------------------------------------------------------------------------------------


def test_what_does_not_compile_is_tried_once_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    class Dispatcher:
        def compile(self, signature: Any) -> None:
            tried.append(self)
            raise ValueError("Failed in cuda mode pipeline (step: nopython frontend)\nNo implementation of dot:\nMore.")

    def jit(*given: Any, **more: Any) -> Any:
        return (lambda function: function) if more else Dispatcher()

    monkeypatch.setattr(build, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(build, "cuda", lambda: SimpleNamespace(jit=jit))
    monkeypatch.setattr(build, "_kernels", {})
    monkeypatch.setattr(build, "signature", lambda shape: ())
    shape, layout = shape_of("banditron", 3, 4), Layout(1, "registers", 64)
    with heard("onebit.engine") as messages:
        for ask in (build.kernel_for, build.kernel_for, build.count_resident):
            with pytest.raises(KernelError, match=r"^Banditron does not compile for a GPU: No implementation of dot$"):
                ask(shape, layout)
    assert len(tried) == 1
    assert messages[1:] == ["Banditron does not compile for a GPU: No implementation of dot"]
    with pytest.raises(KernelError):
        build.kernel_for(shape_of("banditron", 4, 4), layout)
    assert len(tried) == 2, "another kernel is another question"


# --- sorting -----------------------------------------------------------------------------------------------------------


def sorted_by_rank(keys: list[float], classes: int, count: int) -> tuple[list[float], list[float]]:
    module = Lanes()
    shape = shape_of("exact-pa", classes, 5)
    sort = bind_names(shape, Layout(1, "registers", 1), module, module.wrap).called(sort_descending)
    found, labels = np.array(keys), np.arange(len(keys), dtype=float)
    sort(found, labels, count)
    return found.tolist(), labels.tolist()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-5, 5) | st.sampled_from([0.0, 1.0]), min_size=2, max_size=16), st.booleans())
def test_few_classes_are_sorted_by_rank(keys: list[float], one_less: bool) -> None:
    count = len(keys) - one_less
    found, labels = sorted_by_rank(keys, len(keys), count)
    right, right_labels = np.array(keys), np.arange(len(keys), dtype=float)
    sort_descending(right, right_labels, count)
    assert found == right.tolist()
    assert [keys[int(label)] for label in labels] == found, "labels went along"
    assert sorted(labels) == sorted(right_labels.tolist())
    for first, second in zip(range(count - 1), range(1, count), strict=True):
        assert found[first] > found[second] or labels[first] < labels[second], "equal keys stay in order"


@pytest.mark.parametrize(("classes", "by_rank"), [(2, True), (16, True), (17, False), (100, False)])
def test_many_classes_are_sorted_as_on_the_cpu(classes: int, by_rank: bool) -> None:
    shape = shape_of("exact-pa", classes, 5)
    found = bind_names(shape, Layout(1, "registers", 1), Lanes(), lambda function: function).called(sort_descending)
    assert (found.__code__ is round_module.sort_by_rank.__code__) == by_rank
    keys, labels = np.random.default_rng(0).normal(size=classes), np.arange(float(classes))
    if not by_rank:
        expected = np.sort(keys)[::-1]
        found(keys, labels, classes)
        assert keys.tolist() == expected.tolist()


@pytest.mark.parametrize("classes", [1, 2, 3, 7, 10, 16])
def test_the_largest_of_few_is_the_one_that_a_cpu_finds(classes: int) -> None:
    """The first of those that are equal, of which there are many here."""
    shape = shape_of("banditron", max(2, classes), 5)
    found = bind_names(shape, Layout(1, "registers", 1), Lanes(), lambda function: function).called(highest)
    assert found.__code__ is round_module.highest_of_few.__code__
    generator = np.random.default_rng(classes)
    for scores in (*generator.integers(-2, 2, size=(200, classes)) * 1.5, np.full(classes, -np.inf)):
        assert found(scores, classes) == highest(scores, classes)


# --- finding a GPU -----------------------------------------------------------------------------------------------------


def test_without_numba_cuda_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "is_installed", lambda: False)
    assert device.find_problem.__wrapped__() == f"the GPU engine needs numba-cuda: {install_command('gpu')}"
    with pytest.raises(OnebitError, match="needs numba-cuda"):
        device.cuda.__wrapped__()


def imported(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let `numba.cuda` be this."""
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(device, "is_installed", lambda: True)
    monkeypatch.setattr(numba, "cuda", module, raising=False)
    monkeypatch.setitem(sys.modules, "numba.cuda", module)
    device.cuda.cache_clear()


@pytest.fixture(autouse=True)
def forgetful() -> Any:
    """What is found out once is found out anew in these tests, and after them."""
    yield
    device.cuda.cache_clear()
    device.find_problem.cache_clear()
    device.device_name.cache_clear()


def test_a_name_that_numpy_no_longer_has_is_there_for_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which NumPy 2.5 has no `row_stack`, and numba-cuda 0.30.4 asks for it when it is imported."""
    imported(monkeypatch, ModuleType("numba.cuda"))
    if hasattr(np, "row_stack"):
        monkeypatch.delattr(np, "row_stack")
    else:
        monkeypatch.setattr(np, "row_stack", None, raising=False)
        monkeypatch.delattr(np, "row_stack")
    device.cuda()
    assert np.row_stack is np.vstack  # type: ignore[attr-defined, unused-ignore] # noqa: NPY201


def broken() -> bool:
    raise RuntimeError("the driver is younger than the card\nand much more")


@pytest.mark.parametrize(
    ("is_available", "error", "said"),
    [
        (lambda: True, None, None),
        (lambda: False, None, "there is no usable GPU"),
        (lambda: False, "Error at driver init: \nCUDA driver library cannot be found.\nMore.", ": CUDA driver library"),
        (broken, None, ": the driver is younger than the card"),
    ],
)
def test_trouble_is_said_in_one_line(
    is_available: Any, error: str | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("numba.cuda")
    module.is_available, module.cuda_error = is_available, lambda: error
    module.get_current_device = lambda: SimpleNamespace(name=b"Imagined 9000")
    module.current_context = lambda: SimpleNamespace(get_memory_info=lambda: (12, 34))
    imported(monkeypatch, module)
    found = device.find_problem.__wrapped__()
    if said is None:
        assert found is None
        assert (device.device_name.__wrapped__(), device.free_memory()) == ("Imagined 9000", 12)
    else:
        assert found is not None
        assert said in found
        assert "\n" not in found
        assert not found.endswith(".")


def test_a_numba_cuda_that_cannot_be_imported_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved() -> Any:
        raise AttributeError("module 'numpy' has no attribute 'in1d'")

    monkeypatch.setattr(device, "is_installed", lambda: True)
    monkeypatch.setattr(device, "cuda", halved)
    sentence = "there is no usable GPU: module 'numpy' has no attribute 'in1d'"
    assert device.find_problem.__wrapped__() == sentence
    device.find_problem.cache_clear()
    assert isinstance(make_executor("auto"), ThreadsExecutor)
    with pytest.raises(OnebitError, match="has no attribute 'in1d'"):
        make_executor("gpu")


def test_names_of_a_kernel_are_not_those_of_a_rule() -> None:
    """A rule's own FACTOR stays, whatever is bound in the kernel."""
    binding = Binding({"elsewhere": {"FACTOR": 10}}, {}, lambda function: function)
    assert binding.called(doubled)(1) == 2
    assert binding.called(doubled) is binding.called(doubled), "it is wrapped once"
