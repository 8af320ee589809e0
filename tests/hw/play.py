"""Play the surroundings of a component in Amaranth's simulator: give words, take words, answer reads.

A test names ports by path and says what happens at each port; one call simulates the component::

    seen = play_interface(Fifo(8, 4), give={"i": [1, 2, 3]}, take={"o": 3}, stall=0.5)
    assert seen.words("o") == [1, 2, 3]

For a sequence of events, a body does the steps::

    async def body(bench):
        for job in jobs:
            await bench.pulse("start", address=job.address)
            await bench.give("i", job.words)
            await bench.until("empty")

    seen = play_interface(dut, take={"o": None}, watch={"done": None}, body=body, stall=0.5)
    assert seen.words("o") == expected

A `Memory` in the background serves read and write ports. `simulate` runs benches that need more.
"""

import numpy as np

from .simulation import LIMIT, Monitor, beside, near, plain, port_of, settable, simulate


class Seen(dict):
    """Observations at each played path, a list of (cycle, word); `cycle` is the last completed cycle."""

    def __init__(self, names):
        super().__init__({name: [] for name in names})
        self.cycle, self.told = 0, {}

    def words(self, name):
        """Words alone, in order."""
        return [word for _, word in self[name]]

    def cycles(self, name):
        """Cycles alone, in order."""
        return [cycle for cycle, _ in self[name]]

    def both(self, name, other):
        """Words in the cycles with an observation at another path, too."""
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
    """Handle for a body: sets, pulses and reads ports by path.

    Attributes
    ----------
    ctx : SimulatorContext
    dut : Component
    seen : Seen
        Observations until now.
    rng : numpy.random.Generator
        Source of the gaps between the body's transfers.
    """

    def __init__(self, dut, seen, stall, seed, number=0):
        self.ctx, self.dut, self.seen, self.stall, self.seed = None, dut, seen, stall, seed
        self.rng = np.random.default_rng([seed, 2000 + number])

    @property
    def cycle(self):
        """The last completed cycle."""
        return self.seen.cycle

    def set(self, values=None, **more):
        """Set ports, by path."""
        for path, value in ((values or {}) | more).items():
            self.ctx.set(port_of(self.dut, path), settable(value))

    def get(self, path):
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
        """Let at least one cycle pass, up to the end of the first cycle in which the port has the value."""
        # not Amaranth's `until`, which warns if the simulation ends inside
        port = port_of(self.dut, path)
        while (await self.ctx.tick().sample(port))[2] != value:
            pass

    async def pulse(self, flag, **fields):
        """Raise a flag for a cycle, with values of ports in the same interface; the values stay."""
        self.set({beside(flag, name): value for name, value in fields.items()} | {flag: 1})
        await self.tick()
        self.set({flag: 0})

    async def give(self, stream, words):
        """Give words to a stream, with random gaps, until the last word is taken."""
        for word in words:
            await self.gap()
            self.set({f"{stream}.payload": word, f"{stream}.valid": 1})
            await self.until(f"{stream}.ready")
            self.set({f"{stream}.valid": 0})
            self.seen.setdefault(stream, []).append((self.cycle, word))

    async def take(self, stream, count):
        """Take a number of words from a stream with random stalls; then the stream is not ready."""
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
        """Values of a port in the same interface, each a cycle after its index was at `address`."""
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
        Words of each input stream.
    take : dict of str to (int or None), optional
        Number of words of each output stream; more words are an error. None: all words until the end.
    body : coroutine function of (Bench), or a list of some, optional
        Sequence of events; several bodies run at the same time.
    watch : dict of str to (str, tuple of str or None), optional
        Flags, and what is recorded in every cycle in which a flag is not 0: a port of the same interface or of the
        component, a tuple of several, or for None the flag's value.
    answer : dict of str to function, optional
        Other side of each interface: the function takes the values of all ports in a cycle, by name, and returns the
        values to set for the next cycle.
    background : sequence of coroutine functions of (ctx)
        Further surroundings of the component, such as a `Memory`.
    wires : dict of str to int, optional
        Values of other inputs.
    stall : float
        Probability, in each cycle, of a stream without a word or without ready.
    seed : int
        Seed of the stalls.
    after : dict of str to (str, int), optional
        Streams of `give` that wait, before their first word, for a number of words of another stream.
    begin : dict of str to int, optional
        Cycle of a stream's earliest word or ready.
    unheld : sequence of str
        Streams of `take` that may change or withdraw a word before acceptance.
    limit : int
        Cycles after which the test fails.

    Returns
    -------
    Seen
        Observations of each stream and flag: cycle and word.
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
        """Count cycles, after all other benches in each cycle."""
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

    async def set_wires(ctx):
        for path, value in wires.items():
            ctx.set(port_of(dut, path), settable(value))

    return set_wires


def _giver(bench, name, words, after, begin, number):
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
    """Record the watched values while the flag is not 0."""
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
    interface = port_of(dut, name)
    names = [name for name, member in interface.signature.members.items() if member.is_port]
    ports = [getattr(interface, port) for port in names]

    async def answer(ctx):
        while True:
            values = (await ctx.tick().sample(*ports))[2:]
            given = function(dict(zip(names, map(plain, values), strict=True)))
            for port, value in (given or {}).items():
                ctx.set(getattr(interface, port), settable(value))

    return answer
