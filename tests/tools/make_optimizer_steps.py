#!/usr/bin/env python3
"""Writes tests/data/optimizer_steps.json: where twenty steps of each optimizer end, in double precision, by the
implementations of PyTorch, Optax, pytorch-optimizer and the authors of the optimizers.

    pip install torch optax pytorch-optimizer schedulefree kron-torch
    python tests/tools/make_optimizer_steps.py tests/data/optimizer_steps.json

Four problems: a vector, a matrix, a convolution kernel, a scalar. Start and gradients are multiples of 1/64, which single
precision holds exactly, and bfloat16 does too.
"""

import importlib.metadata
import json
import os
import sys
import unittest.mock

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import jax
import kron_torch
import numpy as np
import optax
import pytorch_optimizer
import schedulefree
import torch

jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)

PACKAGES = ("torch", "optax", "pytorch-optimizer", "schedulefree", "kron-torch")
STEPS = 20
PROBLEMS = {"vector": (7,), "matrix": (5, 4), "kernel": (3, 2, 3, 3), "scalar": ()}


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
    return lambda start, gradients: (vector if start.ndim < 2 else matrix)(start, gradients)


def with_soap(**options):
    """Its factorisation in float32 is kept in double."""
    run = with_torch(lambda p: pytorch_optimizer.SOAP(p, **options))

    def in_double(start, gradients):
        with unittest.mock.patch.object(torch, "float32", torch.float64):
            return run(start, gradients)

    return in_double


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., 2011)."""
    mask = 0xFFFFFFFF
    counter, key = list(counter), list(key)
    for _ in range(10):
        even, odd = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [odd >> 32 ^ counter[1] ^ key[0], odd & mask, even >> 32 ^ counter[3] ^ key[1], even & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def library_words(step, count, name="p"):
    """The random words of the library in step `step` (from 0) of seed 0, in the stream of parameter `name`."""
    hashed = 14695981039346656037
    for byte in name.encode():
        hashed = (hashed ^ byte) * 1099511628211 % 2**64
    stream = hashed % 2**31 + 2**31
    words = [w for block in range((count + 3) // 4) for w in philox((block, stream, step, 0), (0, 0))]
    return np.array(words[:count])


def library_uniform(step, shape):
    """`random_uniform` of the library."""
    return ((library_words(step, int(np.prod(shape))) >> 8) / 2.0**24).reshape(shape)


def library_normal(step, shape):
    """`random_normal` of the library."""
    uniform = library_uniform(step, (2 * int(np.prod(shape)),))
    radius = np.sqrt(-2 * np.log1p(-uniform[0::2]))
    return (radius * np.cos(2 * np.pi * uniform[1::2])).reshape(shape)


def kron(**options):
    """kron_torch in double, with the library's random numbers, and two differences. It adds the noise of its factors'
    update to the momentum in place, so that the update of the parameter has it too: here that works on a copy. And it
    balances the factors at random, here never. A scalar, which it fails on, is a vector of one element."""
    calc = kron_torch.kron._calc_A_and_conjB

    def run(start, gradients):
        parameter = torch.nn.Parameter(torch.from_numpy(np.atleast_1d(start).copy()))
        optimizer = kron_torch.Kron([parameter], precond_dtype=torch.float64, **options)
        optimizer.rng = unittest.mock.Mock(**{"random.return_value": 1.0})
        for step, gradient in enumerate(gradients):
            parameter.grad = torch.from_numpy(np.atleast_1d(gradient).copy())
            with (
                unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
                unittest.mock.patch.object(torch, "randn_like", lambda x: torch.tensor(library_normal(step, x.shape))),
                unittest.mock.patch.object(
                    kron_torch.kron, "_calc_A_and_conjB", lambda expression, g, q: calc(expression, g.clone(), q)
                ),
            ):
                optimizer.step()
        return {"final": parameter.detach().numpy().reshape(start.shape)}

    return run


def sophia(lr, gamma, eps, weight_decay, **options):
    """SophiaH of pytorch-optimizer with the library's random signs, on the loss <p, g> + (sum p^2)^2 / 8. It clips
    m / max(h, eps) at p, the library m / max(gamma h, eps) at 1: the same with p = gamma and lr, eps over gamma."""

    def run(start, gradients):
        parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
        optimizer = pytorch_optimizer.SophiaH(
            [parameter],
            lr=lr / gamma,
            p=gamma,
            eps=eps / gamma,
            weight_decay=weight_decay * gamma,
            hessian_distribution="rademacher",
            **options,
        )
        for step, gradient in enumerate(gradients):
            optimizer.zero_grad()
            loss = (parameter * torch.from_numpy(gradient)).sum() + (parameter**2).sum() ** 2 / 8
            loss.backward(create_graph=True)
            bits = torch.tensor(library_uniform(step, start.shape) >= 0.5, dtype=torch.float64)
            with unittest.mock.patch.object(torch, "randint_like", lambda *_: bits):
                optimizer.step()
        return {"final": parameter.detach().numpy()}

    return run


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
    "soap": with_soap(lr=0.05, betas=(0.9, 0.95), weight_decay=0.1, precondition_frequency=4),
    "soap for one axis": with_soap(lr=0.05, betas=(0.9, 0.95), shampoo_beta=0.8, weight_decay=0.0, max_precondition_dim=4),
    "kron": kron(lr=0.05, b1=0.9, weight_decay=0.1, precond_lr=0.1),
    "sophia": sophia(lr=0.05, betas=(0.9, 0.8), gamma=2.0, eps=1e-12, weight_decay=0.1, update_period=3),
    # It adds eps before the bias correction of v, the library after it: with a small one that is the same.
    "mars": with_torch(
        lambda p: pytorch_optimizer.MARS(p, lr=0.05, gamma=0.1, eps=1e-14, weight_decay=0.1, optimize_1d=True)
    ),
    "schedule free": with_torch(lambda p: schedulefree.AdamWScheduleFree(p, lr=0.05, weight_decay=0.1)),
    "schedule free weighted": with_torch(lambda p: schedulefree.AdamWScheduleFree(p, lr=0.05, betas=(0.8, 0.99), r=1.5)),
}


def main(path):
    # Muon of PyTorch computes its products in bfloat16.
    torch.Tensor.bfloat16 = torch.Tensor.clone
    random = np.random.default_rng(0)
    problems = []
    for name, shape in PROBLEMS.items():
        start = np.asarray(np.round(random.normal(size=shape) * 64) / 64)
        gradients = [np.asarray(g) for g in np.round(random.normal(size=(STEPS, *shape)) * 64) / 64]
        optimizers = {}
        for optimizer, run in OPTIMIZERS.items():
            values = run(start, gradients)
            optimizers[optimizer] = {key: [float(f"{x:.10g}") for x in value.ravel()] for key, value in values.items()}
        problems.append(
            {
                "name": name,
                "shape": shape,
                "start": start.ravel().tolist(),
                "gradients": [gradient.ravel().tolist() for gradient in gradients],
                "optimizers": optimizers,
            }
        )
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    with open(path, "w") as file:
        json.dump({"versions": versions, "problems": problems}, file)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
