"""The PC algorithm in plain numpy: Fisher's z, stable, one test at a time. A peer for the causal discovery of saddle.

    pc_numpy.py TABLE.csv [--alpha 0.01] [--repeat 1]

prints one line of JSON: seconds (the best of the repetitions, reading not counted), tests, and the edges of the
completed graph as [a, b, directed]. With --serve it answers requests of `saddle bench` instead, one JSON object a line:
{"op": "setup", "table": FILE of 8-byte numbers, "variables": n, "alpha": a}, then {"op": "round", "seconds": s}.
"""
import argparse
import itertools
import json
import math
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None


def p_value(correlation, samples, x, y, z):
    """Of the partial correlation of x and y given z, by the inverse of their correlations."""
    variables = [x, y, *z]
    precision = numpy.linalg.inv(correlation[numpy.ix_(variables, variables)])
    r = -precision[0, 1] / math.sqrt(abs(precision[0, 0] * precision[1, 1]))
    if abs(r) >= 1:
        return 0.0
    deviation = abs(math.sqrt(samples - len(z) - 3) * math.atanh(r))
    return math.erfc(deviation / math.sqrt(2))


def skeleton(correlation, samples, alpha):
    """Adjacency [n,n], the separating sets, the number of tests."""
    n = len(correlation)
    adjacent = ~numpy.eye(n, dtype=bool)
    separating = {}
    tests = 0
    size = 0
    while adjacent.sum(axis=1).max() > size:
        frozen = [numpy.flatnonzero(adjacent[v]) for v in range(n)]
        for x in range(n):
            for y in frozen[x]:
                if y < x:
                    continue
                seen = set()
                for pool in (frozen[x][frozen[x] != y], frozen[y][frozen[y] != x]):
                    for z in itertools.combinations(pool, size):
                        if z in seen:
                            continue
                        seen.add(z)
                        tests += 1
                        if p_value(correlation, samples, x, y, z) > alpha:
                            adjacent[x, y] = adjacent[y, x] = False
                            separating[x, y] = set(z)
                            break
                    if not adjacent[x, y]:
                        break
        size += 1
    return adjacent, separating, tests


def orient(adjacent, separating):
    """Directed [n,n]: True at (a,b) and False at (b,a) for a -> b, both True for an undirected edge."""
    n = len(adjacent)
    into = numpy.zeros((n, n), dtype=bool)
    for z in range(n):
        for x, y in itertools.combinations(numpy.flatnonzero(adjacent[z]), 2):
            if not adjacent[x, y] and z not in separating.get((x, y), set()):
                into[x, z] = into[y, z] = True
    directed = adjacent.copy()
    directed[into.T & ~into] = False

    def undirected(a, b):
        return directed[a, b] and directed[b, a]

    def arrow(a, b):
        return directed[a, b] and not directed[b, a]

    def away_from_collider(x, y):
        return any(arrow(z, x) and not adjacent[z, y] for z in range(n) if z != y)

    def away_from_cycle(x, y):
        return any(arrow(x, z) and arrow(z, y) for z in range(n))

    def double_triangle(x, y):
        between = [z for z in range(n) if undirected(x, z) and arrow(z, y)]
        return any(not adjacent[w, z] for w, z in itertools.combinations(between, 2))

    changed = True
    while changed:
        changed = False
        for rule in (away_from_collider, away_from_cycle, double_triangle):
            for y in range(n):
                for x in numpy.flatnonzero(adjacent[y]):
                    if undirected(x, y) and rule(x, y):
                        directed[y, x] = False
                        changed = True
    return directed


def learn(correlation, samples, alpha):
    """The completed graph as a list of [a, b, directed], and the number of tests."""
    adjacent, separating, tests = skeleton(correlation, samples, alpha)
    directed = orient(adjacent, separating)
    edges = [
        [int(a), int(b), bool(not directed[b, a])]
        for a, b in zip(*numpy.nonzero(directed))
        if a < b or not directed[b, a]
    ]
    return edges, tests


def serve():
    task = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if numpy is None:
                raise RuntimeError("it is not installed (python3-numpy)")
            if request["op"] == "setup":
                table = numpy.fromfile(request["table"]).reshape(-1, request["variables"])
                task = numpy.corrcoef(table.T), len(table), request["alpha"]
                edges, tests = learn(*task)
                answer = {"ok": True, "edges": edges, "tests": tests}
            else:
                start = time.perf_counter()
                learn(*task)
                answer = {"ok": True, "seconds": time.perf_counter() - start}
        except Exception as error:
            answer = {"ok": False, "reason": str(error).splitlines()[0] if str(error) else type(error).__name__}
        print(json.dumps(answer), flush=True)


def main():
    if sys.argv[1:] == ["--serve"]:
        return serve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    table = numpy.loadtxt(arguments.table, delimiter=",", skiprows=1)
    correlation = numpy.corrcoef(table.T)
    seconds = math.inf
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        edges, tests = learn(correlation, len(table), arguments.alpha)
        seconds = min(seconds, time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "tests": tests, "edges": edges}))


if __name__ == "__main__":
    main()
