"""Signals that components expose to rules: values and states by name, and an error that lists the names."""

import pytest
from amaranth.hdl import Fragment, Module, Signal, Value
from amaranth.lib import wiring

from fabtune.hw.primitives.ready_fifo import ReadyFifo
from fabtune.hw.probe import probe
from fabtune.sim.formal.inside import probe_of


class Toggle(wiring.Component):
    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        count = Signal(2)
        with m.FSM() as fsm:
            with m.State("EVEN"):
                m.next = "ODD"
            with m.State("ODD"):
                m.next = "EVEN"
        probe(self, fsm)
        probe(self, count=count, other=count + 1)
        return m


def inside_of(component):
    inside = probe_of(component)
    Fragment.get(component, None)  # Amaranth warns of what is not used
    return inside


def test_values_and_states_are_shown_by_name():
    inside = inside_of(Toggle())
    assert len(inside.count) == 2
    assert len(inside.other) == 3
    assert isinstance(inside.state("ODD"), Value)


@pytest.mark.parametrize("name", ["counts", "fsm"])
def test_a_value_that_is_not_shown_is_named_with_its_component(name):
    with pytest.raises(AttributeError, match=f"Toggle shows no value '{name}', but count, other"):
        getattr(inside_of(Toggle()), name)


def test_a_state_that_there_is_not_is_named_with_its_component():
    with pytest.raises(AttributeError, match="Toggle shows no state 'odd', but EVEN, ODD"):
        inside_of(Toggle()).state("odd")
    with pytest.raises(AttributeError, match="ReadyFifo shows no state 'ODD', but none"):
        inside_of(ReadyFifo(1, 2)).state("ODD")
