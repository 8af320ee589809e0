"""Mutations of ONNX files: one or two differences that another exporter may legitimately produce."""

import copy

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

FAMILIES = (
    ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("Relu", "Tanh", "Sigmoid", "Erf", "Exp", "Neg", "Sqrt", "Reciprocal", "Abs", "Identity", "Softplus", "Sin"),
    ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"),
    ("LayerNormalization", "RMSNormalization"),
    ("Gelu", "Swish"),
)
UNARY = (*FAMILIES[2], "Softmax", "LogSoftmax", "Transpose", "ReduceMean", "Flatten", "Cast", "Dropout", "Gelu")


class Mutated:
    """A model and its mutations by a seed."""

    def __init__(self, model, seed):
        self.model, self.random = copy.deepcopy(model), np.random.default_rng(seed)
        self.graph = self.model.graph
        self.done = []
        kinds = ("attribute", "constant", "inputs", "rewired", "kind", "inserted", "removed", "version")
        shares = np.array([4, 5, 2, 2, 3, 3, 1, 0.5])
        for kind in self.random.choice(kinds, self.random.integers(1, 3), p=shares / shares.sum()):
            self.done.append(f"{kind}: {getattr(self, kind)()}")
        if not self.graph.output[0].name:
            self.done.append("nothing is left")

    def one(self, choices):
        choices = list(choices)
        return choices[self.random.integers(len(choices))]

    @property
    def opset(self):
        return next(one.version for one in self.model.opset_import if not one.domain)

    def attribute(self):
        """Set or remove an attribute of an operator."""
        node = self.one(self.graph.node)
        try:
            known = defs.get_schema(node.op_type, self.opset).attributes
        except Exception:
            return "no schema"
        if not known:
            return "no attribute"
        name = self.one(known)
        now = {own.name: helper.get_attribute_value(own) for own in node.attribute}.get(name)
        kept = [own for own in node.attribute if own.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        kind = known[name].type.name
        value = {
            "INT": lambda: int(self.one([0, 1, 2, 3, -1, -2, 10, 16])),
            "FLOAT": lambda: float(self.one([0.0, 0.5, 1.0, 2.0, 1.702, 1e-3, -1.0])),
            "STRING": lambda: self.one(["none", "tanh", "VALID", "SAME_UPPER", "constant", "other"]),
            "INTS": lambda: [int(own) for own in self.random.permutation(now if now else [0, 1, 2])],
            "FLOATS": lambda: [0.5],
        }.get(kind)
        if value is not None and self.random.random() < 0.8:
            node.attribute.append(helper.make_attribute(name, value()))
        return f"{node.op_type}.{name}"

    def constant(self):
        holders = [(own, own) for own in self.graph.initializer]
        holders += [
            (node, own.t)
            for node in self.graph.node
            for own in node.attribute
            if own.type == onnx.AttributeProto.TENSOR
        ]
        if not holders:
            return "none"
        _, tensor = self.one(holders)
        values = numpy_helper.to_array(tensor).copy()
        change = self.one(["twice", "zero", "negative", "turned", "one", "inf", "axis", "sign", "small", "shuffled"])
        flat = values.reshape(-1)
        if change == "axis":
            values = values[None]
        elif change == "turned" and values.ndim > 1:
            values = values.swapaxes(-1, -2).copy()
        elif change == "inf" and values.dtype.kind == "f" and flat.size:
            flat[self.random.integers(flat.size)] = self.one([np.inf, -np.inf, np.nan])
        elif change == "one" and flat.size:
            at = self.random.integers(flat.size)
            flat[at] = not flat[at] if values.dtype.kind == "b" else flat[at] + 1
        elif change == "shuffled":
            self.random.shuffle(flat)
        elif values.dtype.kind == "b":
            values = ~values
        else:
            factor = {"twice": 2, "zero": 0, "negative": -1, "small": 0.001 if values.dtype.kind == "f" else 1}
            with np.errstate(invalid="ignore", over="ignore"):
                values = (values * factor.get(change, -1)).astype(values.dtype)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        return change

    def inputs(self):
        """Permute a node's inputs."""
        several = [own for own in self.graph.node if len(own.input) > 1]
        if not several:
            return "none"
        node = self.one(several)
        order = [str(own) for own in self.random.permutation(list(node.input))]
        del node.input[:]
        node.input.extend(order)
        return node.op_type

    def rewired(self):
        """Connect a node to another earlier tensor."""
        at = int(self.random.integers(len(self.graph.node)))
        node = self.graph.node[at]
        before = [name for own in self.graph.node[:at] for name in own.output if name]
        if not before or not node.input:
            return "none"
        node.input[self.random.integers(len(node.input))] = self.one([*before[-6:], "x"])
        return node.op_type

    def kind(self):
        """Change a node's operator."""
        known = [(own, names) for own in self.graph.node for names in FAMILIES if own.op_type in names]
        if not known:
            return "none"
        node, names = self.one(known)
        was, node.op_type = node.op_type, self.one(names)
        return f"{was} {node.op_type}"

    def inserted(self):
        """Insert a function after a tensor."""
        at = int(self.random.integers(len(self.graph.node)))
        name, kind = self.graph.node[at].output[0], self.one([*UNARY, "Add", "Mul", "Sub", "Div", "Where", "Clip"])
        attributes = {"Cast": {"to": int(self.one([1, 10, 11, 7]))}, "Transpose": {}, "ReduceMean": {"keepdims": 1}}
        read = ["before"]
        if kind in ("Add", "Mul", "Sub", "Div"):
            value = self.one([0.0, 1.0, 0.5, -1.0])
            self.graph.initializer.append(numpy_helper.from_array(np.float32(value), "inserted"))
            read = [*read, "inserted"] if self.random.random() < 0.7 else ["inserted", *read]
        if kind == "Where":
            self.graph.initializer.append(numpy_helper.from_array(np.bool_(self.one([True, False])), "asked"))
            self.graph.initializer.append(numpy_helper.from_array(np.float32(self.one([0, -1e9])), "inserted"))
            read = ["asked", *read, "inserted"]
        if "before" in {own for node in self.graph.node for own in node.output}:
            return "is there"
        for own, output in enumerate(self.graph.node[at].output):
            if output == name:
                self.graph.node[at].output[own] = "before"
        self.graph.node.insert(at + 1, helper.make_node(kind, read, [name], "inserted", **attributes.get(kind, {})))
        return kind

    def removed(self):
        """Remove a node; its readers read its input."""
        node = self.one(self.graph.node)
        if not node.input or not node.input[0] or node.output[0] == self.graph.output[0].name:
            return "none"
        for other in self.graph.node:
            for at, name in enumerate(other.input):
                if name == node.output[0]:
                    other.input[at] = node.input[0]
        self.graph.node.remove(node)
        return node.op_type

    def version(self):
        """Change the opset version."""
        for own in self.model.opset_import:
            if not own.domain:
                own.version = int(self.one([9, 11, 12, 13, 14, 17, 18, 20, 21, 22, 23, 24]))
        return self.opset
