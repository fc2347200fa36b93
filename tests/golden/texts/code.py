"""A small in-memory store for sensor readings with time windows."""

from __future__ import annotations

import bisect
import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator


class StoreError(Exception):
    """Raised when a reading cannot be accepted."""


@dataclass(frozen=True, order=True)
class Reading:
    """One measurement of one sensor."""

    timestamp: float
    value: float
    tags: tuple[str, ...] = ()

    def shifted(self, seconds: float) -> "Reading":
        return Reading(self.timestamp + seconds, self.value, self.tags)


@dataclass
class Summary:
    count: int = 0
    mean: float = 0.0
    m2: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        """Updates the running mean and variance (Welford's method)."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (value - self.mean)
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    @property
    def variance(self) -> float:
        if self.count < 2:
            return 0.0
        return self.m2 / (self.count - 1)


@dataclass
class Series:
    name: str
    limit: int = 10_000
    _items: list[Reading] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._items)

    def append(self, reading: Reading) -> None:
        if math.isnan(reading.value):
            raise StoreError(f"{self.name}: value is not a number")
        if self._items and reading.timestamp < self._items[-1].timestamp:
            bisect.insort(self._items, reading)
        else:
            self._items.append(reading)
        if len(self._items) > self.limit:
            del self._items[: len(self._items) - self.limit]

    def window(self, start: float, end: float) -> list[Reading]:
        """Returns the readings with start <= timestamp < end."""
        if end < start:
            raise ValueError("end must not be before start")
        keys = [item.timestamp for item in self._items]
        left = bisect.bisect_left(keys, start)
        right = bisect.bisect_left(keys, end)
        return self._items[left:right]


class Store:
    """Holds many series and answers questions about them."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._series: dict[str, Series] = {}
        self._listeners: dict[str, list[Callable[[Reading], None]]] = defaultdict(list)

    def record(self, name: str, timestamp: float, value: float, *tags: str) -> None:
        series = self._series.get(name)
        if series is None:
            series = Series(name, self._limit)
            self._series[name] = series
        reading = Reading(timestamp, value, tuple(sorted(tags)))
        series.append(reading)
        for listener in self._listeners[name]:
            listener(reading)

    def subscribe(self, name: str, listener: Callable[[Reading], None]) -> Callable[[], None]:
        self._listeners[name].append(listener)

        def cancel() -> None:
            try:
                self._listeners[name].remove(listener)
            except ValueError:
                pass

        return cancel

    def names(self) -> list[str]:
        return sorted(self._series)

    def summarize(self, name: str, start: float, end: float) -> Summary:
        if name not in self._series:
            raise KeyError(name)
        summary = Summary()
        for reading in self._series[name].window(start, end):
            summary.add(reading.value)
        return summary

    def resample(self, name: str, start: float, step: float, count: int) -> list[float | None]:
        """Averages the series in `count` buckets of `step` seconds."""
        result: list[float | None] = []
        for index in range(count):
            low = start + index * step
            bucket = self._series[name].window(low, low + step)
            if not bucket:
                result.append(None)
                continue
            result.append(sum(item.value for item in bucket) / len(bucket))
        return result

    def dump(self) -> str:
        rows = {
            name: [[item.timestamp, item.value, list(item.tags)] for item in series]
            for name, series in self._series.items()
        }
        return json.dumps(rows, sort_keys=True)

    @classmethod
    def load(cls, text: str, limit: int = 10_000) -> "Store":
        store = cls(limit)
        for name, rows in json.loads(text).items():
            for timestamp, value, tags in rows:
                store.record(name, timestamp, value, *tags)
        return store


def merge(stores: Iterable[Store]) -> Store:
    merged = Store()
    for store in stores:
        for name in store.names():
            for reading in store._series[name]:
                merged.record(name, reading.timestamp, reading.value, *reading.tags)
    return merged


if __name__ == "__main__":
    demo = Store(limit=100)
    for minute in range(180):
        demo.record("kitchen", minute * 60.0, 20.0 + math.sin(minute / 15.0), "indoor")
        if minute % 5 == 0:
            demo.record("garden", minute * 60.0, 11.5 - 0.01 * minute)
    print(demo.names())
    print(demo.summarize("garden", 0.0, 3600.0))
    print(demo.resample("kitchen", 7200.0, 600.0, 6))
