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
import unittest.mock

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


def library_normal(step, shape, name="p"):
    """`random_normal` of the library in step `step` (from 0) of seed 0, in the stream of parameter `name`."""
    hashed = 14695981039346656037
    for byte in name.encode():
        hashed = (hashed ^ byte) * 1099511628211 % 2**64
    stream = hashed % 2**31 + 2**31
    count = 2 * int(np.prod(shape))
    words = [w for block in range((count + 3) // 4) for w in philox((block, stream, step, 0), (0, 0))]
    uniform = np.array([word >> 8 for word in words[:count]]) / 2.0**24
    radius = np.sqrt(-2 * np.log1p(-uniform[0::2]))
    return (radius * np.cos(2 * np.pi * uniform[1::2])).reshape(shape)


def spectral_bound(x, largest):
    x = x / largest
    row = x[:, np.argmax((x * x).sum(axis=0))] @ x
    row = row / np.linalg.norm(row)
    return np.linalg.norm(row @ x.T) * largest


def kron(lr, beta1, weight_decay, precond_lr):
    """kron_torch 0.3.3 with its default schedule, which updates the factors at each of the first steps; the noise that it adds
    to the momentum in place stays out of the update of the parameter, and nothing is balanced."""

    def run(start, gradients):
        parameter, shape = start, start.shape
        if start.ndim > 2:
            by_last, by_first = (start.size // shape[-1], shape[-1]), (shape[0], start.size // shape[0])
            shape = by_last if by_last[1] - by_last[0] <= by_first[1] - by_first[0] else by_first
        momentum = np.zeros(shape)
        factors = [np.eye(n) for n in shape] if len(shape) == 2 else [np.ones(shape)]
        for step, gradient in enumerate(gradients):
            momentum = beta1 * momentum + (1 - beta1) * gradient.reshape(shape)
            debiased = momentum / (1 - beta1 ** (step + 1))
            noise = library_normal(step, shape)
            g = debiased + np.sqrt(2.0**-23) * np.abs(debiased).mean() * noise
            if len(shape) == 2:
                left, right = factors
                a = left @ g @ right.T
                b = np.linalg.inv(left).T @ noise @ np.linalg.inv(right)
                terms = [(a @ a.T, b @ b.T), (a.T @ a, b.T @ b)]
                for i, (one, two) in enumerate(terms):
                    bound = spectral_bound(one + two, np.abs(one + two).max())
                    factors[i] = factors[i] - np.triu((one - two) * precond_lr) / bound @ factors[i]
                left, right = factors
                u = left.T @ left @ debiased @ right.T @ right
            else:
                (q,) = factors
                one, two = (q * g) ** 2, (noise / q) ** 2
                factors = [q - (one - two) * precond_lr * q / np.abs(one + two).max()]
                u = factors[0] ** 2 * debiased
            u = (u * min(1.0, 1.1 / (np.sqrt((u * u).mean()) + 1e-12))).reshape(start.shape)
            if start.ndim >= 2:
                u = u + weight_decay * parameter
            parameter = parameter - lr * u
        return {"final": parameter}

    return run


def sophia(lr, beta1, beta2, gamma, eps, weight_decay, k):
    """Algorithm 3 of Liu et al., 2024, on the loss <p, g> + sum p^4 / 12, whose Hessian is diagonal: the estimate is exact."""

    def run(start, gradients):
        parameter, m, h = start, np.zeros_like(start), np.zeros_like(start)
        for step, gradient in enumerate(gradients):
            m = beta1 * m + (1 - beta1) * (gradient + parameter**3 / 3)
            if step % k == 0:
                h = beta2 * h + (1 - beta2) * parameter**2
            parameter = parameter - lr * weight_decay * parameter
            parameter = parameter - lr * np.clip(m / np.maximum(gamma * h, eps), -1, 1)
        return {"final": parameter}

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
    "kron": kron(lr=0.05, beta1=0.9, weight_decay=0.1, precond_lr=0.1),
    "sophia": sophia(lr=0.05, beta1=0.9, beta2=0.8, gamma=2.0, eps=1e-12, weight_decay=0.1, k=3),
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
