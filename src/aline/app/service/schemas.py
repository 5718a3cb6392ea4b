"""What the API takes and gives, with an example of each; OpenAPI is made from these.

Requests are strict: no field that is not known, no text where a number belongs, no NaN.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from aline.episodes.goals import SPREAD_POINTS

NAME = r"^\w[\w .-]{0,99}$"
MOST = 1000  # designs in one request
OBSERVATIONS = 20_000  # of one experiment: more could not be opened again in bounded time
POINTS = 5000  # to predict at, in all targets of one experiment


def _is_text(value: str) -> str:
    value.encode()  # half of a surrogate pair is no text: UnicodeEncodeError, a ValueError
    return value


Text = Annotated[str, AfterValidator(_is_text)]
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Level = Annotated[Text, Field(max_length=1000)]
Column = Annotated[list[Number | Level], Field(max_length=MOST)]
Part = Annotated[
    list[Number | Level],
    Field(
        min_length=1,
        max_length=MOST,
        description="Of an axis with bounds the lowest and the highest value, of one with a set of "
        "values some of them.",
    ),
]
Interval = Annotated[list[float], Field(min_length=2, max_length=2)]
Design = dict[Text, Number | Level]
Designs = Annotated[dict[Text, Column], Field(examples=[{"stimulus": [-1.0, 0.0, 1.5]}])]
Value = Number | StrictBool | Annotated[Text, Field(max_length=1000)]
Outcome = Annotated[
    Value | dict[Text, Value],
    Field(
        description="As the model's `form` says: 0 or 1 if it is binary, else a number or one of "
        "the labels; of several outcomes an object with all names."
    ),
]
Name = Annotated[Text, Field(pattern=NAME, examples=["participant 7"])]
Stop = Annotated[dict[Text, Number], Field(examples=[{"threshold": 0.5}])]
Horizon = Annotated[int, Field(ge=1, le=10_000, strict=True)]


class Request(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(extra="forbid")


class Predictions(Request):
    """A target: outcomes at these designs."""

    predictions: Designs

    @property
    def count(self) -> int:
        """How many points it is."""
        return max(map(len, self.predictions.values()), default=0)


class Region(Request):
    """A target: outcomes all over these bounds; axes that are left out keep their range."""

    region: Annotated[
        dict[Text, Part],
        Field(min_length=1, examples=[{"stimulus": [-1.0, 1.0]}]),
    ]

    @property
    def count(self) -> int:
        """How many points stand for it."""
        return SPREAD_POINTS


Target = Annotated[
    list[Text | Predictions | Region],
    Field(
        min_length=1,
        max_length=100,
        description="Parameter names, predictions at designs or in a region, or both.",
        examples=[["threshold", "slope"]],
    ),
]


Known = Annotated[
    dict[Text, Number | Level] | None,
    Field(
        description="Values of parameters that are known, where the model was trained for it.",
        examples=[None],
    ),
]
Priors = Annotated[
    dict[Text, dict[Text, Number | Level]] | None,
    Field(
        description="Priors other than the task's, where the model was trained for it: "
        '{"slope": {"family": "Uniform", "low": 0.2, "high": 0.8}}, with the names that PyTorch '
        "has; of a discrete parameter a probability for each value.",
        examples=[None],
    ),
]


class NewExperiment(Request):
    """What to start."""

    model: Annotated[Text, Field(examples=["psychometric"])]
    name: Name | None = None
    target: Target | None = None
    horizon: Horizon | None = None
    stop: Stop | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0
    metadata: Annotated[
        dict[str, Any],
        Field(
            examples=[{"participant": 7}],
            description='Yours. {"simulated": 1}, a seed, asks for a simulated participant.',
        ),
    ] = {}
    known: Known = None
    prior: Priors = None
    units: Annotated[
        dict[Text, tuple[Number, Number]] | None,
        Field(
            description="The range of the stimuli in your units, for a model that takes any.",
            examples=[None],
        ),
    ] = None


class Change(Request):
    """What to change from now on; what is left out stays.

    `known` and `prior` replace what was said of either before; null takes it back.
    """

    target: Target | None = None
    horizon: Horizon | None = None
    stop: Stop | None = None
    known: Known = None
    prior: Priors = None


class Tell(Request):
    """What a trial gave."""

    outcome: Annotated[Outcome, Field(examples=[1])]
    design: Annotated[
        Design | None,
        Field(description="Where it was measured, if not where it was asked.", examples=[None]),
    ] = None
    note: Annotated[
        dict[str, Any] | None,
        Field(
            description="Yours: what was measured beside the outcome. It is kept with the trial.",
            examples=[{"rt": 0.41}],
        ),
    ] = None


class Attach(Request):
    """Data measured earlier: a list an axis, and the outcomes in the same order."""

    designs: Designs
    outcomes: Annotated[list[Outcome], Field(min_length=1, max_length=MOST, examples=[[0, 1, 1]])]


class Restrict(Request):
    """Ask only for these designs, or between these bounds; nothing means anywhere again."""

    candidates: Designs | None = None
    box: dict[Text, Part] | None = None
    repeats: Annotated[
        StrictBool | None,
        Field(description="Whether a design may be asked twice; null is as the task has it."),
    ] = None


class Predict(Request):
    """Where to predict outcomes."""

    designs: Designs
    level: Annotated[Number, Field(gt=0, lt=1)] = 0.95


class Reply(BaseModel):
    """What the API answers."""


class Failure(Reply):
    """Why a request was refused: the rule, what was given, what to do."""

    detail: Annotated[str, Field(examples=["trial 3 cannot be told, it is told already"])]
    request_id: str


class Trial(Reply):
    """One measurement, in the task's units."""

    number: Annotated[int, Field(examples=[3])]
    state: Literal["asked", "told", "abandoned"]
    source: Literal["asked", "attached"]
    design: Annotated[dict[str, float | str], Field(examples=[{"stimulus": 0.25}])]
    proposed: Annotated[
        dict[str, float | str] | None, Field(description="What was asked, if another was measured.")
    ]
    outcome: Any
    note: Annotated[dict[str, Any] | None, Field(description="What came with the outcome.")]


