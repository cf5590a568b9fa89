#!/usr/bin/env python3
"""Writes tests/data/optimizer_steps.json: where twenty steps of each optimizer end, in double precision, by the
implementations of PyTorch, Optax and the authors of the optimizers.

    pip install torch optax pytorch-optimizer schedulefree
    python tests/tools/make_optimizer_steps.py tests/data/optimizer_steps.json

Three problems: a vector, a matrix, a convolution kernel. Start and gradients are multiples of 1/64, which single precision
holds exactly.
"""

import importlib.metadata
import json
import sys

import jax
import numpy as np
import optax
import pytorch_optimizer
import schedulefree
import torch

jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)

PACKAGES = ("torch", "optax", "pytorch-optimizer", "schedulefree")
STEPS = 20
PROBLEMS = {"vector": (7,), "matrix": (5, 4), "kernel": (3, 2, 3, 3)}


def with_torch(make, to_matrix=None):
    """`make` gets a list of parameters. `to_matrix`: shape -> (array -> array, array -> array), there and back."""

    def run(start, gradients):
        there, back = to_matrix(start.shape) if to_matrix else (lambda x: x, lambda x: x)
        parameter = torch.nn.Parameter(torch.from_numpy(there(start).copy()))
        optimizer = make([parameter])
        if hasattr(optimizer, "train"):
            optimizer.train()
        for gradient in gradients:
            parameter.grad = torch.from_numpy(there(gradient).copy())
            optimizer.step()
        results = {"final": back(parameter.detach().numpy().copy())}
        if hasattr(optimizer, "eval"):
            optimizer.eval()
            results["evaluated"] = back(parameter.detach().numpy().copy())
        return results

    return run


def with_optax(optimizer):
    def run(start, gradients):
        parameter, state = start, optimizer.init(start)
        for gradient in gradients:
            updates, state = optimizer.update(gradient, state, parameter)
            parameter = optax.apply_updates(parameter, updates)
        return {"final": np.asarray(parameter)}

    return run


def rows_are_outputs(shape):
    """PyTorch's Muon takes [outputs, inputs]; a matrix of the library is [inputs, outputs]."""
    if len(shape) == 2:
        return (lambda x: x.T), (lambda x: x.T)
    return (lambda x: x.reshape(shape[0], -1)), (lambda x: x.reshape(shape))


def muon(**options):
    matrix = with_torch(lambda p: torch.optim.Muon(p, **options), rows_are_outputs)
    vector = with_torch(lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95), eps=1e-10, weight_decay=0))
    return lambda start, gradients: (vector if start.ndim == 1 else matrix)(start, gradients)


OPTIMIZERS = {
    "sgd": with_torch(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.1)),
    "adam": with_torch(lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1)),
    "adamw": with_torch(lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
    "nadamw": with_torch(lambda p: torch.optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)),
    "radam": with_torch(lambda p: torch.optim.RAdam(p, lr=0.05, weight_decay=0.1)),
    "radam decoupled": with_torch(
        lambda p: torch.optim.RAdam(p, lr=0.05, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True)
    ),
    "qhadamw": with_torch(
        lambda p: pytorch_optimizer.QHAdam(
            p, lr=0.05, betas=(0.995, 0.999), nus=(0.7, 0.9), weight_decay=0.1, weight_decouple=True
        )
    ),
    "lamb": with_optax(optax.lamb(0.05, weight_decay=0.1)),
    "adafactor": with_torch(lambda p: torch.optim.Adafactor(p, lr=0.125, eps=(2.0**-23, 1e-3), weight_decay=0.1)),
    "lion": with_optax(optax.lion(0.05, weight_decay=0.1)),
    "muon": muon(lr=0.05, momentum=0.9, weight_decay=0.1),
    "muon without nesterov": muon(lr=0.05, momentum=0.95, nesterov=False, weight_decay=0),
    "mars": with_torch(lambda p: pytorch_optimizer.MARS(p, lr=0.05, gamma=0.1, weight_decay=0.1, optimize_1d=True)),
    "schedule free": with_torch(lambda p: schedulefree.AdamWScheduleFree(p, lr=0.05, weight_decay=0.1)),
    "schedule free weighted": with_torch(lambda p: schedulefree.AdamWScheduleFree(p, lr=0.05, betas=(0.8, 0.99), r=1.5)),
}


def main(path):
    # Muon of PyTorch computes its products in bfloat16.
    torch.Tensor.bfloat16 = torch.Tensor.clone
    random = np.random.default_rng(0)
    problems = []
    for name, shape in PROBLEMS.items():
        start = np.round(random.normal(size=shape) * 64) / 64
        gradients = np.round(random.normal(size=(STEPS, *shape)) * 64) / 64
        optimizers = {}
        for optimizer, run in OPTIMIZERS.items():
            values = run(start, gradients)
            optimizers[optimizer] = {key: [float(f"{x:.10g}") for x in value.ravel()] for key, value in values.items()}
        problems.append(
            {
                "name": name,
                "shape": shape,
                "start": start.ravel().tolist(),
                "gradients": gradients.reshape(STEPS, -1).tolist(),
                "optimizers": optimizers,
            }
        )
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    with open(path, "w") as file:
        json.dump({"versions": versions, "problems": problems}, file)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
