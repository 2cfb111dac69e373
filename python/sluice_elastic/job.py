"""A worker of an elastic job: joins generations, hands out the steps' samples, sums gradients."""
import io
import math
import os
import sys
import time

import torch

from sluice_elastic import checkpoints
from sluice_elastic.group import Group, broadcast_bytes
from sluice_elastic.link import Lost, Refused
from sluice_elastic.noise_scale import NoiseScale
from sluice_elastic.worker import Worker

BUCKET_BYTES = 25 << 20
CHECKPOINT_EVERY = 30  # seconds
REPORT_EVERY = 0.2  # seconds
NORMS_EVERY = 4  # steps

# What the ranks sum behind the last bucket's gradients: each rank's share of the mean loss; how many ranks
# want to end the generation; rank 0's next batch, or 0; Σ (b_i ÷ M)·|g_i|².
LOSS, HALT, BATCH, SQUARE = range(4)


class Step:
    """One step's part of this worker. `samples`: their indices, at least one."""

    def __init__(self, job, samples, count):
        self.samples, self.count = samples, count  # count: of the whole step, over all workers
        self.rank, self.world = job.rank, job.world
        self._job = job
        self.outcome = None  # "taken", "halted", "lost" or "failed", once backward() was called

    def backward(self, loss):
        """Computes the gradients of `loss`, a mean over this step's samples, and makes them those of the whole
        step. If it is lost with a worker there are none, and the optimizer's step changes nothing.
        """
        self.outcome = self._job._backward(self, loss)


