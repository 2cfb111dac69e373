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


def join(model, optimizer, samples):
    """Becomes a worker of the job that the environment names.

    model      a torch.nn.Module; its parameters are those that are trained
    optimizer  any of torch.optim; its learning rate is for the job's least batch, and becomes linear in it
    samples    how many the data set has; the same for all workers
    """
    from sluice_elastic.job import Job

    return Job(model, optimizer, samples)
