"""Settings that determine decisions: one immutable value, serialisable to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

from bot_orch.checks import check_count, check_number, check_seconds
from bot_orch.core.alignment import Alignment, GivenDistances, Units, Watch
from bot_orch.core.constraints.limits import Constraint, Objective, Quota, constraint_from_spec, constraint_to_spec
from bot_orch.core.guarantee import Guarantee
from bot_orch.core.restarts import OnAlarm
from bot_orch.core.reward import BoundedReward, RewardModel, reward_from_spec
from bot_orch.core.text import TextFeatures, features_of
from bot_orch.encoders import (
    Encoder,
    check_name,
    encoder_from_spec,
    encoder_spec,
    encoder_version,
    find_encoder,
)
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import from_spec, to_spec
from bot_orch.types import Task

Lambda = float | Literal["auto"]
_UNITS = ("reference", "native")
#: Settings that are JSON values as they are.
_PLAIN = (
    "seed",
    "n_features",
    "floor",
    "units",
    "cost_weight",
    "patience_s",
    "horizon",
    "audit_rate",
    "on_alarm",
)


@dataclass(frozen=True)
class Settings:
    """Settings of an orchestrator; :class:`bot_orch.Orchestrator` documents each field.

    For a policy without alignment lambda is 0. With lambda ``auto``, distances are always in reference units.

    Examples
    --------
    >>> from bot_orch import make_policy
    >>> settings = Settings(make_policy("ucb1"), lambda_=0.5)
    >>> Settings.from_spec(settings.spec()) == settings
    True
    """

    policy: Policy
    lambda_: Lambda = "auto"
    _: KW_ONLY
    seed: int = 0
    n_features: int | None = 0
    floor: float = 0.02
    alignment: Alignment | GivenDistances | None = None
    units: Units | None = None
    reward: RewardModel = field(default_factory=BoundedReward)
    cost_weight: float = 0.0
    encoder: Encoder | str | None = None
    text: TextFeatures | None = None  # the encoder in use; None until the first task brings a text
    patience_s: float | None = None
    horizon: int | None = None
    audit_rate: float = 0.0
    on_alarm: OnAlarm = "count"
    objective: Objective = field(default_factory=Objective)
    constraints: tuple[Constraint, ...] = ()
    guarantee: Guarantee | None = None
    names: tuple[str, ...] = field(default=(), compare=False)  # of features by name, from the first task on
    team: bool = False  # whether rounds of several steps are learned; from the first one on

    def __post_init__(self) -> None:
        require_type("policy", self.policy, Policy, "pass a policy, or its name to Orchestrator or make_policy")
        require_type(
            "reward", self.reward, RewardModel, "pass BoundedReward(), SurvivalReward() or a model of your own"
        )
        if self.encoder is not None and not callable(self.encoder):
            check_name(self.encoder)
        check_count("seed", self.seed, "pass an integer, 0 or more")
        if self.n_features is not None:
            check_count("n_features", self.n_features, "pass how many features a task has")
        check_seconds("patience_s", self.patience_s)
        if self.horizon is not None:
            check_count("horizon", self.horizon, "pass a number of rounds, 1 or more, or None", low=1)
        if self.alignment is not None and not isinstance(self.alignment, Alignment | GivenDistances):
            raise InvalidInputError("alignment", f"is {self.alignment!r}", "pass an Alignment, or None for the default")
        if not self.policy.uses_alignment:
            object.__setattr__(self, "lambda_", 0.0)
        if not (isinstance(self.lambda_, str) and self.lambda_ == "auto"):
            lambda_ = check_number("lambda_", self.lambda_, "pass 'auto' or a number, 0 or more")
            object.__setattr__(self, "lambda_", lambda_)
        floor = check_number("floor", self.floor, "pass the share spread over all agents, in [0, 1]", high=1.0)
        weight = check_number("cost_weight", self.cost_weight, "pass units of reward per dollar, 0 or more")
        object.__setattr__(self, "floor", floor)
        object.__setattr__(self, "cost_weight", weight)
        require_type("objective", self.objective, Objective, "pass Objective(usd=..., seconds=...)")
        object.__setattr__(self, "constraints", tuple(self.constraints))
        for each in self.constraints:
            if not isinstance(each, Constraint):
                raise InvalidInputError("constraints", f"holds {each!r}", "pass Budget, Capacity, Deadline or Quality")
        if self.guarantee is not None:
            require_type("guarantee", self.guarantee, Guarantee, "pass Guarantee(baseline=..., loss_at_most=...)")
        if self.cost_weight and self.objective.usd:
            raise InvalidInputError("cost_weight", "is given together with objective.usd", "pass one of them")
        if len({(each.kind, getattr(each, "agent", "")) for each in self.constraints}) < len(self.constraints):
            raise InvalidInputError("constraints", "holds a kind twice", "pass one of each kind, one capacity an agent")
        if self.units is not None and self.units not in _UNITS:
            raise InvalidInputError("units", f"is {self.units!r}", "pass 'reference' or 'native'")
        if isinstance(self.alignment, Alignment):
            units = "reference" if self.lambda_ == "auto" else self.units or self.alignment.units
            if units != self.alignment.units:
                object.__setattr__(self, "alignment", replace(self.alignment, units=units))
        rate = check_number("audit_rate", self.audit_rate, "pass the share of decisions to audit, in [0, 1]", high=1.0)
        object.__setattr__(self, "audit_rate", rate)
        if self.on_alarm not in ("count", "restart"):
            raise InvalidInputError("on_alarm", f"is {self.on_alarm!r}", "pass 'count' or 'restart'")
        if self.on_alarm == "restart" and isinstance(self.alignment, Alignment) and self.alignment.watch is None:
            object.__setattr__(self, "alignment", replace(self.alignment, watch=Watch()))

    @property
    def weights(self) -> Objective:
        """The objective, with ``cost_weight`` as its dollar weight if given."""
        return replace(self.objective, usd=self.cost_weight) if self.cost_weight else self.objective

    @cached_property
    def context_width(self) -> int:
        """Number of features that a policy sees: the task's own and those of its text."""
        return (self.n_features or 0) + (0 if self.text is None else self.text.width)

    @cached_property
    def timed(self) -> bool:
        """Whether tasks need a time."""
        return any(isinstance(each, Quota) for each in self.constraints)

    @cached_property
    def words(self) -> int:
        """Number of trailing features that are word codes; 0 without texts or with another encoder."""
        return 0 if self.text is None else self.text.words

    def chosen_units(self) -> Units:
        """Units for a default alignment."""
        return "reference" if self.lambda_ == "auto" else self.units or "reference"

    def learned_under(self) -> tuple[Any, ...]:
        """Settings on which the learned state depends; changing any other keeps the state valid."""
        alignment: Any = self.alignment
        if isinstance(alignment, Alignment):
            alignment = replace(alignment, units="reference", watch=None).spec()  # measures have no equality
        return self.policy, self.n_features, alignment, self.reward, self.text

    def spec(self) -> dict[str, Any]:
        """JSON values; :meth:`from_spec` is the inverse."""
        if isinstance(self.alignment, GivenDistances):
            raise InvalidInputError("alignment", "is given from outside", "only an experiment can use it")
        wants: dict[str, Any] = {}
        if self.objective != Objective():
            wants["objective"] = asdict(self.objective)
        if self.constraints:
            wants["constraints"] = [constraint_to_spec(each) for each in self.constraints]
        if self.guarantee is not None:
            wants["guarantee"] = self.guarantee.spec()
        if self.team:
            wants["team"] = True
        if self.names:
            wants["names"] = list(self.names)
        return {
            "policy": to_spec(self.policy),
            "lambda": self.lambda_,
            "alignment": None if self.alignment is None else self.alignment.spec(),
            "reward": self.reward.spec(),
            **({} if self.encoder is None else {"encoder": encoder_spec(self.encoder)}),
            **({} if self.text is None else {"text": str(self.text)}),
            **{name: getattr(self, name) for name in _PLAIN},
            **wants,
        }

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        alignment = document["alignment"]
        return cls(
            policy=from_spec(document["policy"]),
            lambda_=document["lambda"],
            alignment=None if alignment is None else Alignment.from_spec(alignment),
            reward=reward_from_spec(document["reward"]),
            encoder=encoder_from_spec(document.get("encoder")),
            text=TextFeatures.parse(document["text"]) if "text" in document else None,
            objective=Objective.from_spec(document.get("objective", {})),
            constraints=tuple(constraint_from_spec(each) for each in document.get("constraints", ())),
            guarantee=Guarantee.from_spec(document["guarantee"]) if "guarantee" in document else None,
            team=document.get("team", False),
            names=tuple(document.get("names", ())),
            **{name: document[name] for name in _PLAIN if name in document},
        )


