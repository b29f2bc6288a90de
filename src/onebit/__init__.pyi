# Written by tools/stubs.py from the registry of rules. Do not edit: change the rule, and run it again.
from collections.abc import Iterable
from typing import Any, Literal

from . import checks as checks
from . import client as client
from . import coba as coba
from . import data as data
from . import offpolicy as offpolicy
from . import river as river
from . import rules as rules
from . import sklearn as sklearn
from . import theory as theory
from onebit.contract.rule import Rule as Rule
from onebit.data.streams import Stream as Stream
from onebit.data.streams import stream as stream
from onebit.errors import InputError as InputError
from onebit.errors import MissingExtraError as MissingExtraError
from onebit.errors import NetworkError as NetworkError
from onebit.errors import OnebitError as OnebitError
from onebit.errors import OnebitWarning as OnebitWarning
from onebit.errors import OutOfMemoryError as OutOfMemoryError
from onebit.experiments.compare import Comparison as Comparison
from onebit.experiments.compare import compare as compare
from onebit.experiments.run import Result as Result
from onebit.experiments.run import Stopped as Stopped
from onebit.experiments.run import run as run
from onebit.experiments.sweep import Sweep as Sweep
from onebit.experiments.sweep import sweep as sweep
from onebit.learner.decision import Decision as Decision
from onebit.learner.learner import Learner as Learner
from onebit.learner.learner import load as load
from onebit.papers.reproduce import reproduce as reproduce
from onebit.papers.verdicts import Reproduction as Reproduction
from onebit.service.open.opening import open as open
from onebit.service.open.task import OpenTask as OpenTask

__version__: str
HOMES: dict[str, str]

class AROW(Learner):
    """Every weight has a confidence (full information)"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class Auto(Learner):
    """The default, which needs no tuning: several weighted members, and restarts"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
    ) -> None: ...

class BanditPerceptron(Learner):
    """Guesses when no class says yes; for strongly separable classes"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        choose: Literal["argmax", "random", "first"] = ...,
    ) -> None: ...

class Banditron(Learner):
    """The perceptron through importance weighting"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        exploration: float = ...,
    ) -> None: ...

class BPA(Learner):
    """A passive-aggressive step on the played class"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        exploration: float = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
    ) -> None: ...

class Confidit(Learner):
    """Regression of plus and minus one, and upper confidence bounds"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        alpha: float = ...,
        eta: float = ...,
        project: bool = ...,
        projection: Literal["all", "played"] = ...,
        form: Literal["residual", "published"] = ...,
        coin: bool = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class ConservativeOVA(Learner):
    """No exploration; every binary learner that the bit determines takes a passive-aggressive step"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
        coding: Any = ...,
        decoding: Literal["loss", "hamming"] = ...,
        wrong: Literal["strict", "lenient", "played"] = ...,
        guess_if_all_negative: bool = ...,
    ) -> None: ...

class EPABF(Learner):
    """Exact passive-aggressive steps on all classes at once"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        exploration: float = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
        update: Literal["printed", "stated", "others"] = ...,
        wrong: Literal["all", "played"] = ...,
    ) -> None: ...

class EpsilonGreedy(Learner):
    """The best label of a regression, or any label"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        exploration: float = ...,
        model: Literal["ridge", "logistic"] = ...,
        ridge: float = ...,
        rate: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class ExactPA(Learner):
    """Separates the label from all rivals at once; full information"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
    ) -> None: ...

class Gaptron(Learner):
    """Explores as much as the surrogate gap pays for"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        setting: Literal["bandit", "full"] = ...,
        loss: Literal["logistic", "hinge", "smooth"] = ...,
        rate: float | None = ...,
        exploration: float | None = ...,
        radius: float | None = ...,
        max_norm: float | None = ...,
        horizon: float | None = ...,
    ) -> None: ...

class LinUCB(Learner):
    """Ridge regression and the benefit of the doubt"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        width: float = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class Newtron(Learner):
    """Online Newton steps for the logistic loss"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        alpha: float = ...,
        beta: float = ...,
        radius: float = ...,
        exploration: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class OffsetTree(Learner):
    """A tournament of binary learners, trained along the played path"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        kind: Literal["realizable", "general"] = ...,
        stop: Literal["none", "after", "before", "path"] | None = ...,
        weighting: Literal["weighted", "costing"] = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
        exploration: float | None = ...,
    ) -> None: ...

class PAB(Learner):
    """The passive-aggressive step through importance weighting"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        exploration: float = ...,
        aggressiveness: float = ...,
        rho: float = ...,
    ) -> None: ...

class PassiveAggressive(Learner):
    """Separates the label from its best rival; full information"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        variant: Literal["PA", "PA-I", "PA-II"] = ...,
        aggressiveness: float = ...,
    ) -> None: ...

class Perceptron(Learner):
    """Moves two classes on each mistake; full information"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
    ) -> None: ...

class PolicyGradient(Learner):
    """A softmax moved along the gradient of being right"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        rewards: Literal["centred", "plain"] = ...,
        rate: float | None = ...,
        decay: float = ...,
        baseline: bool = ...,
    ) -> None: ...

class SecondOrderPerceptron(Learner):
    """The perceptron in whitened coordinates (full information)"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class SOBA(Learner):
    """A second-order perceptron that learns from right answers"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        ridge: float = ...,
        exploration: float = ...,
        form: Literal["residual", "published"] = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class Softmax(Learner):
    """Ridge regression, and labels drawn by their scores"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        sharpness: float = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class SquareCB(Learner):
    """Ridge regression, exploring in inverse proportion to the gap"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        gamma_scale: float = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...

class Thompson(Learner):
    """Ridge regression, and the best of a random draw"""

    def __init__(
        self,
        classes: int | Iterable[str | int],
        *,
        features: int | None = ...,
        space: str | None = ...,
        bias: bool = ...,
        dtype: str = ...,
        text: bool = ...,
        hash_bits: int | None = ...,
        kernel: str | None = ...,
        max_support: int | str | None = ...,
        exploration_floor: float = ...,
        seed: int = ...,
        width: float = ...,
        ridge: float = ...,
        matrix: Literal["diagonal", "full", "fit"] = ...,
    ) -> None: ...
