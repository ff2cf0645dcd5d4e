"""What all measurements on one device share: the plan, what is there, what has been found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import inputs, schema
from tfdistill.benchmark.adb import answers, output
from tfdistill.benchmark.adb.binary import Program
from tfdistill.benchmark.adb.deployment import Deployed, Deployment
from tfdistill.benchmark.adb.layout import Layout
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.host import places
from tfdistill.benchmark.settings import Settings

NUM_FEEDS = 8  # examples that timed runs go round, and that parity is checked with
LOOK_RUNS = 5  # of a short run that says about how long an inference takes
_WARM_UP_SECONDS = 0.5  # the tool's default: until the clocks of a phone have risen
_T = TypeVar("_T")


@dataclasses.dataclass
class Findings(places.Findings):
    """What has been found on a device so far."""

    answers: list[schema.Answers] = dataclasses.field(default_factory=list)
    device: schema.Device | None = None
    kind: schema.Kind = "phone"
    before: schema.Conditions | None = None
    after: schema.Conditions | None = None

    def __bool__(self) -> bool:
        """Whether there is anything worth keeping."""
        return super().__bool__() or bool(self.answers)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to measure, the same for all devices.

    Attributes:
      subjects: The files, of unique names.
      layouts: By name of a file and length.
      settings: How to measure.
      program: The tool.
      examples: Of a task, for answers; none for golden examples.
      metric: From answers to these to the task's metrics.
    """

    subjects: Sequence[inputs.Subject]
    layouts: Mapping[tuple[str, int], Layout]
    settings: Settings
    program: Program
    examples: Sequence[inputs.Example] = ()
    metric: answers.Metric | None = None

    @property
    def lengths(self) -> list[int]:
        """The sequence lengths to measure."""
        asked = self.settings.lengths
        return sorted({n for _, n in self.layouts if asked is None or n in asked})


@dataclasses.dataclass
class Stage:
    """One device, ready to be measured on.

    Attributes:
      phone: The device.
      plan: What to measure.
      found: Is filled as the work goes on.
      on_device: What has been pushed.
      affinity: Mask of the cores to run on, or None.
      rng: Source of the order.
      deployed: What can be run, by name of a file and length.
      refused: Places that failed: they are not tried again.
    """

    phone: Phone
    plan: Plan
    found: Findings
    on_device: Deployment
    affinity: str | None
    rng: np.random.Generator
    deployed: dict[tuple[str, int], Deployed] = dataclasses.field(default_factory=dict)
    refused: set[schema.Place] = dataclasses.field(default_factory=set)

    def attempt(self, place: schema.Place, what: str, work: Callable[[], _T]) -> _T | None:
        """Does a piece of work at a place; one that fails ends the place, not the others.

        Args:
          place: Where.
          what: How messages call it.
          work: Does it.

        Returns:
          What `work` returns; None where it failed, or the place had failed before.

        Raises:
          DeviceLostError: If the device went away.
        """
        if place in self.refused:
            return None
        try:
            return work()
        except errors.DeviceLostError:
            raise
        except errors.TfdistillError as error:
            self.refused.add(place)
            failure = schema.Failure(what=f"{name_of(place)}, {what}", error=str(error))
            self.found.failures.append(failure)
            return None

    def run(
        self, place: schema.Place, example: int = 0, *, warmup: int = 1, **options: Any
    ) -> output.Output:
        """Runs the tool once at a place.

        Args:
          place: Where.
          example: Which example, counted beyond their number from the start again.
          warmup: Inferences that do not count.
          **options: Fields of `tool.Job`.

        Returns:
          What it said.

        Raises:
          BenchmarkError: If it fails.
        """
        deployed = self.deployed[place.model, place.sequence_length]
        seconds = min(_WARM_UP_SECONDS, self.plan.settings.min_seconds) if warmup else 0.0
        job = self.on_device.job(deployed, place, warmup=warmup, warmup_seconds=seconds, **options)
        return self.on_device.run(job, example % deployed.num_examples, what=name_of(place))

    def look(
        self, place: schema.Place, **options: Any
    ) -> tuple[output.Output, schema.Coverage | None]:
        """Runs the tool shortly: who computes, and about how long it takes.

        Raises:
          BenchmarkError: If it fails, or another computes than was asked for.
        """
        said = self.run(place, runs=LOOK_RUNS, **options)
        return said, self.coverage(said, place)

    def coverage(self, said: output.Output, place: schema.Place) -> schema.Coverage | None:
        """Says how much of the graph the delegate took.

        Raises:
          BenchmarkError: If nothing.
        """
        layout = self.deployed[place.model, place.sequence_length].layout
        return output.coverage(
            said,
            place.delegate,
            subgraph=layout.subgraph,
            num_nodes=layout.num_nodes,
            what=name_of(place),
        )

    def place(
        self, name: str, length: int, threads: int, delegate: schema.Delegate
    ) -> schema.Place:
        """Returns a place of this device."""
        return schema.Place(
            model=name,
            sequence_length=length,
            threads=threads,
            delegate=delegate,
            affinity=self.affinity,
        )

    def places(self, *, longest: bool = False) -> list[schema.Place]:
        """Returns the places with the first number of threads, or each file's longest of them."""
        settings = self.plan.settings
        return [
            self.place(subject.name, length, settings.threads[0], delegate)
            for subject in self.plan.subjects
            for length in self.lengths_of(subject)[-1 if longest else 0 :]
            for delegate in settings.delegates
        ]

    def lengths_of(self, subject: inputs.Subject) -> list[int]:
        """Returns the lengths of a file that are to be measured."""
        return [length for length in self.plan.lengths if length in subject.entries]


def name_of(place: schema.Place) -> str:
    """Says a place in words."""
    return (
        f"{place.model}, {place.sequence_length} tokens, {place.threads} thread(s), "
        f"{place.delegate}"
    )
