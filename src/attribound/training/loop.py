"""The loop of a training: steps, records, checkpoints."""

from __future__ import annotations

import math
import signal
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attribound import models
from attribound.data import arrays
from attribound.networks.modes import eval_mode
from attribound.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from attribound.training.config import TrainingConfig
from attribound.training.directory import Directory, versions
from attribound.training.draws import batch_count, batch_rows, crop_flip, crop_flip_draws, derived
from attribound.training.evaluation import evaluate
from attribound.training.finite import bad_parameters, not_finite
from attribound.training.log import (
    EvaluationRecord,
    EventFiles,
    Log,
    LogRecord,
    Meter,
    StepRecord,
)
from attribound.training.network import FirstNetwork
from attribound.training.objective import BatchLoss
from attribound.training.parts import DataParts
from attribound.training.progress import display
from attribound.training.stopping import Stopped, Stopper


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What a loop works on, and what it shows."""

    config: TrainingConfig
    parts: DataParts
    start: FirstNetwork
    directory: Directory
    progress: bool
    tensorboard: bool


class Loop:
    """Trains the network of ``run``, from the checkpoint there is or from the beginning.

    Nothing that a step does depends on the steps before it but through the weights and
    the optimiser's state, so that these are all a checkpoint needs for an exact resume.
    """

    def __init__(self, fabric: Any, run: TrainingRun) -> None:
        config = run.config
        self.run, self.config, self.fabric = run, config, fabric
        self.model = run.start.model
        if config.channels_last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.batch_loss = BatchLoss(self.model, config.method, config.ball)
        self.optimiser = config.optimiser.build(self.model.parameters())
        self.module, self.stepper = fabric.setup(self.batch_loss, self.optimiser)
        self.dtype = next(self.model.parameters()).dtype
        self.examples = len(run.parts.train)
        self.per_epoch = batch_count(self.examples, config.batch, fabric.world_size)
        self.steps = config.epochs * self.per_epoch
        self.step, state = 0, dict[str, Any]()
        saved = latest_checkpoint(run.directory.checkpoints)
        if saved is not None:
            self.step, state = load_checkpoint(saved, self.model)
            self.optimiser.load_state_dict(state["optimiser"])
        self.meter = Meter(state.get("meter"))
        self.log_bytes = state.get("log_bytes", 0)
        self.sessions = [*state.get("sessions", []), {"from_step": self.step, **versions()}]
        self._seconds: float = state.get("seconds", 0.0) - time.monotonic()
        self._cpu_before: float = state.get("cpu_seconds", 0.0)
        self._cpu_start = self._cpu_shared_at = time.process_time()
        self._cpu_shared = 0.0
        self._saved_at = (self.step, time.monotonic())
        self._stopping = False
        self.last: EvaluationRecord | None = None

    @property
    def seconds(self) -> float:
        """Spent in training, over all resumes."""
        return self._seconds + time.monotonic()

    @property
    def cpu_seconds(self) -> float:
        """Of all processes up to the last step, and of this one since."""
        return self._cpu_before + self._cpu_shared + time.process_time() - self._cpu_shared_at

    def train(self) -> None:
        """All steps that are left.

        Raises:
            NotFiniteError: a loss or a gradient is NaN or infinite.
            Stopped: a signal asked to stop; a checkpoint was written.
        """
        first = self.fabric.is_global_zero
        with ExitStack() as stack:
            stopper = stack.enter_context(Stopper())
            self.shown = display(self.step, self.steps, shown=self.run.progress and first)
            stack.callback(self.shown.close)
            self.sinks: list[Log | EventFiles] = []
            if first:
                self.log = Log(self.run.directory.log, self.log_bytes)
                self.sinks.append(self.log)
                if self.run.tensorboard:
                    folder = self.run.directory.path / "tensorboard"
                    self.sinks.append(EventFiles(folder, self.step))
            for sink in self.sinks:
                stack.callback(sink.close)
            while self.step < self.steps:
                self._advance(stopper)
                self.shown.advance(self.step)
                if self.step % self.per_epoch == 0:
                    self._evaluate(self.step // self.per_epoch)
                self._checkpoint(stopper)

    def _advance(self, stopper: Stopper) -> None:
        """One step, and its record if it is due."""
        config, number = self.config, self.step
        rows = batch_rows(self.examples, config.batch, config.seed, number, self.per_epoch)
        x, y, mine = self._batch(rows)
        epsilon = config.ball.epsilon * config.epsilon_warm_up.factor(
            number, self.steps, self.per_epoch
        )
        rate = config.optimiser.lr * config.schedule.factor(number, self.steps, self.per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        seed = derived(config.seed, "attack", number)
        self.model.train()
        with torch.random.fork_rng(devices=[self.fabric.device] if x.is_cuda else []):
            torch.manual_seed(derived(config.seed, "dropout", number, self.fabric.global_rank))
            found = self.module(x, y, epsilon, seed)
        weight = len(mine) * self.fabric.world_size / len(rows)
        terms = self._shared(found, weight, stopper)
        at = f"step {number + 1}, epoch {number // self.per_epoch + 1}"
        bad = [f"{name} is {value}" for name, value in terms.items() if not math.isfinite(value)]
        if bad:
            raise self._failure(f"{at}: {', '.join(bad)}", (x, y), epsilon, found, mine)
        self.fabric.backward(found["total"] * weight)
        slopes = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(slopes)
        if not math.isfinite(norm):
            names = bad_parameters(self.model) or ["all (too large to be squared)"]
            what = f"{at}: the gradient of {names[0]} is not finite ({len(names)} such)"
            raise self._failure(what, (x, y), epsilon, found, mine)
        if config.clip_gradient is not None:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), config.clip_gradient, norm)
        self.meter.add({"loss": sum(terms.values()), "gradient_norm": norm.item(), **terms})
        due = (number + 1) % config.log_every == 0 or number + 1 == self.steps
        right = self._right(x, found["attacked"], y, len(rows)) if due else (0.0, 0.0)
        self.stepper.step()
        self.stepper.zero_grad()
        self.step += 1
        if due:
            self._record(epsilon, rate, right)

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and labels of this process' share of a batch, and which examples these are."""
        share = slice(self.fabric.global_rank, None, self.fabric.world_size)
        mine = rows[share]
        x = self.run.parts.train.read(mine)
        self.batch_loss.ball.check_inside(x)  # attacks assume it
        if self.config.augmentation == "crop-flip":
            x = crop_flip(x, crop_flip_draws(len(rows), self.config.seed, self.step)[share])
        return (*self._placed(x, self.run.parts.train.labels[mine]), mine)

    def _placed(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.to(self.fabric.device, self.dtype)
        if self.config.channels_last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, y.to(self.fabric.device)

    def _shared(
        self, found: dict[str, Tensor], weight: float, stopper: Stopper
    ) -> dict[str, float]:
        """The terms of the whole batch; what else processes must agree on goes with them."""
        names = [name.removeprefix("term:") for name in found if name.startswith("term:")]
        own = [found[f"term:{name}"].item() * weight / self.fabric.world_size for name in names]
        self._cpu_shared_at = time.process_time()
        numbers = [*own, float(stopper.requested), self._cpu_shared_at - self._cpu_start]
        if self.fabric.world_size > 1:
            together = torch.tensor(numbers, dtype=torch.float64, device=self.fabric.device)
            numbers = self.fabric.all_reduce(together, reduce_op="sum").tolist()
        self._stopping = numbers[-2] > 0
        self._cpu_shared = numbers[-1]
        return dict(zip(names, numbers, strict=False))

    def _failure(
        self,
        what: str,
        batch: tuple[Tensor, Tensor],
        epsilon: float,
        found: dict[str, Tensor],
        rows: Tensor,
    ) -> Exception:
        step = self.batch_loss.at(*batch, epsilon, derived(self.config.seed, "attack", self.step))
        return not_finite(what, self.config.method, step, found["attacked"], rows)

    def _right(self, x: Tensor, attacked: Tensor, y: Tensor, total: int) -> tuple[float, float]:
        """The accuracy at x and x', of the whole batch."""
        with torch.no_grad(), eval_mode(self.model):
            right = [(self.model(at.to(self.dtype)).argmax(1) == y).sum() for at in (x, attacked)]
        both = self.fabric.all_reduce(torch.stack(right).double(), reduce_op="sum") / total
        return both[0].item(), both[1].item()

    def _record(self, epsilon: float, rate: float, right: tuple[float, float]) -> None:
        means = self.meter.flush()
        self._publish(
            StepRecord(
                step=self.step,
                epoch=self.step / self.per_epoch,
                epsilon=epsilon,
                lr=rate,
                loss=means.pop("loss"),
                gradient_norm=means.pop("gradient_norm"),
                terms=means,
                accuracy=right[0],
                attacked_accuracy=right[1],
                seconds=self.seconds,
                cpu_seconds=self.cpu_seconds,
            )
        )

    def _evaluate(self, epoch: int) -> None:
        """Measure on the held-out examples, on the first process."""
        settings, held_out = self.config.evaluation, self.run.parts.held_out
        due = epoch % settings.every == 0 or epoch == self.config.epochs
        if due and len(held_out) and self.fabric.is_global_zero:
            x, y = self._placed(*arrays(held_out))
            seed = derived(self.config.seed, "evaluation")
            scores = evaluate(self.model, x, y, self.config.ball, settings, seed=seed)
            self.last = EvaluationRecord(
                step=self.step,
                epoch=float(epoch),
                **vars(scores),
                seconds=self.seconds,
                cpu_seconds=self.cpu_seconds,
            )
            self._publish(self.last)
        self.fabric.barrier()

    def _publish(self, record: LogRecord) -> None:
        for sink in self.sinks:
            sink.append(record)
        self.shown.show(record)

    def _checkpoint(self, stopper: Stopper) -> None:
        """Save if it is time to, or if asked to stop."""
        if self._stopping:
            stopper.in_time()
        step, moment = self._saved_at
        due = self.config.checkpoint.due(self.step - step, time.monotonic() - moment)
        if (due or self._stopping) and self.step < self.steps and self.fabric.is_global_zero:
            self.save()
        if self._stopping and self.step < self.steps:
            self.fabric.barrier()
            raise Stopped(
                f"stopped after step {self.step} of {self.steps}, saved in "
                f"{self.run.directory.path}: resume with --resume (resume=True)",
                stopper.requested or signal.SIGINT,
            )

    def save(self) -> None:
        """Write a checkpoint of now."""
        state = {
            "optimiser": self.optimiser.state_dict(),
            "meter": self.meter.sums,
            "log_bytes": self.log.written(),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "sessions": self.sessions,
        }
        folder = self.run.directory.checkpoints
        save_checkpoint(folder, self.step, self.model, self.run.start.config, state)
        self._saved_at = (self.step, time.monotonic())

    def finish(self) -> dict[str, Any]:
        """Write the trained network; what the summary says of it."""
        models.save(self.model, self.run.start.config, self.run.directory.model)
        return {
            "steps": self.steps,
            "epochs": self.config.epochs,
            "evaluation": None if self.last is None else asdict(self.last),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "sessions": self.sessions,
        }
