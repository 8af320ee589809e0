"""Play what is around a component in Amaranth's simulator: give it words, take what it makes, answer its reads.

A test names ports by their path and says what happens at them; one call simulates it::

    seen = play_interface(Fifo(8, 4), give={"i": [1, 2, 3]}, take={"o": 3}, stall=0.5)
    assert seen.words("o") == [1, 2, 3]

Where things happen one after the other, a body says so::

    async def body(bench):
        for job in jobs:
            await bench.pulse("start", address=job.address)
            await bench.give("i", job.words)
            await bench.until("empty")

    seen = play_interface(dut, take={"o": None}, watch={"done": None}, body=body, stall=0.5)
    assert seen.words("o") == expected

`simulate` runs benches that need more than this. `Memory` is a memory behind read and write ports.
"""

import numpy as np
from amaranth.lib import data
from amaranth.sim import Simulator

LIMIT = 20_000
"""Cycles after which a bench fails."""
PERIOD = 1e-8
"""Seconds of a cycle; no result depends on it."""
BEAT = 16
"""Bytes of a beat."""


def simulate(dut, *benches, background=(), limit=LIMIT):
    """Simulate a design until every bench has returned; those in the background need not, and come first in a cycle.

    Parameters
    ----------
    dut : Elaboratable
        With a clock where it has a domain.
    benches, background : coroutine functions of (ctx)
    limit : int
        Most cycles.
    """
    simulator = Simulator(dut)
    simulator.add_clock(PERIOD, if_exists=True)

    async def end(ctx):
        await ctx.delay(limit * PERIOD)
        raise AssertionError(f"not over after {limit} cycles")

    for bench in (*background, end):
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


def plain(value):
    """A sampled value as an integer, or as a dictionary or list of its fields."""
    if not isinstance(value, data.Const):
        return value
    layout = value.shape()
    if isinstance(layout, data.ArrayLayout):
        return [plain(value[at]) for at in range(layout.length)]
    return {name: plain(value[name]) for name, _ in layout}


