"""Random modules with attention in many forms, valid and invalid, as third parties write them."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional


def tril(count, below=0):
    """Mask, true where attention is allowed."""
    return torch.ones(count, count).tril(below) > 0


def written_gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


# mostly valid, with sampling weights
SCALES = {
    "root of the width": (8, lambda s, width: s / math.sqrt(width)),
    "product": (3, lambda s, width: s * width**-0.5),
    "none": (2, lambda s, width: s),
    "twice": (1, lambda s, width: s * 2 / 3),
    "negative": (1, lambda s, width: s * -0.5),
    "tokens": (1, lambda s, width: s / s.shape[-1]),
    "batch": (1, lambda s, width: s / s.shape[0]),
    "features": (1, lambda s, width: s * torch.linspace(0.5, 1, s.shape[-1])),
}
MASKS = {
    "none": (6, lambda s, m: s),
    "added": (3, lambda s, m: s + torch.zeros_like(m, dtype=s.dtype).masked_fill(~m, -torch.inf)),
    "added triangle": (2, lambda s, m: s + torch.triu(torch.full(m.shape, -torch.inf, dtype=s.dtype), 1)),
    "added -1e9": (2, lambda s, m: s + (1 - m.to(s.dtype)) * -1e9),
    "subtracted": (2, lambda s, m: s - (1 - m.to(s.dtype)) * 1e9),
    "filled": (3, lambda s, m: s.masked_fill(~m, -torch.inf)),
    "filled -1e9": (2, lambda s, m: s.masked_fill(~m, -1e9)),
    "filled -1e4": (1, lambda s, m: s.masked_fill(~m, -1e4)),
    "filled -100": (1, lambda s, m: s.masked_fill(~m, -100.0)),
    "filled 0": (2, lambda s, m: s.masked_fill(~m, 0)),
    "where": (2, lambda s, m: torch.where(m, s, torch.tensor(-1e9, dtype=s.dtype))),
    "where not": (2, lambda s, m: torch.where(~m, torch.finfo(s.dtype).min, s)),
    "where 0": (2, lambda s, m: torch.where(m, s, torch.zeros((), dtype=s.dtype))),
    "product": (1, lambda s, m: s * m),
    "added 0": (1, lambda s, m: s + torch.zeros(m.shape, dtype=s.dtype)),
    "filled nowhere": (1, lambda s, m: s.masked_fill(m & ~m, 0)),
    "by sample": (1, lambda s, m: s.masked_fill(~m, -1e9).masked_fill(torch.ones(len(s), 1, 1, 1) < 0, -1e9)),
    "by size of the batch": (1, lambda s, m: s.masked_fill(~m & torch.tensor(len(s) > 2), -1e9)),
    "diagonal": (1, lambda s, m: s.masked_fill(torch.eye(s.shape[-1]) > 0, -1e9)),
    "window": (1, lambda s, m: s.masked_fill(~m | tril(len(m), -2), -1e9)),
    "padding": (1, lambda s, m: s.masked_fill(torch.arange(s.shape[-1]) > 3, -1e9)),
    "slopes": (1, lambda s, m: s + torch.arange(s.shape[-1]).to(s.dtype)),
    "heads": (1, lambda s, m: s + torch.arange(s.shape[1]).to(s.dtype)[:, None, None]),
    "later alone": (1, lambda s, m: s.masked_fill(m, -1e9)),
    "transposed": (1, lambda s, m: s.masked_fill(~m.mT, -1e9)),
    "two masks": (1, lambda s, m: s.masked_fill(~m, -1e9).masked_fill(~m, -torch.inf)),
    "rows": (1, lambda s, m: s[:, :, :3] + m[:3].to(s.dtype)),
    "twice added": (1, lambda s, m: (s + (1 - m.to(s.dtype)) * -6e3) + (1 - m.to(s.dtype)) * -6e3),
}
WEIGHTS = {
    "softmax": (12, lambda s: s.softmax(-1)),
    "function": (4, lambda s: functional.softmax(s, dim=3)),
    "float32": (2, lambda s: functional.softmax(s, dim=-1, dtype=torch.float64).to(s.dtype)),
    "dropout": (3, lambda s: functional.dropout(s.softmax(-1), 0.1, False)),
    "over queries": (1, lambda s: s.softmax(-2)),
    "over heads": (1, lambda s: s.softmax(1)),
    "over samples": (1, lambda s: s.softmax(0)),
    "logarithm": (2, lambda s: functional.log_softmax(s, -1)),
    "softmax of softmax": (1, lambda s: s.softmax(-1).softmax(-1)),
    "sigmoid": (1, torch.sigmoid),
    "relu": (1, torch.relu),
    "exponential": (1, lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
    "largest subtracted": (1, lambda s: (s - s.amax(-1, keepdim=True)).softmax(-1)),
    "times 2": (1, lambda s: s.softmax(-1) * 2),
    "masked behind": (1, lambda s: s.softmax(-1).masked_fill(~tril(s.shape[-1]), 0)),
    "plus 0": (1, lambda s: s.softmax(-1) + 0.0),
    "softmin": (1, lambda s: functional.softmin(s, -1)),
    "short": (1, lambda s: s.softmax(-1, dtype=torch.bfloat16).to(s.dtype)),
    "twice": (1, lambda s: (2 * s).softmax(-1)),
}
ACTIVATIONS = {
    "gelu": (3, functional.gelu),
    "gelu tanh": (3, lambda x: functional.gelu(x, approximate="tanh")),
    "erf": (2, lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))),
    "erf last": (2, lambda x: 0.5 * (x * (1 + torch.erf(x * 0.7071067811865475)))),
    "erf apart": (1, lambda x: 0.5 * x + 0.5 * x * torch.erf(x / 1.4142135623730951)),
    "new gelu": (2, written_gelu),
    "fast gelu": (2, lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))),
    "quick gelu": (1, lambda x: x * torch.sigmoid(1.702 * x)),
    "near gelu": (1, lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3)))),
    "cube twice": (1, lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))),
    "silu": (2, functional.silu),
    "x sigmoid": (2, lambda x: torch.sigmoid(x) * x),
    "x over exp": (1, lambda x: x / (1 + torch.exp(-x))),
    "relu": (2, torch.relu),
    "relu squared": (2, lambda x: functional.relu(x).square()),
    "relu relu": (1, lambda x: torch.relu(x) * torch.relu(x)),
    "relu pow": (1, lambda x: torch.relu(x).pow(2)),
    "relu cubed": (1, lambda x: torch.relu(x) ** 3),
    "half of relu": (1, lambda x: 0.5 * torch.relu(x)),
    "square": (1, lambda x: x * x),
    "tanh": (1, torch.tanh),
    "elu": (1, functional.elu),
    "relu6": (1, functional.relu6),
    "leaky": (1, lambda x: functional.leaky_relu(x, 0.1)),
    "hardswish": (1, functional.hardswish),
    "mish": (1, functional.mish),
    "softplus": (1, lambda x: functional.softplus(x, beta=2)),
    "absolute": (1, torch.abs),
    "gate": (2, lambda x: functional.silu(x) * (x + 0)),
    "glu": (1, lambda x: torch.cat([functional.glu(x, -1)] * 2, -1)),
    "halves": (1, lambda x: torch.cat([x[..., : x.shape[-1] // 2].relu(), x[..., x.shape[-1] // 2 :]], -1)),
    "none": (1, lambda x: x),
}
RESIDUALS = {
    "sum": (10, lambda x, y: x + y),
    "turned": (3, lambda x, y: y + x),
    "half": (2, lambda x, y: x + 0.5 * y),
    "alpha": (1, lambda x, y: torch.add(x, y, alpha=0.5)),
    "half of x": (1, lambda x, y: 0.5 * x + y),
    "difference": (1, lambda x, y: x - y),
    "turned difference": (1, lambda x, y: y - x),
    "none": (1, lambda x, y: y),
    "product": (1, lambda x, y: x * y),
    "mean": (1, lambda x, y: (x + y) / 2),
    "twice": (1, lambda x, y: x + y + y),
    "by batch": (1, lambda x, y: x + y / len(y)),
    "other sample": (1, lambda x, y: x + y.roll(1, 0)),
    "other token": (1, lambda x, y: x + y.roll(1, 1)),
    "other feature": (1, lambda x, y: x + y.flip(-1)),
    "first token": (1, lambda x, y: x + y[:, :1]),
    "dropped": (1, lambda x, y: x + functional.dropout(y, 0.3, False)),
    "number": (1, lambda x, y: x + y + 0.25),
    "cast": (1, lambda x, y: x.to(y.dtype) + y.contiguous()),
}
POOLS = {
    "last": (3, lambda x: x[:, -1]),
    "first": (3, lambda x: x[:, 0]),
    "mean": (3, lambda x: x.mean(1)),
    "mean kept": (1, lambda x: x.mean(dim=1, keepdim=True).squeeze(1)),
    "pooled": (1, lambda x: functional.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1)),
    "sum": (1, lambda x: x.sum(1) / x.shape[1]),
    "middle": (1, lambda x: x[:, 2]),
    "largest": (1, lambda x: x.amax(1)),
    "features": (1, lambda x: x.mean(-1)),
    "all": (2, lambda x: x),
    "flat": (1, lambda x: x.flatten(1)),
    "unit": (1, lambda x: functional.normalize(x.mean(1), dim=-1)),
    "unit over tokens": (1, lambda x: functional.normalize(x, dim=1)[:, 0]),
    "last two": (1, lambda x: x[:, -2:].mean(1)),
    "tokens by batch": (1, lambda x: x[:, len(x) % x.shape[1]]),
}
ENDS = {
    "nothing": (8, lambda x: x),
    "softmax": (2, lambda x: x.softmax(-1)),
    "log_softmax": (2, lambda x: functional.log_softmax(x, -1)),
    "sigmoid": (1, torch.sigmoid),
    "factor": (1, lambda x: 2 * x),
    "batch": (1, lambda x: x * len(x)),
    "over samples": (1, lambda x: x.softmax(0)),
    "turned": (1, lambda x: x.flip(-1)),
}
CHOICES = {
    # tokens, heads and features per head
    "sizes": {
        (5, 2, 4): 12,
        (5, 1, 8): 1,
        (3, 4, 2): 1,
        (2, 2, 4): 1,
        (1, 2, 4): 1,
        (2, 2, 2): 1,
        (3, 4, 1): 1,
        (2, 1, 1): 1,
    },
    "samples": dict.fromkeys(("rows", "rows", "images", "patches"), 1),
    "positions": {"none": 3, "parameter": 3, "embedding": 2, "waves": 2, "by sample": 1, "by batch": 1},
    "token": {"none": 4, "first": 2, "last": 1, "two": 1},
    "norm": {"layer": 5, "rms": 2, "own rms": 2, "own layer": 2, "none": 1, "group": 1, "batch": 1, "plain": 1},
    "own eps": {"inside": 4, "none": 1, "outside": 1, "square root": 2, "power": 2, "deviation": 1},
    "place": {"before": 4, "behind": 3, "both": 1, "parallel": 1},
    "way": dict.fromkeys(("fused", "parts", "sdpa", "einsum", "module", "folded", "encoder"), 1)
    | {"sdpa": 2, "parts": 3, "fused": 2},
    "split": {"heads": 10, "interleaved": 1, "tokens": 1},
    "keys": {"all": 6, "grouped": 2, "repeated": 1, "one": 1},
    "turned": {"yes": 10, "no": 1, "values": 1},
    "norm of heads": {"none": 12, "layer": 1, "rms": 1},
    "scaled": {"scores": 5, "queries": 2, "both": 1},
    "causal flag": {"no": 3, "yes": 2, "mask": 1, "float mask": 1, "scale": 1},
    "layer scale": {"none": 5, "features": 2, "number": 1, "scalar": 1},
    "head": {"linear": 5, "none": 2, "without bias": 2, "two": 1},
    "rotary": {"none": 12, "rotary": 1},
}


class _Own(nn.Module):
    """Norm in elementary operators."""

    def __init__(self, features, centred, eps):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.centred, self.eps = centred, eps

    def forward(self, x):
        if self.centred:
            x = x - x.mean(-1, keepdim=True)
        if self.eps == "deviation":
            return x / (x.std(-1, keepdim=True) + 1e-5) * self.weight + self.bias
        square = x.pow(2).mean(-1, keepdim=True) if self.eps != "power" else (x * x).mean(dim=2, keepdim=True)
        if self.eps == "none":
            return x * torch.rsqrt(square) * self.weight
        if self.eps == "outside":
            return x / (torch.sqrt(square) + 1e-5) * self.weight + self.bias
        if self.eps == "square root":
            return self.weight * (x / torch.sqrt(square + 1e-5)) + self.bias
        return self.weight * (x * torch.pow(square + 1e-5, -0.5)) + self.bias


class _Tokens(nn.Module):
    """Norm over another axis."""

    def forward(self, x):
        mean, variance = torch.zeros(x.shape[2]), torch.ones(x.shape[2])
        return functional.batch_norm(x.transpose(1, 2), mean, variance).transpose(1, 2)


class Attention(nn.Module):
    """Attention according to the choices."""

    def __init__(self, chosen, tokens):
        super().__init__()
        self.chosen, self.tokens = chosen, tokens
        _, self.heads, self.width = chosen["sizes"]
        self.features = self.heads * self.width
        self.keys = {"all": self.heads, "grouped": 1, "repeated": 1, "one": 1}[chosen["keys"]]
        sizes = (self.features, self.keys * self.width, self.keys * self.width)
        if chosen["way"] == "module":
            self.inner = nn.MultiheadAttention(self.features, self.heads, batch_first=True)
        elif chosen["way"] in ("fused", "folded"):
            self.qkv = nn.Linear(self.features, sum(sizes))
        else:
            self.q, self.k, self.v = (nn.Linear(self.features, size) for size in sizes)
        norms = {"none": nn.Identity, "layer": lambda: nn.LayerNorm(self.width), "rms": lambda: nn.RMSNorm(self.width)}
        self.norm = norms[chosen["norm of heads"]]()
        self.output = nn.Linear(self.features, self.features)
        self.sizes = sizes

    def parts(self, x):
        count = x.shape[0]
        if hasattr(self, "qkv"):
            parts = self.qkv(x).split(self.sizes, dim=-1)
        else:
            parts = [one(x) for one in (self.q, self.k, self.v)]
        found = []
        for part in parts:
            number = part.shape[-1] // self.width
            if self.chosen["split"] == "interleaved":
                found.append(part.view(count, self.tokens, self.width, number).permute(0, 3, 1, 2))
            elif self.chosen["split"] == "tokens":
                found.append(part.reshape(count, number, self.tokens, self.width))
            else:
                found.append(part.view(count, self.tokens, number, self.width).transpose(1, 2))
        q, k, v = self.norm(found[0]), self.norm(found[1]), found[2]
        if self.chosen["rotary"] == "rotary":
            q, k = (torch.cat([-one[..., self.width // 2 :], one[..., : self.width // 2]], -1) + one for one in (q, k))
        if self.keys < self.heads:
            repeats = self.heads // self.keys
            k, v = {
                "grouped": lambda: (one.repeat_interleave(repeats, 1) for one in (k, v)),
                "repeated": lambda: (one.repeat(1, repeats, 1, 1) for one in (k, v)),
                "one": lambda: (k, v),
            }[self.chosen["keys"]]()
        return q, k, v

    def forward(self, x):
        seen, flag = tril(self.tokens), self.chosen["causal flag"]
        if self.chosen["way"] == "module":
            mask = {"attn_mask": ~seen} if flag != "no" else {}
            return self.inner(x, x, x, need_weights=flag == "mask", **mask)[0]
        q, k, v = self.parts(x)
        if self.chosen["way"] == "sdpa":
            given = {
                "no": {},
                "yes": {"is_causal": True},
                "mask": {"attn_mask": seen},
                "float mask": {"attn_mask": torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, -torch.inf)},
                "scale": {"scale": 0.4},
            }[flag]
            if self.chosen["keys"] == "one":
                k, v = k.expand_as(q), v.expand_as(q)
            mixed = functional.scaled_dot_product_attention(q, k, v, **given)
        else:
            mixed = self.mixed(q, k, v, seen)
        if self.chosen["turned"] == "no":
            return self.output(mixed.reshape(x.shape[0], self.tokens, self.features))
        return self.output(mixed.transpose(1, 2).reshape(x.shape[0], -1, self.features))

    def mixed(self, q, k, v, seen):
        scale, mask, weights = (self.chosen[one] for one in ("scale", "mask", "weights"))
        if self.chosen["scaled"] == "queries":
            q = (
                SCALES[scale][1](q, self.width)
                if scale in ("root of the width", "product", "none", "twice", "negative")
                else q
            )
        if self.chosen["scaled"] == "both":
            q, k = q * self.width**-0.25, k * self.width**-0.25
        if self.chosen["way"] == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k.expand_as(q))
        elif self.chosen["way"] == "folded" and k.shape == q.shape:
            scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)).view(*q.shape[:3], -1)
        else:
            scores = torch.matmul(q, k.transpose(-2, -1))
        if self.chosen["scaled"] == "scores":
            scores = SCALES[scale][1](scores, self.width)
        found = WEIGHTS[weights][1](MASKS[mask][1](scores, seen))
        if self.chosen["turned"] == "values":
            found = found.transpose(-2, -1)
        if self.chosen["way"] == "einsum":
            return torch.einsum("bhqk,bhkd->bhqd", found, v.expand(-1, self.heads, -1, -1))
        return found @ v


class Network(nn.Module):
    """Samples, positions, blocks, pool and head according to the choices of a seed."""

    def __init__(self, chosen):
        super().__init__()
        self.chosen = chosen
        rows, heads, width = chosen["sizes"]
        features = heads * width
        images = chosen["samples"] != "rows"
        self.shape = (1, 4, 4) if images else (rows, 6)
        self.embed = nn.Conv2d(1, features, 2, 2) if chosen["samples"] == "images" else None
        if not images or self.embed is None:
            self.embed = nn.Linear(4 if images else 6, features)
        more = {"none": 0, "first": 1, "last": 1, "two": 2}[chosen["token"]]
        self.tokens = (4 if images else rows) + more
        self.token = nn.Parameter(torch.zeros(1, max(1, more), features))
        self.position = nn.Parameter(torch.zeros(1, self.tokens, features))
        self.embedding = nn.Embedding(self.tokens, features)
        norms = {
            "layer": lambda: nn.LayerNorm(features, eps=1e-6),
            "rms": lambda: nn.RMSNorm(features),
            "own rms": lambda: _Own(features, False, chosen["own eps"]),
            "own layer": lambda: _Own(features, True, chosen["own eps"]),
            "none": nn.Identity,
            "group": lambda: nn.GroupNorm(1, self.tokens),
            "batch": _Tokens,
            "plain": lambda: nn.LayerNorm(features, elementwise_affine=False),
        }
        self.norm1, self.norm2, self.norm3 = (norms[chosen["norm"]]() for _ in range(3))
        if chosen["way"] == "encoder":
            layer = nn.TransformerEncoderLayer(
                features,
                heads,
                12,
                activation=functional.gelu if chosen["keys"] == "all" else "relu",
                batch_first=True,
                norm_first=chosen["place"] == "before",
            )
            self.attention = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        else:
            self.attention = Attention(chosen, self.tokens)
        self.up, self.down = nn.Linear(features, 12), nn.Linear(12, features)
        self.scale = nn.Parameter(torch.ones(features if chosen["layer scale"] == "features" else 1))
        self.head = {
            "linear": lambda: nn.Linear(features, 3),
            "none": nn.Identity,
            "without bias": lambda: nn.Linear(features, 3, bias=False),
            "two": lambda: nn.Sequential(nn.Linear(features, 6), nn.ReLU(), nn.Linear(6, 3)),
        }[chosen["head"]]()

    def rows(self, x):
        if self.chosen["samples"] == "images":
            x = self.embed(x).flatten(2).transpose(1, 2)
        elif self.chosen["samples"] == "patches":
            x = self.embed(x.reshape(-1, 2, 2, 2, 2).permute(0, 1, 3, 2, 4).reshape(x.shape[0], 4, 4))
        else:
            x = self.embed(x)
        token = self.token.expand(x.shape[0], -1, -1)
        match self.chosen["token"]:
            case "first" | "two":
                x = torch.cat((token, x), dim=1)
            case "last":
                x = torch.cat((x, token), dim=1)
        places = torch.arange(self.tokens)
        waves = torch.sin(places[:, None] / 10 ** torch.linspace(0, 2, x.shape[2])).to(x.dtype)
        return {
            "none": lambda: x,
            "parameter": lambda: x + self.position,
            "embedding": lambda: x + self.embedding(places),
            "waves": lambda: x + waves,
            "by sample": lambda: x + torch.arange(x.shape[0])[:, None, None] / 8,
            "by batch": lambda: x + self.position[:, x.shape[0] % self.tokens],
        }[self.chosen["positions"]]()

    def attended(self, x):
        if self.chosen["way"] == "encoder":
            flag = self.chosen["causal flag"]
            mask = nn.Transformer.generate_square_subsequent_mask(self.tokens, dtype=x.dtype)
            return self.attention(
                x, **({} if flag == "no" else {"mask": ~tril(self.tokens) if flag == "mask" else mask})
            )
        return self.attention(x)

    def fed(self, x):
        return self.down(ACTIVATIONS[self.chosen["activation"]][1](self.up(x)))

    def scaled(self, x):
        kind = self.chosen["layer scale"]
        return x if kind == "none" else 0.5 * x if kind == "number" else self.scale * x

    def forward(self, x):
        x = self.rows(x)
        plus = RESIDUALS[self.chosen["residual"]][1]
        match self.chosen["place"]:
            case "before":
                x = plus(x, self.scaled(self.attended(self.norm1(x))))
                x = self.norm3(plus(x, self.scaled(self.fed(self.norm2(x)))))
            case "behind":
                x = self.norm1(plus(x, self.scaled(self.attended(x))))
                x = self.norm2(plus(x, self.scaled(self.fed(x))))
            case "both":
                x = self.norm1(plus(x, self.norm2(self.attended(x))))
                x = self.norm3(plus(x, self.fed(x)))
            case "parallel":
                own = self.norm1(x)
                x = self.norm2(plus(x, self.attended(own) + self.fed(own)))
        x = self.head(POOLS[self.chosen["pool"]][1](x))
        return ENDS[self.chosen["end"]][1](x)


TABLES = {
    "scale": SCALES,
    "mask": MASKS,
    "weights": WEIGHTS,
    "activation": ACTIVATIONS,
    "residual": RESIDUALS,
    "pool": POOLS,
    "end": ENDS,
}


def drawn(seed):
    """Random network: two choices from all forms, the others from the usual forms."""
    random = np.random.default_rng(seed)

    def one(counts):
        names, shares = list(counts), np.array(list(counts.values()), float)
        return names[random.choice(len(names), p=shares / shares.sum())]

    weights = CHOICES | {name: {own: share for own, (share, _) in table.items()} for name, table in TABLES.items()}
    usual = {name: max(counts.values()) for name, counts in weights.items()}
    rare = {str(random.choice(sorted(TABLES))), str(random.choice(sorted(weights)))}
    chosen = {
        name: one(counts if name in rare else {own: share for own, share in counts.items() if 2 * share >= usual[name]})
        for name, counts in weights.items()
    }
    torch.manual_seed(seed)
    network = Network(chosen)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += torch.randn_like(parameter) * 0.2
    return network.eval()