def fitted(settings: Settings, task: Task, *, first: bool) -> Settings:
    """The settings, completed by the features of the first task, and by the encoder once a text arrives."""
    if settings.text is None and settings.encoder is not None and (task.encoded or task.text is not None):
        found = TextFeatures.parse(task.encoded) if task.encoded else None
        settings = replace(settings, text=found) if found else announced(settings, task.text or "")
    own = len(task.features) - (settings.text.width if settings.text is not None and task.encoded else 0)
    if settings.n_features is not None or not own:
        return settings
    if not first:
        problem = f"has {own} numbers, the first task had none"
        raise InvalidInputError("task.features", problem, "pass n_features when you create the orchestrator")
    return replace(settings, n_features=own)


def announced(settings: Settings, text: str = "") -> Settings:
    """The settings with the encoder in use, before any text arrives or at the first one."""
    if settings.encoder is None or settings.text is not None:
        return settings
    return replace(settings, text=features_of(settings.encoder, text))


def carried_over(settings: Settings, old: Settings) -> Settings:
    """The settings, completed by what ``old`` learned from its first task or round."""
    if settings.n_features in (None, old.n_features) and not settings.names:
        settings = replace(settings, n_features=old.n_features, names=old.names)
    if old.team:
        settings = replace(settings, team=True)
    if settings.encoder is None or settings.text is not None or old.text is None:
        return settings
    same = encoder_version(find_encoder(settings.encoder)) == old.text.version
    return replace(settings, text=old.text) if same else announced(settings)
