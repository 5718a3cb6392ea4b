"""What a service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counters of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter(
            "aline_requests", "Requests answered.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "aline_request_seconds",
            "Seconds until a request's reply began.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.trials = Counter(
            "aline_trials", "Trials by what happened to them.", ("event",), registry=self.registry
        )
        self.streams = Gauge("aline_streams", "Open live updates.", registry=self.registry)
        self.experiments = Gauge(
            "aline_open_experiments", "Experiments in memory.", registry=self.registry
        )

        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = method, route, status
        if key not in self._known:  # to find a counter takes longer than to count
            self._known[key] = (
                self.requests.labels(*key),
                self.seconds.labels(method, route),
            )
        count, time = self._known[key]
        count.inc()
        time.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self.registry)
