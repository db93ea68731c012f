"""Looking inside: redundancy of heads, spectra, values by kernel PCA, rank collapse, attention paths, causal graphs.

`run` computes any analysis of `saddle analyze` by name; `probe` records what a model does, for `run`. The other functions
take single arrays. Arrays are anything that numpy.asarray takes, torch tensors included; results are dicts of numbers,
lists and numpy arrays.

>>> import numpy as np, saddle
>>> x = np.random.default_rng(0).normal(size=(500, 3))
>>> x[:, 2] += x[:, 0] + x[:, 1]
>>> saddle.analysis.pc(x, names=["a", "b", "c"])["edges"]
[('a', '-->', 'c'), ('b', '-->', 'c')]
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
import zlib
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _core
from ._files import description_of, weights_of

__all__ = ["cleann", "example", "fci", "head_redundancy", "icd", "mask_graph", "names", "pc",
           "probe", "rank_collapse", "run", "spectrum"]

Path = Union[str, "os.PathLike[str]"]


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor, of any dtype and device
        value = value.detach().to("cpu").double().numpy()
    return np.asarray(value, dtype=np.float64)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(each) for each in value)
    return str(value)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in options.items() if value is not None}


def names() -> list[dict[str, Any]]:
    """All analyses: name, title, summary, page (its README), and whether it takes tensors, files, has an example."""
    return _core.analyses()


def _run_packed(name: str, packed: str, options: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="saddle-") as folder:
        path = os.path.join(folder, os.path.basename(packed)[: -len(".gz")])
        try:
            with gzip.open(packed) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{packed} cannot be unpacked: {error}\nhint: fetch or pack the file again") from None
        return _core.analyze_file(name, path, options, packed)


def run(name: str, source: Union[Path, Mapping[str, Any]], **options: Any) -> dict[str, Any]:
    """An analysis of a file, also one packed as .gz, or of named arrays as `probe` gives them; options are those of the page
    of the analysis.

    Arrays: weights (or attention) [L,B,H,N,N], heads [L,B,H,N,E], tokens [L+1,B,N,X], keys [L,B,H,N,D], values [L,B,H,N,E],
    where leading dimensions of 1 may be missing, or for layers that differ layers.0.weights [B,H,N,N] and so on; also labels
    [B], lengths [B] and kinds [B,N] (0 special, 1 language, 2 vision); each may begin with "train." or "test.". Texts are
    metadata: attention, or layers.0.attention and so on, say what layers compute; readout="first_token" or
    "last_token" that the model answers from it.

    Gives a dict: about, findings, figures, result (all numbers), tables, charts, maps, networks, files.
    """
    if not isinstance(source, Mapping):
        path = os.fspath(source)
        file = weights_of(path)
        if file.endswith(".safetensors") and os.path.exists(file) and description_of(file):
            raise ValueError(f"{path} is a trained model, and run() takes what one does: probe(saddle.models.load({path!r}), "
                             f"inputs), or 'saddle analyze {name} {path}', which takes the data of the run")
        packed = path.endswith(".gz") and os.path.exists(path)
        return (_run_packed if packed else _core.analyze_file)(name, path, _texts(options))
    arrays = {key: _array(value) for key, value in source.items() if not isinstance(value, str)}
    texts = {key: value for key, value in source.items() if isinstance(value, str)}
    return _core.analyze_tensors(name, arrays, texts, _texts(options))


def example(name: str, **options: Any) -> dict[str, Any]:
    """What an analysis has to show without any input, such as the counterexample of rank_collapse."""
    return _core.analyze_example(name, _texts(options))


def _of_table(seen: Mapping[str, Any], attentions: list[str], rows: bool) -> tuple[dict[str, Any], list[str]]:
    """Every second layer, that between rows or that between attributes of each block, with the tokens behind the block."""
    kept = {"tokens": seen["tokens"]}
    for name, value in seen.items():
        if not name.startswith("layers."):
            continue
        _, layer, what = name.split(".")
        block, of_attributes = divmod(int(layer), 2)
        if of_attributes == (1 if what == "tokens" or not rows else 0):
            kept[f"layers.{block}.{what}"] = value
    if rows:  # [rows,attributes,width] as the tokens [1,rows,attributes*width] of the table
        kept = {name: value.flatten(1)[None] if name.endswith("tokens") else value for name, value in kept.items()}
    return kept, attentions[0 if rows else 1 :: 2]


def probe(model: Any, inputs: Any, mask: Any = None, labels: Any = None, second: Any = None, second_mask: Any = None,
          split: str = "test", images: Any = None, times: Any = None, between: Optional[str] = None) -> dict[str, Any]:
    """What a model of saddle.models does with a batch, as arrays for `run`; the model stays as it is.

    inputs, mask, second, second_mask, images, times as the model takes them. Merge the dicts of two splits, split="train" and
    split="test", for analyses that compare them. Of a table (npt), between="rows" shows the attentions between rows, whose
    one sample is the table, and between="attributes" those between attributes, whose samples are the rows.
    """
    table = json.loads(model.description)["model"] == "npt"
    if table and between not in ("rows", "attributes"):
        raise ValueError(f"between is {between!r}: npt attends in two ways, ask for 'rows' or 'attributes'")
    if between is not None and not table:
        raise ValueError(f"between is {between!r}, which goes with npt alone")
    training = model.training
    model.eval()
    try:
        seen = model._held.observe(inputs, mask, second, second_mask, images, times)
    finally:
        model.train(training)
    attentions = model._held.attentions()
    if table:
        seen, attentions = _of_table(seen, attentions, between == "rows")
    arrays: dict[str, Any] = {f"{split}.{key}": _array(value) for key, value in seen.items() if key != "logits"}
    for layer, attention in enumerate(attentions):
        arrays[f"layers.{layer}.attention"] = attention
    if model._held.reads_first_token():
        arrays["readout"] = "first_token"
    if model._held.reads_last_token():
        arrays["readout"] = "last_token"
    if labels is not None:
        arrays[f"{split}.labels"] = _array(labels)
    return arrays


def head_redundancy(heads: Any, lengths: Optional[Sequence[int]] = None) -> dict[str, Any]:
    """Distances and similarity between the outputs of heads [B,H,N,E] (or [H,N,E]) of one layer.

    lengths [B]: tokens that exist. Gives distance, deviation, norm, relative (distance / norm, 1.41 for heads that are
    orthogonal and of equal size), cosine, cka, and pairs [H,H].
    """
    array = _array(heads)
    array = array[None] if array.ndim == 3 else array
    if array.ndim != 4:
        raise ValueError(f"heads has {array.ndim} dimensions, expected [B,H,N,E] or [H,N,E]")
    count = [array.shape[2]] * array.shape[0] if lengths is None else [int(n) for n in lengths]
    if len(count) != array.shape[0] or any(n < 0 or n > array.shape[2] for n in count):
        raise ValueError(f"lengths must be {array.shape[0]} numbers from 0 to {array.shape[2]}, found {count}")
    return _core.head_redundancy(array, count)


def spectrum(matrix: Any) -> dict[str, Any]:
    """Singular values of a matrix [n,m]: values, explained_90 (how many hold 90 % of the squares), effective_rank."""
    return _core.spectrum(_array(matrix))


def rank_collapse(tokens: Any, rank_rtol: float = 1e-4) -> dict[str, float]:
    """How far tokens [N,d] are from being one vector: mu, mu_relative, effective_rank, stable_rank, rank, sigma_min,
    cos_abs_mean, cos_mean, oscillation. For what layers do to them: run("rank_collapse", ...)."""
    return _core.collapse_measures(_array(tokens), rank_rtol)


def mask_graph(mask: Any) -> dict[str, Any]:
    """A mask [N,N], true where token i attends to token j, as a graph: eccentricity and centre of every token, radius
    (None without a centre), quasi_strongly_connected, strongly_connected, self_loops."""
    return _core.mask_graph(_array(mask))


_EDGES = {1: ("o", "o"), 2: ("<", ">"), 3: ("-", "-")}


def _discover(
    algorithm: str, data: Any, correlation: Any, attention: Any, samples: Optional[float], names: Optional[Iterable[str]],
    nodes: Optional[Iterable[int]], test: str, alpha: float, stable: bool, max_size: Optional[int],
    selection_bias: bool = True, tail_completeness: bool = True, strict_r10: bool = False, target: Optional[int] = None,
    judge: Optional[Callable[[list[int]], bool]] = None, max_set_size: Optional[int] = None,
    max_range: Optional[int] = None, search_minimal: bool = True,
) -> dict[str, Any]:
    given = [(key, value) for key, value in (("data", data), ("correlation", correlation), ("attention", attention))
             if value is not None]
    if len(given) != 1:
        raise ValueError("give exactly one of data [rows,variables], correlation [n,n] and attention [N,N]")
    of, values = given[0][0], _array(given[0][1])
    if of == "data" and samples is not None:
        raise ValueError("samples goes with correlation or attention: of data it is the number of rows")
    if of == "data" and test not in ("fisher_z", "chi_square"):
        raise ValueError(f"test is {test!r}, expected 'fisher_z' for numbers or 'chi_square' for categories")
    if target is not None and target < 0:
        raise ValueError(f"target is {target}, tokens are numbers from 0")
    if of != "data" and samples is None:
        raise ValueError("samples is needed: how many observations are behind the correlations; for attention the width of "
                         "the model")
    if of != "data" and test != "fisher_z":
        raise ValueError("the chi-square test needs data")
    labels = [str(i) for i in range(values.shape[1] if values.ndim == 2 else 0)] if names is None else [*map(str, names)]
    if len(set(labels)) != len(labels):
        raise ValueError("two variables have the same name")
    found = _core.discover(
        values, of, algorithm, test, float(samples or 0), labels, [] if nodes is None else [*nodes], alpha, stable,
        -1 if max_size is None else max_size, selection_bias, tail_completeness, strict_r10,
        -1 if target is None else target, judge,
        -1 if max_set_size is None else max_set_size, -1 if max_range is None else max_range, search_minimal,
    )
    marks, result = found["marks"], found["result"]
    places = [node["position"] for node in result.pop("nodes")]
    labels = [labels[place] for place in places]
    result["names"], result["nodes"] = labels, places
    result["marks"] = marks
    result["adjacency"] = marks != 0
    result["edges"] = [
        (labels[a], _EDGES[int(marks[b, a])][0] + "-" + _EDGES[int(marks[a, b])][1], labels[b])
        for a in range(len(labels)) for b in range(a + 1, len(labels)) if marks[a, b]
    ]
    result["separating_sets"] = {(labels[s["a"]], labels[s["b"]]): [labels[v] for v in s["given"]]
                                 for s in result["separating_sets"]}
    if "explanations" in result:
        own = result["explanations"]
        own["target"] = places[own["target"]]
        own["members"] = [places[v] for v in own["members"]]
        for each in own["found"]:
            each["tokens"] = [places[v] for v in each["tokens"]]
        for each in own["tree"]:
            each["node"] = places[each["node"]]
    result["dot"] = found["dot"]
    return result


def pc(
    data: Any = None, *, correlation: Any = None, attention: Any = None, samples: Optional[float] = None,
    names: Optional[Iterable[str]] = None, nodes: Optional[Iterable[int]] = None, test: str = "fisher_z",
    alpha: float = 0.01, stable: bool = False, max_size: Optional[int] = None,
) -> dict[str, Any]:
    """PC: a graph of directed and undirected edges, if there are no hidden common causes.

    One of data [rows,variables] (test "fisher_z" for numbers, "chi_square" for categories), correlation [n,n] and attention
    [N,N] of one head, the last two with the number of samples behind them (of attention: the width of the model). `nodes`
    are numbers of the variables to look at; by default all, of attention those that get any.

    Gives a dict: edges, as (name, "-->", name) with "-->", "<--", "---" and of partial ancestral graphs "<->", "o->", "<-o",
    "o-o"; marks [n,n], the mark at b of the edge a-b: 0 none, 1 circle, 2 arrow, 3 tail; adjacency [n,n]; names
    and nodes, what the rows of these are; separating_sets; tests, their number by size of the conditioning set; dot, for
    Graphviz.
    """
    return _discover("pc", data, correlation, attention, samples, names, nodes, test, alpha, stable, max_size)


def fci(
    data: Any = None, *, correlation: Any = None, attention: Any = None, samples: Optional[float] = None,
    names: Optional[Iterable[str]] = None, nodes: Optional[Iterable[int]] = None, test: str = "fisher_z",
    alpha: float = 0.01, stable: bool = False, max_size: Optional[int] = None, selection_bias: bool = True,
    tail_completeness: bool = True, strict_r10: bool = False,
) -> dict[str, Any]:
    """FCI: a partial ancestral graph, valid with hidden common causes and selection. Input and result as of pc()."""
    return _discover("fci", data, correlation, attention, samples, names, nodes, test, alpha, stable, max_size,
                     selection_bias, tail_completeness, strict_r10)


def icd(
    data: Any = None, *, correlation: Any = None, attention: Any = None, samples: Optional[float] = None,
    names: Optional[Iterable[str]] = None, nodes: Optional[Iterable[int]] = None, test: str = "fisher_z",
    alpha: float = 0.01, stable: bool = False, max_size: Optional[int] = None, selection_bias: bool = True,
    tail_completeness: bool = True, strict_r10: bool = False,
) -> dict[str, Any]:
    """ICD: the graph of fci() with fewer and smaller tests, refined round by round. Input and result as of pc()."""
    return _discover("icd", data, correlation, attention, samples, names, nodes, test, alpha, stable, max_size,
                     selection_bias, tail_completeness, strict_r10)


def cleann(
    attention: Any, target: int, judge: Optional[Callable[[list[int]], bool]] = None, *, samples: float, alpha: float = 0.01,
    names: Optional[Iterable[str]] = None, nodes: Optional[Iterable[int]] = None,
    max_set_size: Optional[int] = None, max_range: Optional[int] = None, search_minimal: bool = True,
) -> dict[str, Any]:
    """CLEANN: small sets of tokens that explain a prediction at the token `target`, along the causal graph of a head.

    judge(tokens) says whether the prediction changes without these tokens: remove them from the input and ask the model.
    Gives the dict of icd() with explanations: target, members (all that the target may depend on), found (sets that
    explain, each with tokens and distance; without a judge the members), tested (how often the judge was asked). Tokens are
    numbers of rows of the attention, whatever `nodes` says.
    """
    return _discover("icd", None, None, attention, samples, names, nodes, "fisher_z", alpha, False, None, target=target,
                     judge=judge, max_set_size=max_set_size, max_range=max_range, search_minimal=search_minimal)
