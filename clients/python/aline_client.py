"""Run adaptive experiments on an aline service, with nothing but Python.

Copy this file beside your experiment; it needs Python 3.8 or newer and no other package.

    from aline_client import Client

    client = Client("http://127.0.0.1:8000")  # token="aline_..." where the service asks for one
    experiment = client.create("psychometric", target=["threshold"])
    while not experiment.finished:
        trial = experiment.ask()  # trial.design == {"stimulus": 0.25}
        experiment.tell(trial, respond(trial.design["stimulus"]))
    print(experiment.posterior()["threshold"]["interval"])

When the service does not answer, or its answer is cut short, a call is repeated with the same key
until it does: it counts once, so nothing is lost and nothing is doubled.
"""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

__all__ = ["AlineError", "Client", "Experiment", "Trial"]

# Too many at once; a proxy whose service is away, restarts, or is slow.
_WORTH_REPEATING = (429, 502, 503, 504)


class AlineError(Exception):
    """The service refused; `status` is its HTTP status, the message says what to do."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status


class Trial:
    """One measurement: number, design, outcome (None until told), state, source, proposed, note."""

    def __init__(self, data):
        self.number = data["number"]
        self.design = data["design"]
        self.outcome = data["outcome"]
        self.state = data["state"]
        self.source = data["source"]
        self.proposed = data["proposed"]
        self.note = data.get("note")

    def __eq__(self, other):
        return isinstance(other, Trial) and vars(self) == vars(other)

    def __repr__(self):
        return f"Trial({self.number}, {self.design}, {self.state}, outcome={self.outcome})"


class Client:
    """A service. `patience` is how many seconds to repeat a call that gets no reply."""

    def __init__(self, url="http://127.0.0.1:8000", token=None, timeout=10.0, patience=30.0):
        self._url = url.rstrip("/") + "/api/v1"
        self._token, self._timeout, self._patience = token, timeout, patience

    def models(self):
        """The models on offer, each a dictionary."""
        return self._call("GET", "/models")["models"]

    def experiments(self, start=0, limit=50):
        """The experiments, the newest first, each a dictionary."""
        path = f"/experiments?start={start}&limit={limit}"
        return self._call("GET", path)["experiments"]

    def create(
        self, model, target=None, horizon=None, stop=None, name=None, seed=0, metadata=None,
        known=None, prior=None, units=None,
    ):  # fmt: skip
        """Start an experiment, where the model was trained for it with `known` {"guess": 0.5}.

        `prior` is {"slope": {"family": "Uniform", "low": 0.2, "high": 0.8}}, with PyTorch's names;
        `units` {"stimulus": [-40, 0]}.
        """
        body = {"model": model, "seed": seed, "metadata": metadata or {}}
        given = {"target": target, "horizon": horizon, "stop": stop, "name": name}
        given.update(known=known, prior=prior, units=units)
        body.update({key: value for key, value in given.items() if value is not None})
        return Experiment(self, self._call("POST", "/experiments", body)["name"])

    def open(self, name):
        """An experiment that is there already."""
        experiment = Experiment(self, name)
        experiment.status()  # says so if it is not
        return experiment

    def _call(self, method, path, body=None, raw=False):
        request = urllib.request.Request(self._url + path, method=method)
        request.add_header("Accept", "application/json")
        if self._token:
            request.add_header("Authorization", "Bearer " + self._token)
        if method != "GET":
            request.data = json.dumps(body or {}).encode()
            request.add_header("Content-Type", "application/json")
            request.add_header("Idempotency-Key", uuid.uuid4().hex)
        return self._repeat(request, bytes if raw else json.loads)

    def _repeat(self, request, read):
        """Send until there is a whole reply, within our patience; what `read` makes of it."""
        give_up, wait = time.monotonic() + self._patience, 0.1
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as reply:
                    return read(reply.read())
            except urllib.error.HTTPError as error:
                failure = AlineError(error.code, _detail(error))
                if error.code not in _WORTH_REPEATING:
                    raise failure from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                # No connection, or a reply that was cut in its head or its body.
                failure = AlineError(0, f"the service does not answer ({error})")
            if time.monotonic() + wait > give_up:
                raise failure
            time.sleep(wait)
            wait = min(2 * wait, 2.0)


class Experiment:
    """One experiment of a service."""

    def __init__(self, client, name):
        self._client, self.name = client, name
        self._path = "/experiments/" + urllib.parse.quote(name, safe="")

    def status(self):
        """Everything about it, as a dictionary: told, horizon, finished, target, trials, ..."""
        return self._client._call("GET", self._path)

    @property
    def finished(self):
        """Whether the horizon is reached, the stopping rule holds, or it was closed."""
        return self.status()["finished"]

    @property
    def trials(self):
        """Every trial by number."""
        return [Trial(one) for one in self.status()["trials"]]

    @property
    def target(self):
        """What is to be learned; may be set at any time."""
        return self.status()["target"]

    @target.setter
    def target(self, target):
        target = [target] if isinstance(target, (str, dict)) else list(target)
        self._client._call("PATCH", self._path, {"target": target})

    @property
    def horizon(self):
        """How many trials are planned; may be set at any time."""
        return self.status()["horizon"]

    @horizon.setter
    def horizon(self, horizon):
        self._client._call("PATCH", self._path, {"horizon": horizon})

    @property
    def known(self):
        """Values of parameters that are known; may be set at any time, None is none."""
        return self.status()["known"]

    @known.setter
    def known(self, known):
        self._client._call("PATCH", self._path, {"known": known})

    def set_prior(self, prior):
        """Begin from other priors than before, as `Client.create` has them; None is the task's."""
        self._client._call("PATCH", self._path, {"prior": prior})

    def ask(self):
        """The next trial."""
        return Trial(self._post("/ask"))

    def tell(self, trial, outcome, design=None, note=None):
        """Record what a trial gave; `design` says where, if not at the design proposed.

        The outcome is 0 or 1, a number, a label, or of several outcomes a dictionary by name, as
        the model's "form" says (`Client.models`). `note` is a dictionary of your own that is kept
        with the trial, such as {"rt": 0.41}.
        """
        body = {"outcome": outcome}
        if design is not None:
            body["design"] = design
        if note is not None:
            body["note"] = note
        return Trial(self._post(f"/trials/{_number(trial)}/tell", body))

    def abandon(self, trial):
        """Give a trial up; if it was told, its outcome leaves the posterior."""
        return Trial(self._post(f"/trials/{_number(trial)}/abandon"))

    def redo(self, trial):
        """Ask a trial's design again."""
        return Trial(self._post(f"/trials/{_number(trial)}/redo"))

    def undo(self):
        """Take the last told trial back and ask it again."""
        return Trial(self._post("/undo"))

    def attach(self, designs, outcomes):
        """Add data measured earlier: a list an axis, and the outcomes in the same order."""
        body = {"designs": designs, "outcomes": list(outcomes)}
        return [Trial(one) for one in self._post("/attach", body)["trials"]]

    def restrict(self, candidates=None, box=None, repeats=None):
        """Ask only for `candidates`, a list an axis, or in a `box` from now on; or anywhere."""
        given = {"candidates": candidates, "box": box, "repeats": repeats}
        self._post("/restrict", {key: value for key, value in given.items() if value is not None})

    def posterior(self, level=0.95, refined=False):
        """What is known: name -> {"mean", "std", "interval"}.

        `refined`: by the task's own likelihood, where it is known; takes a second.
        """
        path = f"{self._path}/posterior?level={level}&refined={str(refined).lower()}"
        return self._client._call("GET", path)["parameters"]

    def warnings(self):
        """Why not to believe it, a sentence each: outcomes that do not fit the model, and such."""
        return self._client._call("GET", f"{self._path}/posterior")["warnings"]

    def predict(self, designs, level=0.95):
        """What would be measured at designs: {"mean", "std", "interval"}, lists in their order.

        Of labels and levels "probabilities", a list for each; of several outcomes "parts", these
        for each name.
        """
        return self._post("/predict", {"designs": designs, "level": level})

    def export(self, format="json"):
        """The experiment as the bytes of a file: json, csv or netcdf."""
        return self._client._call("GET", f"{self._path}/export?format={format}", raw=True)

    def close(self):
        """End it for good."""
        self._post("/close")

    def _post(self, path, body=None):
        return self._client._call("POST", self._path + path, body)


def _number(trial):
    return trial.number if isinstance(trial, Trial) else int(trial)


def _detail(error):
    try:
        return json.loads(error.read().decode())["detail"]
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return f"{error.code} {error.reason}"
