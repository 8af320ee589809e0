"""Networks defined by sizes only, for tests of schedules, programs and costs."""

from fabtune.golden.importers.transformers.language_models.shapes import PUBLISHED, shapes_of
from fabtune.golden.transformer.blocks import Activation, Linear, Transformer


def encoder(name, classes):
    """A published encoder with mean pooling and a head."""
    found = shapes_of(PUBLISHED[name], name)
    made = found.builder
    made.add("head", Linear(classes), made.unit_length("unit", made.pool("mean", found.last, "mean")))
    return made.network()


def decoder(name, classes=2):
    """A published decoder with classification of the last token."""
    found = shapes_of(PUBLISHED[name], name)
    found.builder.add("head", Linear(classes, bias=False), found.builder.pool("last", found.last, "last"))
    return found.builder.network()


def connected(*sizes):
    """Fully connected layers with ReLU."""
    operations = [one for size in sizes[1:-1] for one in (Linear(size), Activation("relu"))] + [Linear(sizes[-1])]
    reads = tuple((number - 1,) for number in range(len(operations)))
    return Transformer("mlp", sizes[0], tuple(operations), reads, tuple(f"layer {n}" for n in range(len(operations))))
