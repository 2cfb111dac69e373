"""A generation's process group: torch's Gloo backend, whose ranks find each other by the controller's store."""
import datetime
import threading

import torch
import torch.distributed as dist

from sluice_elastic.link import Lost

# A stopped worker, or a lost machine, sends nothing that would end an operation earlier.
STEP_PATIENCE = datetime.timedelta(seconds=60)


class ControllerStore(dist.Store):
    """The controller's store, as torch sees it. Its values are bytes, the messages are text."""

    def __init__(self, link, generation):
        super().__init__()
        self._link, self._generation = link, generation

    def set(self, key, value):
        self._link.set(self._generation, key, bytes(value).hex())

    def get(self, key):
        return bytes.fromhex(self._link.wait_for(self._generation, key))

    def wait(self, keys, timeout=None):
        for key in keys:
            self._link.wait_for(self._generation, key)


def _connect(link, form):
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = STEP_PATIENCE
    return dist.ProcessGroupGloo(ControllerStore(link, form["generation"]), form["rank"], form["world"], options)


class Group:
    """Operations raise Lost once a rank has failed; the group can only be dropped then."""

    def __init__(self, link, form):
        """Gloo tries again for long if a rank has died meanwhile. So a thread connects, which is left behind
        as soon as the generation is known to end."""
        self.rank, self.world = form["rank"], form["world"]
        self._group = None
        if self.world == 1:
            return
        result = []

        def work():
            try:
                result.append(_connect(link, form))
            except Exception as e:  # torch's errors, and those of the store
                result.append(e)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.005)
            if link.halted(form["generation"]) and thread.is_alive():
                raise Lost("the generation ended while it formed")
        if isinstance(result[0], Exception):
            raise Lost(str(result[0]))
        self._group = result[0]

    def sum(self, tensors):
        """Replaces each tensor by its sum over the ranks."""
        self._run(lambda t: self._group.allreduce([t]), tensors)

    def broadcast(self, tensor):
        """Replaces the tensor by rank 0's."""
        self._run(lambda t: self._group.broadcast(t, 0), [tensor])

    def _run(self, operation, tensors):
        if self._group is None:
            return
        try:
            for work in [operation(t) for t in tensors]:
                work.wait()
        except RuntimeError as e:
            self._group = None  # closes the connections, so that others need not wait for this rank
            raise Lost(str(e)) from None


def broadcast_bytes(group, data):
    """Returns rank 0's bytes."""
    size = torch.tensor([len(data)])
    group.broadcast(size)
    content = torch.frombuffer(bytearray(data), dtype=torch.uint8) if group.rank == 0 else \
        torch.empty(int(size), dtype=torch.uint8)
    group.broadcast(content)
    return content.numpy().tobytes()