class Job(Worker):
    def __init__(self, model, optimizer, samples):
        if samples < 1:
            raise ValueError(f"samples: {samples} is not allowed: at least 1 is")
        self._model, self._optimizer, self._samples = model, optimizer, int(samples)
        # The last layers' gradients are ready first.
        self._parameters = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        if not self._parameters:
            raise ValueError("model: has no parameters to train")
        self._buckets = _buckets(self._parameters)
        self._at = {"step": 0, "epoch": 0, "sample": 0}
        self._has_state = False
        self._order = None  # an epoch and its order of the samples
        self._noise = NoiseScale()
        self._saved = self._reported = time.monotonic()
        self._seen = self._seen_reported = 0  # samples of this worker's life, over all ranks
        self._trouble = ""
        self.rank, self.world = 0, 1
        try:
            super().__init__(self._samples, sum(p.numel() * p.element_size() for p in self._parameters))
        except (Refused, Lost) as e:
            sys.exit(f"sluice_elastic: {e}")
        self._rate_batch = self._welcome["batch"]  # what the optimizer's learning rate is for

    def steps(self):
        """Yields this worker's part of each step until every epoch is trained, or the worker has left."""
        try:
            while form := self._next_form():
                self._stopped((yield from self._steps_of(form)))
        except (Refused, Lost) as e:
            sys.exit(f"sluice_elastic: {e}")
        finally:
            self._link.close()

    def state_step(self):
        return self._at["step"] if self._has_state else -1

    # ---- a generation --------------------------------------------------------------------------

    def _steps_of(self, form):
        """Yields the generation's steps; returns why it ended."""
        self.rank, self.world = form["rank"], form["world"]
        self._link.take_batch()  # of an earlier one
        self._first = True
        try:
            self._group = Group(self._link, form)
            self._begin(form)
        except Lost:
            return "lost"
        except (ValueError, OSError) as e:
            self._fail(str(e), for_good=True)
            return "halted"
        self._set_batch(form["batch"])
        while self._at["epoch"] < self._welcome["epochs"]:
            self._leave_is_overdue()
            begun = time.monotonic()
            step = self._step()
            if step.samples:
                yield step
                if step.outcome is None:
                    raise RuntimeError("the loop's body has to call step.backward(loss)")
            else:
                self._optimizer.zero_grad()
                step.backward(None)
                self._optimizer.step()
            if step.outcome in ("lost", "failed"):
                self._group = None
                return "lost" if step.outcome == "lost" else "halted"
            self._after(step, time.monotonic() - begun)
            if step.outcome == "halted":
                return "halted"
        if self.rank == 0:
            self._finish()
        return "halted"

    def _begin(self, form):
        """Brings all ranks to the newest state among them."""
        if form["resume"]:
            self._restore(checkpoints.load(form["resume"], self._description()))
        if form["sync"]:
            self._restore(broadcast_bytes(self._group, self._state() if self.rank == 0 else b""))
        self._has_state = True

    def _step(self):
        """Returns this worker's part of the next step: parts differ by one sample at most, and may be empty."""
        first = self._at["sample"]
        count = min(self._batch, self._samples - first)
        each, more = divmod(count, self.world)
        begin = first + self.rank * each + min(self.rank, more)
        end = begin + each + (self.rank < more)
        torch.manual_seed(self._welcome["seed"] + self._at["step"] * 1024 + self.rank)
        return Step(self, self._epoch_order()[begin:end].tolist(), count)

    def _epoch_order(self):
        epoch = self._at["epoch"]
        if self._order is None or self._order[0] != epoch:
            random = torch.Generator().manual_seed(self._welcome["seed"] + 1_000_003 * epoch)
            self._order = epoch, torch.randperm(self._samples, generator=random)
        return self._order[1]

    def _backward(self, step, loss):
        if loss is not None:
            loss.backward()
        weight = len(step.samples) / step.count
        flat = [torch.cat([_gradient(p) for p in b]) for b in self._buckets]
        norms = self.world > 1 and self._at["step"] % NORMS_EVERY == 0
        slots = torch.zeros(4)
        slots[LOSS] = float(loss.detach()) * weight if loss is not None else 0
        slots[HALT] = self._link.halted(self._generation)
        slots[BATCH] = self._link.take_batch() if self.rank == 0 else 0
        slots[SQUARE] = weight * sum(float(f.square().sum()) for f in flat) if norms else 0
        for f in flat:
            f.mul_(weight)
        flat[-1] = torch.cat([flat[-1], slots])
        ready = time.monotonic()
        try:
            self._group.sum(flat)
        except Lost:
            return self._void("lost")
        self._waited = time.monotonic() - ready
        slots = flat[-1][-4:].tolist()
        flat[-1] = flat[-1][:-4]
        self._loss = slots[LOSS]
        if not math.isfinite(self._loss):
            if self.rank == 0:
                self._fail(f"the loss of step {self._at['step']} is not finite: {self._loss}; the step was not "
                           "taken")
            return self._void("failed")
        for bucket, numbers in zip(self._buckets, flat):
            for p, piece in zip(bucket, numbers.split([p.numel() for p in bucket])):
                p.grad = piece.view_as(p).to(p.device, p.dtype)
        if norms and step.count >= self.world:
            self._noise.add(step.count / self.world, slots[SQUARE], step.count,
                            sum(float(f.square().sum()) for f in flat))
        self._next_batch = int(slots[BATCH])
        return "halted" if slots[HALT] > 0 else "taken"

    def _void(self, outcome):
        """Optimizers pass over parameters without a gradient: not even momentum moves them."""
        for p in self._model.parameters():
            p.grad = None
        return outcome

    def _after(self, step, seconds):
        """The script has taken the step."""
        self._at["step"] += 1
        self._at["sample"] += step.count
        self._seen += step.count
        if self._at["sample"] >= self._samples:
            self._at = {"step": self._at["step"], "epoch": self._at["epoch"] + 1, "sample": 0}
        if self._next_batch > 0:
            self._set_batch(self._next_batch)
        if self.rank != 0:
            return
        self._report(seconds)
        if step.outcome == "taken" and time.monotonic() - self._saved >= CHECKPOINT_EVERY:
            self._try_to_save()

    def _set_batch(self, batch):
        """The learning rate is linear in the batch."""
        self._batch = batch
        for group in self._optimizer.param_groups:
            group["lr"] *= batch / self._rate_batch
        self._rate_batch = batch

    def _report(self, seconds):
        now = time.monotonic()
        passed = now - self._reported
        if not self._first and passed < REPORT_EVERY and self._at["epoch"] < self._welcome["epochs"]:
            return
        self._link.send("progress", generation=self._generation, **self._at, loss=self._loss, batch=self._batch,
                        step_seconds=seconds, wait_seconds=self._waited, noise=self._noise.value(),
                        samples_per_second=(self._seen - self._seen_reported) / passed if passed > 0 else 0.0,
                        trouble=self._trouble)
        self._first, self._reported, self._seen_reported = False, now, self._seen

    # ---- state ---------------------------------------------------------------------------------

    def _description(self):
        return "script " + " ".join(f"{name} {list(p.shape)}" for name, p in self._model.named_parameters())

    def _state(self):
        out = io.BytesIO()
        torch.save({"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "at": self._at,
                    "rate_batch": self._rate_batch}, out)
        return out.getvalue()

    def _restore(self, data):
        state = torch.load(io.BytesIO(data), map_location="cpu")
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._at, self._rate_batch = state["at"], state["rate_batch"]

    def save(self):
        begun = time.monotonic()
        state = self._state()
        path = checkpoints.save(self._welcome["artifacts"], self._description(), self._at, state)
        self._link.send("saved", **self._at, path=path, bytes=len(state), seconds=time.monotonic() - begun)

    def _try_to_save(self):
        self._saved = time.monotonic()
        try:
            self.save()
            self._trouble = ""
        except OSError as e:
            self._trouble = str(e)
            print(f"sluice_elastic: no checkpoint: {e}", file=sys.stderr)

    def _finish(self):
        """Leaves a TorchScript module; if the model cannot be one, its state."""
        path = os.path.join(self._welcome["artifacts"], "model.pt")
        aside = f"{path}.{os.getpid()}"
        try:
            self.save()
            try:
                torch.jit.script(self._model).save(aside)
            except RuntimeError as e:  # outside of TorchScript, or a full disk: the next attempt tells
                print(f"sluice_elastic: the model is saved as a state_dict: {e}", file=sys.stderr)
                torch.save(self._model.state_dict(), aside)
            os.chmod(aside, 0o644)
            os.rename(aside, path)
        except (OSError, RuntimeError) as e:
            return self._fail(f"{path}: {e}")
        self._link.send("finished", step=self._at["step"], model=path)


def _gradient(p):
    if p.grad is None:
        return torch.zeros(p.numel())
    return p.grad.detach().reshape(-1).to("cpu", torch.float32)


def _buckets(parameters):
    buckets, size = [[]], 0
    for p in parameters:
        if size > 0 and size + p.numel() * 4 > BUCKET_BYTES:
            buckets.append([])
            size = 0
        buckets[-1].append(p)
        size += p.numel() * 4
    return buckets