class Axis(Reply):
    """One axis of the design space."""

    name: str
    unit: str | None
    kind: Annotated[
        Literal["continuous", "log", "levels"],
        Field(description="Any value between bounds, such values on a log scale, or a set."),
    ]
    low: Annotated[float | None, Field(description="None for names.")]
    high: float | None
    values: Annotated[
        list[float | str] | None, Field(description="Of a set all its values, numbers or names.")
    ]


class Model(Reply):
    """A trained model."""

    name: Annotated[str, Field(examples=["psychometric"])]
    parameters: list[str]
    axes: list[Axis]
    where: Annotated[str | None, Field(description="The condition that designs satisfy, in words.")]
    outcome: Annotated[str, Field(description="Its kind.", examples=["binary"])]
    form: Annotated[
        dict[str, Any],
        Field(
            description="How to ask for the outcome: `choices`, each with a value, a label and a "
            "key, or a `range` and a `step`, or of several outcomes `fields`, each with a name.",
            examples=[{"kind": "binary", "choices": [{"value": 1, "label": "yes", "key": "y"}]}],
        ),
    ]
    horizon: int
    targets: Annotated[list[list[str]], Field(description="What it was trained to aim at.")]
    can_simulate: Annotated[bool, Field(description="Whether it can simulate a participant.")]
    facts: Annotated[dict[str, str], Field(description="Its card, in words.")]


class Models(Reply):
    """The models on offer."""

    models: list[Model]


class Experiment(Reply):
    """An experiment as it is now."""

    name: str
    task: str
    model: str | None
    created: str
    target: list[str | dict[str, Any]]
    horizon: int
    stop: dict[str, float]
    known: Annotated[dict[str, float | str], Field(description="Parameters that are known.")]
    told: Annotated[int, Field(description="Trials that count towards the horizon.")]
    finished: bool
    closed: bool
    metadata: dict[str, Any]
    sequence: Annotated[int, Field(description="How many events its journal has.")]
    trials: list[Trial]


class Summary(Reply):
    """An experiment in a list."""

    name: str
    task: str
    created: str
    changed: str
    horizon: int
    told: int
    closed: bool
    metadata: dict[str, Any]
    problem: Annotated[str | None, Field(description="Why nothing else of it can be shown.")]


class Experiments(Reply):
    """A part of the list of experiments, the newest first."""

    experiments: list[Summary]
    total: int


class Trials(Reply):
    """Several trials."""

    trials: list[Trial]


class Marginal(Reply):
    """What is known about one parameter."""

    mean: float
    std: float
    interval: Interval
    probabilities: Annotated[
        dict[str, float] | None,
        Field(
            description="Of each value of a discrete parameter; the other numbers are then about "
            "the place of its value, counting from 0. None for one that is a number."
        ),
    ] = None


class Posterior(Reply):
    """What is known about the parameters."""

    sequence: int
    level: float
    parameters: dict[str, Marginal]
    correlation: Annotated[
        dict[str, dict[str, float]] | None,
        Field(
            description="How parameters depend on each other, by name and name, to about 0.03. "
            "None where the model has each by itself.",
            examples=[{"a": {"a": 1.0, "b": -0.7}, "b": {"a": -0.7, "b": 1.0}}],
        ),
    ]
    warnings: Annotated[
        list[str],
        Field(description="Why not to believe it, a sentence each; empty as it should be."),
    ]


class Predictive(Reply):
    """Expected outcomes, in the order of the designs."""

    mean: Annotated[list[float] | None, Field(description="None for labels.")] = None
    std: list[float] | None = None
    interval: Annotated[
        list[Interval] | None, Field(description="None for a binary outcome and for labels.")
    ] = None
    probabilities: Annotated[
        dict[str, list[float]] | None, Field(description="Of each label or level.")
    ] = None
    parts: Annotated[
        dict[str, Predictive] | None, Field(description="Of several outcomes, by name.")
    ] = None


class Health(Reply):
    """Whether the service works."""

    status: Literal["ok"]
    version: str
    experiments: int
