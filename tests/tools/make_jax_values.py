"""Writes tests/data/jax_elementwise.json and tests/data/jax_compositions.json: values and gradients by JAX in float64.

    python3 tests/tools/make_jax_values.py        (needs jax; the files record the versions that made them)
"""

import json
import math
import pathlib

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

jax.config.update("jax_enable_x64", True)
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
VERSIONS = {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__}
INF, NAN = math.inf, math.nan

UNARY = {
    "neg": jnp.negative, "abs": jnp.abs, "sign": jnp.sign, "ceil": jnp.ceil, "floor": jnp.floor, "round": jnp.round,
    "trunc": jnp.trunc, "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "exp": jnp.exp, "expm1": jnp.expm1, "log": jnp.log,
    "log1p": jnp.log1p, "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "asin": jnp.arcsin, "acos": jnp.arccos,
    "atan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh, "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh, "atanh": jnp.arctanh, "erf": jax.lax.erf, "erfc": jax.lax.erfc,
    "reciprocal": jnp.reciprocal, "square": jnp.square, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid,
    "log_sigmoid": jax.nn.log_sigmoid, "softsign": jax.nn.soft_sign, "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
}
BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "rem": jax.lax.rem,
    "pow": jax.lax.pow, "atan2": jnp.arctan2, "maximum": jnp.maximum, "minimum": jnp.minimum,
}
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-3, -1e-3, 1e-9, 0.9, -0.9, 3.0, -3.0, 6.0, -6.0,
          12.0, -12.0, INF, -INF, NAN]
PAIR_POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, INF, -INF, NAN]


def number(x):
    """JSON has no infinities."""
    x = float(x)
    return x if math.isfinite(x) else repr(x)


def numbers(values):
    return [number(x) for x in np.asarray(values).reshape(-1)]


def elementwise():
    unary = {}
    x = jnp.array(POINTS)
    for name, f in UNARY.items():
        y, pull = jax.vjp(f, x)
        unary[name] = {"y": numbers(y), "dx": numbers(pull(jnp.ones_like(y))[0])}
    binary = {}
    a, b = (jnp.array(v) for v in zip(*[(p, q) for p in PAIR_POINTS for q in PAIR_POINTS]))
    for name, f in BINARY.items():
        y, pull = jax.vjp(f, a, b)
        da, db = pull(jnp.ones_like(y))
        binary[name] = {"y": numbers(y), "da": numbers(da), "db": numbers(db)}
    return {"versions": VERSIONS, "points": numbers(POINTS), "pair_points": numbers(PAIR_POINTS), "unary": unary,
            "binary": binary}


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))


def classifier(activation):
    def loss(x, w1, b1, w2, b2, labels):
        return cross_entropy(activation(x @ w1 + b1) @ w2 + b2, labels)
    return loss


def layer_norm(x, scale, shift):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return jnp.mean(jnp.square(centred * jax.lax.rsqrt(variance + 1e-5) * scale + shift) * jnp.arange(1.0, 6.0))


def attention(q, k, v):
    scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return jnp.mean(jnp.square(jax.nn.softmax(scores, axis=-1) @ v))


def embedding(table, w, rows):
    return jnp.mean(jnp.square(jnp.tanh(table[rows]) @ w))


def broadcasting(a, b, c):
    return jnp.sum(jnp.square(a * b + c) / (1 + jnp.exp(-b)) - jnp.maximum(a, c) * jnp.power(jnp.square(c) + 0.5, b))


def extremes(x):
    return jnp.sum(jnp.max(x, axis=1)) * 2 + jnp.sum(jnp.min(x, axis=0)) + jnp.prod(x[0])


def masked_sqrt(x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))


def safe_sqrt(x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))


def penalty(x, w):
    """Loss of a gradient: a second derivative."""
    inner = lambda x: jnp.sum(jnp.tanh(x @ w) * jax.nn.silu(x @ w))
    return jnp.sum(jnp.square(jax.grad(inner)(x)))


def window(x):
    return jnp.sum(jnp.sin(jnp.concatenate([x[:, 1:6:2], jnp.pad(x, ((0, 0), (1, 2)))], axis=1)) * 0.5)


def compositions():
    rng = np.random.default_rng(20240229)
    normal = lambda *shape: np.round(rng.normal(size=shape), 6)
    network = {"x": normal(4, 6), "w1": normal(6, 5), "b1": normal(5), "w2": normal(5, 3), "b2": normal(3),
               "labels": np.array([0, 2, 1, 1])}
    cases = {f"classifier_{name}": (classifier(UNARY[name]), network)
             for name in ["relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "log_sigmoid", "softsign"]}
    cases["layer_norm"] = (layer_norm, {"x": normal(3, 5), "scale": normal(5), "shift": normal(5)})
    cases["attention"] = (attention, {"q": normal(2, 3, 4), "k": normal(2, 5, 4), "v": normal(2, 5, 4)})
    cases["embedding"] = (embedding, {"table": normal(5, 3), "w": normal(3, 2), "rows": np.array([1, 3, 1, 0])})
    cases["broadcasting"] = (broadcasting, {"a": normal(3, 1, 2), "b": normal(4, 1), "c": normal(2)})
    cases["extremes_with_ties"] = (extremes, {"x": np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0], [1.0, -1.0, 0.0]])})
    cases["product_with_a_zero"] = (extremes, {"x": np.array([[0.0, 2.0, 4.0], [5.0, 3.0, 1.0]])})
    cases["product_with_two_zeros"] = (extremes, {"x": np.array([[0.0, 0.0, 4.0], [5.0, 3.0, 1.0]])})
    cases["masked_sqrt"] = (masked_sqrt, {"x": np.array([4.0, 0.0, 1.0])})
    cases["safe_sqrt"] = (safe_sqrt, {"x": np.array([4.0, 0.0, -1.0])})
    cases["gradient_penalty"] = (penalty, {"x": normal(3, 4), "w": normal(4, 2)})
    cases["window"] = (window, {"x": normal(2, 6)})
    written = {}
    for name, (loss, inputs) in cases.items():
        floats = [i for i, v in enumerate(inputs.values()) if v.dtype == np.float64]
        value, gradients = jax.value_and_grad(loss, argnums=floats)(*[jnp.array(v) for v in inputs.values()])
        names = list(inputs)
        written[name] = {
            "inputs": {n: {"shape": v.shape, "integer": v.dtype != np.float64, "values": numbers(v)}
                       for n, v in inputs.items()},
            "loss": number(value),
            "gradients": {names[i]: numbers(g) for i, g in zip(floats, gradients)},
        }
    return {"versions": VERSIONS, "cases": written}


for name, content in [("jax_elementwise", elementwise()), ("jax_compositions", compositions())]:
    text = json.dumps(content, indent=None, separators=(",", ":")).replace('},"', '},\n"')
    (DATA / f"{name}.json").write_text(text + "\n")