def settable(value):
    """A value as the simulator sets it: NumPy's numbers as those of Python."""
    if isinstance(value, dict):
        return {name: settable(item) for name, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def port_of(dut, path):
    """The port or interface of a component at a path such as ``write.command``."""
    for name in path.split("."):
        dut = getattr(dut, name)
    return dut


def beside(path, name):
    """The path of a port in the same interface as another one."""
    return ".".join((*path.split(".")[:-1], name))


def near(dut, path, name):
    """The port of that name in the same interface as another one, or else of the component."""
    interface = port_of(dut, path.rpartition(".")[0]) if "." in path else dut
    return getattr(interface, name) if hasattr(interface, name) else port_of(dut, name)


def beats_of(image):
    """Beats of an image of bytes."""
    given = np.ascontiguousarray(image).tobytes()
    return [int.from_bytes(given[at : at + BEAT], "little") for at in range(0, len(given), BEAT)]


class Monitor:
    """Check the rule of streams at each clock edge: valid and payload are held until ready."""

    def __init__(self, name):
        self.name, self.offered = name, None

    def transfer(self, valid, ready, payload):
        """Whether the payload is transferred."""
        if self.offered is not None:
            assert valid, f"{self.name}: valid was retracted"
            assert payload == self.offered, f"{self.name}: the payload changed before ready"
        self.offered = payload if valid and not ready else None
        return bool(valid and ready)


class Seen(dict):
    """What came by at each path that was played, a list of (cycle, word); `cycle` is the one that ended last."""

    def __init__(self, names):
        super().__init__({name: [] for name in names})
        self.cycle, self.told = 0, {}

    def words(self, name):
        """Words alone, in their order."""
        return [word for _, word in self[name]]

    def cycles(self, name):
        """Cycles alone, in their order."""
        return [cycle for cycle, _ in self[name]]

    def both(self, name, other):
        """Words in the cycles in which something came by at another path, too."""
        cycles = set(self.cycles(other))
        return [word for cycle, word in self[name] if cycle in cycles]

    def before(self, name, cycle):
        """Number of words before a cycle."""
        return sum(at < cycle for at in self.cycles(name))

    def fresh(self, name):
        """Words since the last call."""
        before = self.told.get(name, 0)
        self.told[name] = len(self[name])
        return self.words(name)[before:]


class Bench:
    """Hands of a body: it sets, pulses and reads ports by their paths.

    Attributes
    ----------
    ctx : SimulatorContext
    dut : Component
    seen : Seen
        What came by until now.
    rng : numpy.random.Generator
        Of the gaps in what the body gives and takes.
    """

    def __init__(self, dut, seen, stall, seed, number=0):
        self.ctx, self.dut, self.seen, self.stall, self.seed = None, dut, seen, stall, seed
        self.rng = np.random.default_rng([seed, 2000 + number])

    @property
    def cycle(self):
        """The cycle that ended last."""
        return self.seen.cycle

    def set(self, values=None, **more):
        """Set ports, by path."""
        for path, value in ((values or {}) | more).items():
            self.ctx.set(port_of(self.dut, path), settable(value))

    def get(self, path):
        """Value of a port."""
        return plain(self.ctx.get(port_of(self.dut, path)))

    async def tick(self, count=1):
        """Let cycles pass."""
        for _ in range(count):
            await self.ctx.tick()

    async def gap(self):
        """Let a random number of cycles pass; none without stalls."""
        while self.rng.random() < self.stall:
            await self.tick()

    async def until(self, path, value=1):
        """Let cycles pass, at least one, up to the end of the first in which the port has the value."""
        # not Amaranth's `until`, which leaves a warning behind where the simulation ends in it
        port = port_of(self.dut, path)
        while (await self.ctx.tick().sample(port))[2] != value:
            pass

    async def pulse(self, flag, **fields):
        """Raise a flag for a cycle, with the values of ports in the same interface; those stay."""
        self.set({beside(flag, name): value for name, value in fields.items()} | {flag: 1})
        await self.tick()
        self.set({flag: 0})

    async def give(self, stream, words):
        """Give words to a stream, with random gaps, until the last one is taken."""
        for word in words:
            await self.gap()
            self.set({f"{stream}.payload": word, f"{stream}.valid": 1})
            await self.until(f"{stream}.ready")
            self.set({f"{stream}.valid": 0})
            self.seen.setdefault(stream, []).append((self.cycle, word))

    async def take(self, stream, count):
        """Take so many words from a stream, which stalls at random; then it is not ready."""
        port, monitor, words = port_of(self.dut, stream), Monitor(stream), []
        while len(words) < count:
            ready = self.rng.random() >= self.stall
            self.ctx.set(port.ready, ready)
            *_, valid, payload = await self.ctx.tick().sample(port.valid, port.payload)
            word = plain(payload) if valid else None
            if monitor.transfer(valid, ready, word):
                words.append(word)
        self.ctx.set(port.ready, 0)
        return words

    async def read(self, address, places, value):
        """Values of a port in the same interface, each a cycle after its place was at `address`."""
        found = []
        for place in places:
            self.set({address: place})
            await self.tick()
            found.append(self.get(beside(address, value)))
        return found


def play_interface(
    dut,
    give=None,
    take=None,
    *,
    body=None,
    watch=None,
    answer=None,
    background=(),
    wires=None,
    stall=0.0,
    seed=1,
    after=None,
    begin=None,
    unheld=(),
    limit=LIMIT,
):
    """Play all interfaces of a component at once, until all words are given and taken and each body has returned.

    Interfaces and ports are named by path, such as ``write.command``.

    Parameters
    ----------
    dut : Component
    give : dict of str to list, optional
        For each input stream its words.
    take : dict of str to (int or None), optional
        For each output stream the number of words to take, where more are an error; None: all that come.
    body : coroutine function of (Bench), or a list of some, optional
        What happens one after the other; those of a list are played side by side.
    watch : dict of str to (str, tuple of str or None), optional
        For each flag what is noted in every cycle in which it is not 0: the value of a port of the same interface or of
        the component, a tuple of several, or that of the flag itself.
    answer : dict of str to function, optional
        For each interface what its other side does: the function is called with the values of all its ports in a
        cycle, by name, and returns those to set for the next one.
    background : sequence of coroutine functions of (ctx)
        More that is around the component, such as a `Memory`.
    wires : dict of str to int, optional
        Values of other inputs.
    stall : float
        Probability, in each cycle, that a stream is given nothing or is not ready.
    seed : int
        Of the stalls.
    after : dict of str to (str, int), optional
        For a stream of `give` another one, and the number of its words, that it waits for before its first word.
    begin : dict of str to int, optional
        Cycle before which a stream is given nothing, or is not ready.
    unheld : sequence of str
        Streams of `take` that may offer another word, or none, before the one that they offer is taken.
    limit : int
        Cycles after which the test fails.

    Returns
    -------
    Seen
        For each stream and flag what came by: the cycle and the word.
    """
    give, take, watch, begin = give or {}, take or {}, watch or {}, begin or {}
    seen = Seen((*give, *take, *watch))
    wanted = {name: len(words) for name, words in give.items()} | {name: count or 0 for name, count in take.items()}
    bodies = body if isinstance(body, list) else [body] if body else []
    bench, left = Bench(dut, seen, stall, seed), len(bodies)

    def main(number, body):
        async def run(ctx):
            nonlocal left
            own = Bench(dut, seen, stall, seed, number)
            own.ctx = ctx
            await body(own)
            left -= 1

        return run

    async def clock(ctx):
        """Count cycles, behind all others in each."""
        while seen.cycle < limit:
            await ctx.tick()
            if not left and all(len(seen[name]) >= count for name, count in wanted.items()):
                return
            seen.cycle += 1
        missing = {name: count - len(seen[name]) for name, count in wanted.items() if len(seen[name]) < count}
        raise AssertionError(f"after {limit} cycles: words missing {missing}, bodies not over {left}")

    benches = [
        _giver(bench, name, words, (after or {}).get(name), begin.get(name, 0), number)
        for number, (name, words) in enumerate(give.items())
    ]
    benches += [
        _taker(bench, name, count, name not in unheld, begin.get(name, 0), number)
        for number, (name, count) in enumerate(take.items())
    ]
    benches += [_answerer(dut, *item) for item in (answer or {}).items()]
    benches += [_watcher(bench, watch)] if watch else []
    benches += [*background, *(main(number, body) for number, body in enumerate(bodies))]
    simulate(dut, clock, background=[_setter(dut, wires or {}), *benches], limit=limit + 1)
    return seen


def _setter(dut, wires):
    """Set inputs."""

    async def set_wires(ctx):
        for path, value in wires.items():
            ctx.set(port_of(dut, path), settable(value))

    return set_wires


def _giver(bench, name, words, after, begin, number):
    """Give words to a stream."""
    rng, port, seen = np.random.default_rng([bench.seed, number]), port_of(bench.dut, name), bench.seen
    awaited, count = after or (name, 0)

    async def give(ctx):
        for _ in range(begin):
            await ctx.tick()
        valid = False
        while len(seen[name]) < len(words):
            if not valid and len(seen[awaited]) >= count and rng.random() >= bench.stall:
                valid = True
                ctx.set(port.payload, settable(words[len(seen[name])]))
            ctx.set(port.valid, valid)
            if (await ctx.tick().sample(port.ready))[2] and valid:
                seen[name].append((bench.cycle, words[len(seen[name])]))
                valid = False
        ctx.set(port.valid, 0)

    return give


def _taker(bench, name, count, held, begin, number):
    """Take words from a stream."""
    rng, port, monitor = np.random.default_rng([bench.seed, 1000 + number]), port_of(bench.dut, name), Monitor(name)

    async def take(ctx):
        for _ in range(begin):
            await ctx.tick()
        while True:
            ready = rng.random() >= bench.stall
            ctx.set(port.ready, ready)
            *_, valid, payload = await ctx.tick().sample(port.valid, port.payload)
            word = plain(payload) if valid else None
            if monitor.transfer(valid, ready, word) if held else valid and ready:
                bench.seen[name].append((bench.cycle, word))
                assert count is None or len(bench.seen[name]) <= count, f"{name}: more than {count} words"

    return take


def _watcher(bench, watch):
    """Note what is beside each flag while it is not 0."""
    items = []
    for flag, names in watch.items():
        own = port_of(bench.dut, flag)
        ports = [near(bench.dut, flag, name) for name in ([names] if isinstance(names, str) else names or [])]
        items.append((flag, isinstance(names, tuple), [own, *(ports or [own])]))

    async def watch_all(ctx):
        ports = [port for *_, ports in items for port in ports]
        while True:
            values = iter((await ctx.tick().sample(*ports))[2:])
            for flag, several, own in items:
                raised, *word = [next(values) for _ in own]
                if raised:
                    word = tuple(map(plain, word))
                    bench.seen[flag].append((bench.cycle, word if several else word[0]))

    return watch_all


def _answerer(dut, name, function):
    """Answer an interface."""
    interface = port_of(dut, name)
    names = list(interface.signature.members)
    ports = [getattr(interface, port) for port in names]

    async def answer(ctx):
        while True:
            values = (await ctx.tick().sample(*ports))[2:]
            given = function(dict(zip(names, map(plain, values), strict=True)))
            for port, value in (given or {}).items():
                ctx.set(getattr(interface, port), settable(value))

    return answer


def willing(port, stall, seed=3):
    """Make a bench for the background: a port that is 0 in random cycles, and else 1."""
    rng = np.random.default_rng(seed)

    async def bench(ctx):
        while True:
            ctx.set(port, rng.random() >= stall)
            await ctx.tick()

    return bench


class Memory:
    """Beats by byte address, behind read ports, write ports and streams of commands.

    Parameters
    ----------
    stall : float
        Probability, in each cycle and on each stream, that nothing moves.
    seed : int
        Of the stalls.

    Attributes
    ----------
    beats : dict of int to int
        Contents, by byte address.
    reads, writes : list of (address, beats)
        Commands in the order in which they were accepted.
    """

    def __init__(self, stall=0.0, seed=1):
        self.beats, self.reads, self.writes = {}, [], []
        self.stall, self.rng = stall, np.random.default_rng(seed)

    def load(self, address, image):
        """Put the bytes of an image at an address."""
        self.beats |= {address + BEAT * at: beat for at, beat in enumerate(beats_of(image))}

    def willing(self):
        """Draw if something moves in this cycle."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, command, beats=None):
        """Serve a stream of read commands; without a stream of beats the commands are only listed."""

        async def bench(ctx):
            queue, valid = [], False
            while True:
                ready = self.willing()
                ctx.set(command.ready, ready)
                if beats is not None:
                    if queue and not valid and self.willing():
                        valid = True
                        ctx.set(beats.payload, self.beats.get(queue[0], 0))
                    ctx.set(beats.valid, valid)
                    *_, asked, payload, taken = await ctx.tick().sample(command.valid, command.payload, beats.ready)
                else:
                    *_, asked, payload = await ctx.tick().sample(command.valid, command.payload)
                    taken = 0
                if valid and taken:
                    queue.pop(0)
                    valid = False
                if asked and ready:
                    self.reads.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench

    def writer(self, port):
        """Serve a write port: the beats of a command are taken once the command was."""

        async def bench(ctx):
            queue = []
            while True:
                command_ready, beat_ready = not queue and self.willing(), bool(queue) and self.willing()
                ctx.set(port.command.ready, command_ready)
                ctx.set(port.beats.ready, beat_ready)
                *_, asked, payload, valid, beat = await ctx.tick().sample(
                    port.command.valid, port.command.payload, port.beats.valid, port.beats.payload
                )
                if valid and beat_ready:
                    self.beats[queue.pop(0)] = beat
                if asked and command_ready:
                    self.writes.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench
