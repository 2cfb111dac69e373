"""Which samples a step uses, and which of them each rank: the rules of src/train/samples.h."""


def step_size(first, batch, samples):
    """Returns how many samples the step at `first` has. One of a batch above 1 never leaves a single sample."""
    left = samples - first
    count = min(batch, left)
    if batch > 1 and left - count == 1:
        count += -1 if batch > 2 else 1
    return count


def parts(count, world, least):
    """Returns how many of the ranks have a part of a step: as many as get `least` samples each; at least one."""
    return min(max(count // max(1, least), 1), world)


def shard(first, count, rank, world, least):
    """Returns the begin and end of a rank's part of the step; empty behind the last part."""
    ranks = parts(count, world, least)
    if rank >= ranks:
        return first + count, first + count
    each, more = divmod(count, ranks)
    begin = first + rank * each + min(rank, more)
    return begin, begin + each + (rank < more)
