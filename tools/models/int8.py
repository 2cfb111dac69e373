"""Post-training quantization to 8 bits, for torch's engine `onednn`."""

import torch
from torch.ao import quantization
from torch.ao.quantization import quantize_fx


def select_engine():
    """Weights are packed for the engine that is selected when a module is converted or loaded."""
    torch.backends.quantized.engine = "onednn"


def static(module, example):
    """Weights and activations, the latter with the ranges that the example gives them."""
    select_engine()
    prepared = quantize_fx.prepare_fx(module, quantization.get_default_qconfig_mapping("onednn"), example)
    prepared(*example)
    return quantize_fx.convert_fx(prepared)


def dynamic(module):
    """Linear layers; an activation's range is found in each run."""
    select_engine()
    return quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
