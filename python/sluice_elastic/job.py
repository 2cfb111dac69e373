"""A worker of an elastic job: joins generations, hands out the steps' samples, sums gradients."""
import inspect
import io
import math
import os
import sys
import time

import torch

from sluice_elastic import checkpoints
from sluice_elastic.checks import Comparison, all_finite, nan_in, not_finite
from sluice_elastic.group import Group, broadcast_bytes
from sluice_elastic.link import Lost, Refused
from sluice_elastic.noise_scale import NoiseScale
from sluice_elastic.samples import parts, shard, step_size
from sluice_elastic.script_state import ScriptState
from sluice_elastic.words import cause
from sluice_elastic.worker import Worker

BUCKET_BYTES = 25 << 20
CHECKPOINT_EVERY = 30  # seconds
REPORT_EVERY = 0.2  # seconds
NORMS_EVERY = 4  # steps
COMPARE_EVERY = 20  # steps

# What the ranks sum behind the last bucket's gradients: each rank's share of the mean loss; how
# many ranks want to end the generation; rank 0's next batch, or 0; Σ (b_i ÷ M)·|g_i|²; from RATES
# on rank 0's learning rates.
LOSS, HALT, BATCH, SQUARE, RATES = range(5)


class Step:
    """One step's part of this worker. `samples`: their indices, at least one. `number`: of the steps before it,
    and `epoch`: of the epochs. `loss`: after backward(), the whole step's mean. These are the same on all workers."""

    def __init__(self, job, samples, count):
        self.samples, self.count = samples, count  # count: of the whole step, over all workers
        self.number, self.epoch = job._at["step"], job._at["epoch"]
        self.rank, self.world = job.rank, job.world
        self._job = job
        self.loss = None
        self.outcome = None  # "taken", "halted", "lost" or "failed", once backward() was called

    def backward(self, loss):
        """Computes the gradients of `loss`, a mean over this step's samples, and makes them those of the whole
        step. If it is lost with a worker there are none, and the optimizer's step changes nothing.
        """
        if self.outcome is not None:
            raise RuntimeError("step.backward(loss) is called once a step, with the sum of all losses")
        self.outcome = self._job._backward(self, loss)


