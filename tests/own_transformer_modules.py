"""PyTorch transformers as users write them: several forms of attention, vision transformers, encoders."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fabtune.golden.transformer.float_model import run_float

WAYS = ("fused", "split", "einsum", "sdpa", "module", "module with weights", "grouped", "thirds")
"""Forms of attention."""


class Attention(nn.Module):
    """Attention with 4 heads in one of `WAYS`, causal or not."""

    def __init__(self, features=16, way="fused", causal=False, bias=True):
        super().__init__()
        self.way, self.causal, self.width = way, causal, features // 4
        if way.startswith("module"):
            self.inner = nn.MultiheadAttention(features, 4, bias=bias, batch_first=True)
            return
        keys = features // 2 if way == "grouped" else features
        if way in ("fused", "thirds"):
            self.qkv = nn.Linear(features, 3 * features, bias=bias)
        else:
            self.q, self.k, self.v = (nn.Linear(features, size, bias=bias) for size in (features, keys, keys))
        self.output = nn.Linear(features, features)

    def heads(self, x):
        """Queries, keys and values, (batch, heads, tokens, width) each."""
        count, tokens, _ = x.shape
        if self.way == "fused":
            return self.qkv(x).reshape(count, tokens, 3, 4, self.width).permute(2, 0, 3, 1, 4).unbind(0)
        if self.way == "thirds":
            # queries, keys and values of a head are adjacent
            return self.qkv(x).view(count, tokens, 4, 3 * self.width).transpose(1, 2).chunk(3, dim=-1)
        found = [one(x).view(count, tokens, -1, self.width).transpose(1, 2) for one in (self.q, self.k, self.v)]
        if self.way == "grouped":
            found[1:] = [one[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for one in found[1:]]
        return found

    def forward(self, x):
        tokens = x.shape[1]
        hidden = torch.triu(torch.full((tokens, tokens), -torch.inf, dtype=x.dtype), 1)
        if self.way.startswith("module"):
            weights = self.way == "module with weights"
            mask = {"attn_mask": hidden, "is_causal": not weights} if self.causal else {}
            return self.inner(x, x, x, need_weights=weights, **mask)[0]
        q, k, v = self.heads(x)
        if self.way == "sdpa":
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.way == "einsum":
            scores = torch.einsum("bhnd,bhmd->bhnm", q, k) * self.width**-0.5
            weights = torch.softmax(scores + hidden if self.causal else scores, dim=-1)
            mixed = torch.einsum("bhnm,bhmd->bhnd", weights, v)
        else:
            scores = (q / math.sqrt(self.width)) @ k.transpose(-2, -1)
            if self.causal:
                scores = scores.masked_fill(hidden < 0, -1e9)
            mixed = functional.dropout(scores.softmax(-1), 0.1, self.training) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    """Two layers with an activation between, or gated."""

    def __init__(self, features=16, kind="gelu"):
        super().__init__()
        self.kind = kind
        self.up = nn.Linear(features, 48 if kind == "gate" else 24)
        self.down = nn.Linear(24, features)

    def forward(self, x):
        x = self.up(x)
        if self.kind == "gate":
            gate, x = x.chunk(2, dim=-1)
            return self.down(functional.silu(gate) * x)
        functions = {
            "gelu": functional.gelu,
            "tanh": lambda one: functional.gelu(one, approximate="tanh"),
            "relu": torch.relu,
            "squared": lambda one: torch.relu(one) ** 2,
            "erf": lambda one: 0.5 * one * (1 + torch.erf(one / math.sqrt(2))),
            "silu": lambda one: one * torch.sigmoid(one),
        }
        return self.down(functions[self.kind](x))


class RootMeanSquare(nn.Module):
    """RMS norm in elementary operators."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Centred(nn.Module):
    """Layer norm in elementary operators."""

    def __init__(self, features):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        away = x - x.mean(-1, keepdim=True)
        return self.weight * (away / torch.sqrt(away.pow(2).mean(-1, keepdim=True) + 1e-6)) + self.bias


NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "own rms": RootMeanSquare, "own layer": Centred}


class Block(nn.Module):
    """Attention and feed-forward network with residuals, norms before or after, optional layer scale."""

    def __init__(self, features=16, way="fused", causal=False, kind="gelu", norm="layer", before=True, scaled=False):
        super().__init__()
        self.attention, self.ffn = Attention(features, way, causal), FeedForward(features, kind)
        self.norm1, self.norm2 = NORMS[norm](features), NORMS[norm](features)
        self.before = before
        self.scale = nn.Parameter(torch.full((features,), 0.7)) if scaled else None

    def forward(self, x):
        if self.before:
            x = x + self.scaled(self.attention(self.norm1(x)))
            return x + self.scaled(self.ffn(self.norm2(x)))
        x = self.norm1(x + self.scaled(self.attention(x)))
        return self.norm2(x + self.scaled(self.ffn(x)))

    def scaled(self, x):
        return x if self.scale is None else x * self.scale


class Vision(nn.Module):
    """Vision transformer: patches by convolution or reshaping, class token, positions, blocks, pooling, head."""

    def __init__(self, block, features=16, patches="convolution", token="first", pooling="first"):
        super().__init__()
        self.patches, self.pooling, self.token = patches, pooling, token
        self.embed = nn.Conv2d(2, features, 4, 4) if patches == "convolution" else nn.Linear(32, features)
        self.cls = nn.Parameter(torch.randn(1, 1, features))
        self.positions = nn.Parameter(torch.randn(1, 4 + (token != "none"), features))
        self.block, self.norm, self.head = block, nn.LayerNorm(features), nn.Linear(features, 5)

    def forward(self, x):
        count = x.shape[0]
        if self.patches == "convolution":
            x = self.embed(x).flatten(2).transpose(1, 2)
        else:
            x = self.embed(x.reshape(count, 2, 2, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(count, 4, 32))
        own = self.cls.expand(count, -1, -1)
        if self.token != "none":
            x = torch.cat([own, x] if self.token == "first" else [x, own], dim=1)
        x = self.norm(self.block(x + self.positions))
        x = {"first": lambda: x[:, 0], "last": lambda: x[:, -1], "mean": lambda: x.mean(dim=1)}[self.pooling]()
        return self.head(functional.normalize(x, dim=-1) if self.pooling == "mean" else x)


class Rows(nn.Module):
    """Classifier of rows: learned positions, blocks, and a head on the last token."""

    def __init__(self, block):
        super().__init__()
        self.positions, self.block, self.head = nn.Embedding(5, 16), block, nn.Linear(16, 3, bias=False)

    def forward(self, x):
        x = self.block(x + self.positions(torch.arange(x.shape[1])))
        return torch.softmax(self.head(x[:, -1]), dim=1)


def outputs_of(found, samples):
    """NumPy outputs of an imported transformer; a row per sample or token."""
    network, parameters = found.builder.finish()
    flat = np.pad(samples.reshape(len(samples), -1).astype(np.float64), ((0, 0), (0, 1)))
    rows = flat[:, found.places].reshape(-1, network.features)
    outputs = torch.from_numpy(run_float(network, parameters, rows, (len(found.places),) * len(samples))[-1])
    return (getattr(torch, found.left_to_host)(outputs, -1) if found.left_to_host else outputs).numpy()
