"""What a script keeps beside its model: the optimizer's rates, schedulers, and objects with a state of their own.

Workers join, and steps are lost. So this state is handed over with the parameters, goes back with a step that
was not taken, and reaches the ranks that had no part of a step.
"""
import copy
import functools
import types

import torch


class ScriptState:
    """`objects`: each with state_dict() and load_state_dict()."""

    def __init__(self, optimizer, objects):
        self._optimizer, self._objects = optimizer, objects
        for o in objects:
            if not hasattr(o, "state_dict") or not hasattr(o, "load_state_dict"):
                raise ValueError(f"state: {type(o).__name__} has no state_dict and load_state_dict")
        self._kept = None

    def lacks_scheduler(self):
        """Whether a scheduler of torch's counts this optimizer's steps, and none was joined."""
        step = self._optimizer.step
        counted = hasattr(step, "_with_counter") or hasattr(step, "_wrapped_by_lr_sched")
        return counted and not any(hasattr(o, "get_last_lr") for o in self._objects)

    def objects(self):
        return [o.state_dict() for o in self._objects]

    def restore_objects(self, states):
        if len(states) != len(self._objects):
            raise ValueError(f"the checkpoint has the state of {len(states)} joined objects; the script joins "
                             f"{len(self._objects)}")
        for o, state in zip(self._objects, states):
            o.load_state_dict(state)

    def all(self):
        """With the optimizer's numbers, which schedulers set."""
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self._optimizer.param_groups]
        return groups, self.objects()

    def restore_all(self, state):
        groups, objects = state
        for group, numbers in zip(self._optimizer.param_groups, groups):
            group.update(numbers)
        self.restore_objects(objects)

    def keep(self):
        """Before a step: the script's body moves a scheduler even if the step is not taken then."""
        self._kept = copy.deepcopy(self.all())

    def go_back(self):
        self.restore_all(self._kept)

    # ---- the learning rate -----------------------------------------------------------------------

    def rates(self):
        """Returns the groups' learning rates as small integers in 32-bit floats, which a sum with zeros leaves
        as they are."""
        rates = torch.tensor([float(g["lr"]) for g in self._optimizer.param_groups], dtype=torch.float64)
        return rates.view(torch.int16).float()

    def set_rates(self, numbers):
        for group, rate in zip(self._optimizer.param_groups, numbers.to(torch.int16).view(torch.float64).tolist()):
            group["lr"] = group["lr"].fill_(rate) if torch.is_tensor(group["lr"]) else rate

    def scale_steps(self, scale):
        """Has each step of the optimizer taken at its learning rate times scale(). Schedulers see it without."""
        optimizer, step = self._optimizer, self._optimizer.step

        @functools.wraps(step)  # schedulers leave marks on it
        def scaled(_, *arguments, **named):
            rates = [g["lr"] for g in optimizer.param_groups]
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * scale()
            try:
                return step(*arguments, **named)
            finally:
                for group, rate in zip(optimizer.param_groups, rates):
                    group["lr"] = rate

        optimizer.step = types.MethodType(scaled, optimizer)
