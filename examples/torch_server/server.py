"""A module of PyTorch as a function: `sluice apply -f examples/torch_server/server.yaml`."""
import torch
from sluice_serve import serve

torch.manual_seed(1)  # random weights, but the same in each instance
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2),
    torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10)).eval()
torch.set_grad_enabled(False)
serve(net, inputs={"image": ("FP32", [-1, 3, 64, 64])}, outputs={"scores": ("FP32", [-1, 10])})
