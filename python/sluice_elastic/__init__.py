"""Elastic training of a PyTorch script: workers join and leave while it runs, and none is restarted.

    import sluice_elastic

    job = sluice_elastic.join(model, optimizer, samples=len(dataset))
    for step in job.steps():
        inputs, labels = collate([dataset[i] for i in step.samples])
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)  # a mean over the samples
        step.backward(loss)                      # in place of loss.backward()
        optimizer.step()

The platform starts such a script as a worker of a training function (`command`, `elastic: true`), and
decides on the number of workers and on the batch. Each sample is used once an epoch. A step that is lost
with a worker leaves model and optimizer as they are, and its samples come again.

A script that does not import this module runs under sluice_elastic.restart instead.
"""


def join(model, optimizer, samples, scheduler=None, state=()):
    """Becomes a worker of the job that the environment names.

    model      a torch.nn.Module; its parameters are those that are trained
    optimizer  any of torch.optim that takes dense gradients; its learning rate is for the job's least batch, and
               each step is taken at a rate linear in its samples
    samples    how many the data set has; the same for all workers
    scheduler  of torch.optim.lr_scheduler, if the script has one
    state      what else the script changes from step to step: objects with state_dict() and load_state_dict(),
               such as averages of the weights. They are copied at each step, and handed to workers that join.

    Rank 0's learning rate is that of all workers. Workers whose parameters differ stop the job.
    """
    from sluice_elastic.job import Job
    from sluice_elastic.words import end_log_with_cause

    end_log_with_cause()
    return Job(model, optimizer, samples, [*([] if scheduler is None else [scheduler]), *state])