class Job(Worker):
    def __init__(self, model, optimizer, samples, objects):
        if samples < 1:
            raise ValueError(f"samples: {samples} is not allowed: at least 1 is")
        _check(model, optimizer)
        self._model, self._optimizer, self._samples = model, optimizer, int(samples)
        self._script = ScriptState(optimizer, objects)
        # The last layers' gradients are ready first.
        self._parameters = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        self._buckets = _buckets(self._parameters)
        self._at = {"step": 0, "epoch": 0, "sample": 0}
        self._has_state = self._spoilt = False
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
        self._step_samples = self._welcome["batch"]  # what the optimizer's learning rate is for
        self._script.scale_steps(lambda: self._step_samples / self._welcome["batch"])

    def steps(self):
        """Yields this worker's part of each step until every epoch is trained, or the worker has left."""
        if self._script.lacks_scheduler():
            self._fail("optimizer: has a scheduler that the other workers do not know of: "
                       "join(…, scheduler=scheduler) is needed", for_good=True)
            sys.exit(1)
        try:
            while form := self._next_form():
                if self._spoilt:
                    raise Lost("its parameters are spoilt; another worker goes on from the newest checkpoint")
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
        except (ValueError, RuntimeError, OSError) as e:  # a checkpoint that does not fit the script
            self._fail(cause(e), for_good=True)
            return "halted"
        self._batch = form["batch"]
        while self._at["epoch"] < self._welcome["epochs"]:
            self._leave_is_overdue()
            begun = time.monotonic()
            step = self._step()
            self._script.keep()
            if step.samples:
                yield step
                if step.outcome is None:
                    raise RuntimeError("the loop's body has to call step.backward(loss)")
            else:
                self._optimizer.zero_grad()
                step.backward(None)
                self._optimizer.step()
            if step.outcome in ("lost", "failed"):
                self._script.go_back()
                self._group = None
                return "lost" if step.outcome == "lost" else "halted"
            try:
                if not self._after(step, time.monotonic() - begun):
                    return "halted"
            except Lost:
                return "lost"
        if self.rank == 0:
            self._finish()
        return "halted"

    def _begin(self, form):
        """Brings all ranks to the newest state among them."""
        if form["resume"]:
            state, self._trouble = checkpoints.load_newest(form["resume"], self._description())
            self._restore(state)
            if self._trouble:
                print(f"sluice_elastic: {self._trouble}", file=sys.stderr)
                path = os.path.join(self._welcome["artifacts"], f"checkpoint-{self._at['step']}")
                self._link.send("saved", **self._at, path=path, bytes=len(state), seconds=0.0)
        if form["sync"]:
            self._restore(broadcast_bytes(self._group, self._state() if self.rank == 0 else b""))
        self._has_state = True

    def _step(self):
        """Returns this worker's part of the next step, which may be empty."""
        first = self._at["sample"]
        count = step_size(first, self._batch, self._samples)
        begin, end = shard(first, count, self.rank, self.world, self._least_part())
        torch.manual_seed(self._welcome["seed"] + self._at["step"] * 1024 + self.rank)
        return Step(self, self._epoch_order()[begin:end].tolist(), count)

    def _epoch_order(self):
        epoch = self._at["epoch"]
        if self._order is None or self._order[0] != epoch:
            random = torch.Generator().manual_seed(self._welcome["seed"] + 1_000_003 * epoch)
            self._order = epoch, torch.randperm(self._samples, generator=random)
        return self._order[1]

    def _least_part(self):
        return self._welcome.get("least_part", 2)

    def _backward(self, step, loss):
        if loss is not None:
            loss.backward()
        weight = len(step.samples) / step.count
        flat = [torch.cat([_gradient(p) for p in b]) for b in self._buckets]
        norms = self.world > 1 and self._at["step"] % NORMS_EVERY == 0
        slots = self._slots(float(loss.detach()) * weight if loss is not None else 0,
                            weight * _square(flat) if norms else 0)
        for f in flat:
            f.mul_(weight)
        flat[-1] = torch.cat([flat[-1], slots])
        compared = None
        if self.world > 1 and step.number % COMPARE_EVERY == 0:
            compared = Comparison(self._model.named_parameters(), step.number // COMPARE_EVERY)
        ready = time.monotonic()
        try:
            self._group.sum(flat + ([compared.sums] if compared else []))
        except Lost:
            return self._void("lost")
        self._waited = time.monotonic() - ready
        flat[-1], slots = flat[-1].split([flat[-1].numel() - len(slots), len(slots)])
        self._script.set_rates(slots[RATES:])
        slots = slots.tolist()
        self._loss = step.loss = slots[LOSS]
        self._set_gradients(flat)
        if fault := self._fault_in(step, flat, compared):
            if self.rank == 0:
                self._fail(fault)
            return self._void("failed")
        if norms:
            part = step.count / parts(step.count, self.world, self._least_part())
            self._noise.add(part, slots[SQUARE], step.count, _square(flat))
        self._step_samples = step.count
        self._next_batch = int(slots[BATCH])
        return "halted" if slots[HALT] > 0 else "taken"

    def _slots(self, loss, square):
        slots = torch.cat([torch.zeros(RATES), self._script.rates() * (self.rank == 0)])
        slots[LOSS], slots[SQUARE] = loss, square
        slots[HALT] = self._link.halted(self._generation)
        slots[BATCH] = self._link.take_batch() if self.rank == 0 else 0
        return slots

    def _set_gradients(self, flat):
        for bucket, numbers in zip(self._buckets, flat):
            for p, piece in zip(bucket, numbers.split([p.numel() for p in bucket])):
                p.grad = piece.view_as(p).to(p.device, p.dtype)

    def _fault_in(self, step, flat, compared):
        """Returns why the step is not taken, or None: the same on all ranks, as it is of the sums alone."""
        if not math.isfinite(self._loss):
            return f"the loss of step {step.number} is not finite: {self._loss}; the step was not taken"
        if not all(all_finite(f) for f in flat):
            name = not_finite((n, p.grad) for n, p in self._model.named_parameters() if p.grad is not None)
            return f"the gradient of {name} is not finite; step {step.number} was not taken"
        if name := compared and compared.differing(self.world):
            self._spoil()
            return (f"the workers' parameters differ at step {step.number}, first in {name}; what a script keeps "
                    "beside its model is joined: join(…, scheduler=, state=)")
        return None

    def _spoil(self):
        """What this worker has is in no checkpoint, and nothing goes on from it."""
        self._has_state, self._spoilt = False, True

    def _void(self, outcome):
        """Optimizers pass over parameters without a gradient: not even momentum moves them."""
        for p in self._model.parameters():
            p.grad = None
        if outcome == "failed" and nan_in(self._model.state_dict().items()):  # of its forward pass
            self._spoil()
        return outcome

    def _after(self, step, seconds):
        """The script has taken the step. Returns whether the generation goes on. Raises Lost if it cannot."""
        if name := not_finite(self._model.named_parameters()):
            self._spoil()
            self._fail(f"{name} is not finite after step {step.number}, which is not kept")
            self._group = None
            return False
        self._at["step"] += 1
        self._at["sample"] += step.count
        self._seen += step.count
        if self._at["sample"] >= self._samples:
            self._at = {"step": self._at["step"], "epoch": self._at["epoch"] + 1, "sample": 0}
        if self._next_batch > 0:
            self._batch = self._next_batch
        self._share_script_state(step)
        if self.rank == 0:
            self._report(seconds)
            if step.outcome == "taken" and time.monotonic() - self._saved >= CHECKPOINT_EVERY:
                self._try_to_save()
        return step.outcome == "taken"

    def _share_script_state(self, step):
        """Has all ranks go on with rank 0's: where the body did not run on some, as they had no part; before a
        generation ends, and at times, as a script may count by itself and differ after it has joined."""
        some_had_none = parts(step.count, self.world, self._least_part()) < self.world
        if self.world == 1 or not (some_had_none or step.outcome == "halted" or step.number % COMPARE_EVERY == 0):
            return
        self._has_state = bool(step.samples)  # until rank 0's is here
        state = broadcast_bytes(self._group, _packed(self._script.all()) if self.rank == 0 else b"")
        if self.rank != 0:
            self._script.restore_all(_unpacked(state))
        self._has_state = True

    def _report(self, seconds):
        now = time.monotonic()
        passed = now - self._reported
        if not self._first and passed < REPORT_EVERY and self._at["epoch"] < self._welcome["epochs"]:
            return
        rate = float(self._optimizer.param_groups[0]["lr"])
        self._link.send("progress", generation=self._generation, **self._at, loss=self._loss, batch=self._batch,
                        step_seconds=seconds, wait_seconds=self._waited, noise=self._noise.value(),
                        samples_per_second=(self._seen - self._seen_reported) / passed if passed > 0 else 0.0,
                        learning_rate=rate * self._batch / self._welcome["batch"],
                        trouble=self._trouble)
        self._first, self._reported, self._seen_reported = False, now, self._seen

    # ---- state ---------------------------------------------------------------------------------

    def _description(self):
        return "script " + " ".join(f"{name} {list(p.shape)}" for name, p in self._model.named_parameters())

    def _state(self):
        return _packed({"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "at": self._at,
                        "objects": self._script.objects()})

    def _restore(self, data):
        state = _unpacked(data)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if rate_batch := state.get("rate_batch"):  # of an earlier version, which scaled the rates themselves
            for group in self._optimizer.param_groups:
                group["lr"] *= self._welcome["batch"] / rate_batch
        else:
            self._script.restore_objects(state["objects"])
        self._at = state["at"]

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
            except Exception as e:  # outside of TorchScript, or a full disk: the next attempt tells
                print(f"sluice_elastic: the model is saved as a state_dict: {cause(e)}", file=sys.stderr)
                torch.save(self._model.state_dict(), aside)
            os.chmod(aside, 0o644)
            os.rename(aside, path)
        except (OSError, RuntimeError) as e:
            disk = os.statvfs(os.path.dirname(path))
            full = disk.f_bavail * disk.f_frsize < 1 << 20  # torch does not say so
            if os.path.exists(aside):
                os.unlink(aside)
            return self._fail(f"{path}: {'No space left on device' if full else e}")
        self._link.send("finished", step=self._at["step"], model=path)


def _check(model, optimizer):
    own = {id(p): name for name, p in model.named_parameters()}
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model: has no parameters to train")
    for p in model.parameters():
        if p.requires_grad and not p.is_floating_point():
            raise ValueError(f"model: {own[id(p)]} is {p.dtype}; real floating-point numbers are summed")
    for p in (p for group in optimizer.param_groups for p in group["params"]):
        if id(p) not in own:
            raise ValueError(f"optimizer: trains a parameter of shape {list(p.shape)} that is not the model's; its "
                             "gradients would not be summed")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ValueError("optimizer: SparseAdam takes sparse gradients alone; they are summed as dense ones, which "
                         "Adam takes")


def _packed(state):
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


def _unpacked(data):
    plain = {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
    return torch.load(io.BytesIO(data), map_location="cpu", **plain)  # what a worker of this job has packed


def _gradient(p):
    if p.grad is None:
        return torch.zeros(p.numel())
    grad = p.grad.detach()
    return (grad if grad.layout == torch.strided else grad.to_dense()).reshape(-1).to("cpu", torch.float32)


def _square(flat):
    return sum(float(f.square().sum()) for f in flat)


def _buckets(parameters):
    buckets, size = [[]], 0
    for p in parameters:
        if size > 0 and size + p.numel() * 4 > BUCKET_BYTES:
            buckets.append([])
            size = 0
        buckets[-1].append(p)
        size += p.numel() * 4
    return buckets
