import doctest
import gzip
import json
import pathlib

import numpy as np
import pytest
import torch

import saddle
from saddle import analysis

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "causal-discovery"


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    texts = header.pop("__metadata__", {})
    kinds = {"F64": np.float64, "I64": np.int64, "U8": np.uint8, "I32": np.int32}
    arrays = {}
    for name, entry in header.items():
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(data[first:last], kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays, texts


def test_doctests():
    results = doctest.testmod(analysis)
    assert results.attempted > 0 and results.failed == 0


def test_all_analyses_are_listed():
    listed = {each["name"]: each for each in analysis.names()}
    assert {"causal_discovery", "depth_width", "head_redundancy", "kpca_value", "rank_collapse", "spectrum"} <= set(listed)
    assert listed["causal_discovery"]["page"].startswith("# Causal discovery")
    with pytest.raises(ValueError, match="did you mean"):
        analysis.run("spectrun", {"weights": np.eye(3)})


CASES = [("pc", "pc_sem_n8", "out.cpdag"), ("pc", "pc_attention_n7", "out.cpdag"), ("icd", "icd_attention_n8", "out.pag"),
         ("icd", "icd_sem_latent_n8", "out.pag"), ("fci", "fci_attention_n6", "out.pag"),
         ("fci", "fci_sem_latent_n7", "out.pag")]


@pytest.mark.parametrize("algorithm, case, wanted", CASES)
def test_graphs_are_the_recorded_ones(algorithm, case, wanted):
    arrays, texts = read_safetensors(GOLDEN / f"{case}.safetensors")
    of = "attention" if "in.attention" in arrays else "correlation"
    found = getattr(analysis, algorithm)(
        **{of: arrays["in." + of]}, samples=json.loads(texts["num_samples"]), alpha=json.loads(texts["alpha"]),
        nodes=json.loads(texts["nodes"]))
    np.testing.assert_array_equal(found["marks"], arrays[wanted])
    assert found["nodes"] == json.loads(texts["nodes"])


def collider(rows=800):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, 4))
    x[:, 2] += x[:, 0] + x[:, 1]
    x[:, 3] += 2 * x[:, 2]
    return x


def test_pc_of_data():
    found = analysis.pc(collider(), names="abcd")
    assert found["edges"] == [("a", "-->", "c"), ("b", "-->", "c"), ("c", "-->", "d")]
    assert found["separating_sets"][("a", "d")] == ["c"]
    assert sum(found["tests"]) == found["tests_total"]
    assert found["dot"].startswith("digraph")
    part = analysis.pc(collider(), names="abcd", nodes=[3, 0, 1])
    assert part["names"] == ["a", "b", "d"] and part["nodes"] == [0, 1, 3]
    assert part["edges"] == [("a", "-->", "d"), ("b", "-->", "d")]
    same = analysis.pc(correlation=np.corrcoef(collider().T), samples=800, names="abcd")
    np.testing.assert_array_equal(same["marks"], found["marks"])


def test_hidden_causes_show_in_fci_and_icd():
    rng = np.random.default_rng(2)
    hidden = rng.normal(size=4000)
    a, b = rng.normal(size=(2, 4000))
    data = np.stack([a, b, a + hidden + rng.normal(size=4000), b + hidden + rng.normal(size=4000)], 1)
    for learn in (analysis.fci, analysis.icd):
        found = learn(data, names=["a", "b", "x", "y"])
        assert ("x", "<->", "y") in found["edges"] and ("a", "o->", "x") in found["edges"]


def test_chi_square_takes_any_categories():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, size=(2, 2000))
    c = np.where(rng.random(2000) < 0.8, a, rng.integers(0, 3, 2000)) * 10.5 - 7
    found = analysis.pc(np.stack([a, b, c], 1), test="chi_square", alpha=0.001, stable=True, names="abc")
    assert found["edges"] == [("a", "---", "c")] and found["test"] == "chi_square"


def chain_attention():
    """Tokens 0 to 3, each of which hears the one before it; 4 is padding."""
    attention = np.zeros((5, 5))
    attention[0, 0] = 1
    for i in (1, 2, 3):
        attention[i, i - 1 : i + 1] = 0.5
    attention[4, 0] = 1
    return attention


def test_cleann_asks_the_judge_about_tokens():
    arrays, texts = read_safetensors(GOLDEN / "cleann_n12_subset.safetensors")
    target, causes = json.loads(texts["target"]), [set(c) for c in json.loads(texts["causes"])]
    asked = []

    def judge(tokens):
        asked.append(tokens)
        return any(cause <= set(tokens) for cause in causes)

    limits = {name: json.loads(texts[name]) for name in ("search_minimal", "max_set_size", "max_range")}
    found = analysis.cleann(arrays["in.attention"], target, judge, samples=json.loads(texts["num_samples"]),
                            alpha=json.loads(texts["alpha"]), nodes=json.loads(texts["nodes"]), **limits)
    wanted = [sorted(np.flatnonzero(row)) for row in arrays["out.candidates"]]
    assert [sorted(tokens) for tokens in asked] == wanted
    explanations = found["explanations"]
    assert explanations["target"] == target and explanations["tested"] == len(asked)
    assert [each["tokens"] for each in explanations["found"]] == [list(np.flatnonzero(r)) for r in arrays["out.explanations"]]
    assert all(any(cause <= set(each["tokens"]) for cause in causes) for each in explanations["found"])


def test_a_judge_that_fails_is_heard():
    def judge(tokens):
        raise RuntimeError("no model")

    with pytest.raises(RuntimeError, match="no model"):
        analysis.cleann(chain_attention(), 3, judge, samples=768)


def test_padding_is_left_out():
    found = analysis.icd(attention=chain_attention(), samples=768)
    assert found["nodes"] == [0, 1, 2, 3] and found["marks"].shape == (4, 4)


def test_wrong_input_is_refused():
    data = collider(50)
    with pytest.raises(ValueError, match="exactly one"):
        analysis.pc()
    with pytest.raises(ValueError, match="exactly one"):
        analysis.pc(data, correlation=np.eye(4), samples=5)
    with pytest.raises(ValueError, match="samples"):
        analysis.icd(attention=chain_attention())
    with pytest.raises(ValueError, match="chi-square"):
        analysis.pc(correlation=np.eye(3), samples=10, test="chi_square")
    with pytest.raises(ValueError, match="same name"):
        analysis.pc(data, names=["a", "a", "b", "c"])
    with pytest.raises(ValueError, match="3 names for 4"):
        analysis.pc(data, names="abc")
    with pytest.raises(ValueError, match="dimensions"):
        analysis.pc(data[0])
    with pytest.raises(ValueError, match="nodes"):
        analysis.pc(data, nodes=[0, 9])
    with pytest.raises(ValueError, match="alpha"):
        analysis.pc(data, alpha=2)
    with pytest.raises(ValueError, match="square"):
        analysis.pc(correlation=np.eye(4)[:3], samples=10)
    with pytest.raises(ValueError, match="not among the nodes"):
        analysis.cleann(chain_attention(), 4, samples=768)
    for wrong in (np.nan, np.inf):
        broken = data.copy()
        broken[3, 1] = wrong
        for test in ("fisher_z", "chi_square"):
            with pytest.raises(ValueError, match="NaN or infinity"):
                analysis.pc(broken, test=test)
    with pytest.raises(ValueError, match="too many for the chi-square test"):
        analysis.pc(collider(200), test="chi_square")
    with pytest.raises(ValueError, match="test is 'auto'"):
        analysis.pc(data, test="auto")
    with pytest.raises(ValueError, match="number of rows"):
        analysis.pc(data, samples=5)
    with pytest.raises(ValueError, match="from 0"):
        analysis.cleann(chain_attention(), -1, samples=768)
    with pytest.raises(RuntimeError, match="takes no tensors"):
        analysis.run("energy", {"weights": np.eye(3)})


def test_run_on_a_table(tmp_path):
    table = tmp_path / "table.csv"
    np.savetxt(table, collider(), delimiter=",", header="a,b,c,d", comments="")
    found = analysis.run("causal_discovery", table, algorithm="pc", nodes=["a", "b", "c"])
    assert found["networks"][0]["nodes"] == ["a", "b", "c"]
    assert found["networks"][0]["edges"] == [(0, 2, "line", "arrow"), (1, 2, "line", "arrow")]
    assert "graph.dot" in found["files"] and found["result"]["algorithm"] == "pc"
    assert found["about"].count(". ") >= 1
    with pytest.raises(ValueError, match="unknown option 'alpah'"):
        analysis.run("causal_discovery", table, alpah=0.1)


def test_run_on_a_packed_table(tmp_path):
    table, packed = tmp_path / "table.csv", tmp_path / "table.csv.gz"
    np.savetxt(table, collider(), delimiter=",", header="a,b,c,d", comments="")
    packed.write_bytes(gzip.compress(table.read_bytes()))
    plain = analysis.run("causal_discovery", table)
    found = analysis.run("causal_discovery", str(packed))
    assert found["networks"] == plain["networks"]
    assert found["result"]["file"] == str(packed)
    packed.write_bytes(gzip.compress(b"a,b\n1,2\n3,\n"))
    with pytest.raises(ValueError, match="table.csv.gz:3: column 'b' has no value here") as wrong:
        analysis.run("causal_discovery", packed)
    assert "saddle-" not in str(wrong.value)
    packed.write_bytes(gzip.compress(table.read_bytes())[:100])
    with pytest.raises(ValueError, match="table.csv.gz cannot be unpacked"):
        analysis.run("causal_discovery", packed)
    with pytest.raises(OSError, match="there is no nowhere.csv.gz"):
        analysis.run("causal_discovery", "nowhere.csv.gz")


def model_and_batch():
    torch.manual_seed(0)
    model = saddle.models.make("sequence_classifier", vocab=16, max_len=10, classes=3, width=32, heads=2, depth=2)
    tokens = torch.randint(1, 16, (4, 10))
    mask = torch.arange(10)[None] < torch.tensor([10, 7, 10, 4])[:, None]
    return model, tokens, mask


def test_a_model_is_probed_and_analysed():
    model, tokens, mask = model_and_batch()
    model.train()
    seen = analysis.probe(model, tokens, mask, labels=[0, 1, 2, 0])
    assert model.training
    assert seen["test.layers.1.weights"].shape == (4, 2, 10, 10)
    assert list(seen["test.lengths"]) == [10, 7, 10, 4]
    for name in ("head_redundancy", "spectrum", "rank_collapse", "attention_paths", "causal_discovery", "depth_width"):
        found = analysis.run(name, seen)
        assert found["about"].count(".") >= 2, name
        assert found["charts"] or found["networks"] or found["maps"], name
    graphs = analysis.run("causal_discovery", seen, sample=3, layer=0)
    assert len(graphs["networks"]) == 2 and len(graphs["networks"][0]["nodes"]) == 4
    shape = analysis.run("depth_width", seen)["result"]["given"]
    assert (shape["depth"], shape["width"]) == (2, 32)


def test_values_by_kernel_pca():
    rng = np.random.default_rng(0)
    keys, values = 0.5 * rng.normal(size=(1, 2, 3, 12, 4)), rng.normal(size=(1, 2, 3, 12, 4))
    found = analysis.run("kpca_value", {"keys": keys, "values": values})
    assert len(found["result"]["layers"][0]["heads"]) == 3
    assert found["figures"]["linear CKA, mean of heads"] < 0.9 and found["figures"]["relative spread"] > 0.3
    assert found["about"].count(".") >= 2 and found["charts"]
    torch.manual_seed(0)
    model = saddle.models.make("sequence_classifier", vocab=16, max_len=10, classes=3, width=16, heads=4, depth=2)
    seen = analysis.probe(model, torch.randint(1, 16, (4, 10)))
    assert seen["test.layers.1.keys"].shape == seen["test.layers.1.values"].shape == (4, 4, 10, 4)
    # Weights times values are the heads.
    np.testing.assert_allclose(seen["test.layers.0.weights"] @ seen["test.layers.0.values"], seen["test.layers.0.heads"],
                               atol=1e-5)
    assert len(analysis.run("kpca_value", seen)["tables"][0]["rows"]) == 8
    with pytest.raises(RuntimeError, match="no layer that the formula"):
        analysis.run("kpca_value", {"weights": np.eye(3)})


def test_keys_and_values_of_events():
    torch.manual_seed(0)
    events, times = torch.randint(1, 9, (3, 24)), torch.rand(3, 24).cumsum(1)

    def values_of(**options):
        model = saddle.models.make("event_model", vocab=9, max_len=24, classes=8, width=4, time_width=4, depth=2, **options)
        return analysis.run("kpca_value", analysis.probe(model, events, times=times))

    assert len(values_of(heads=2, causal=False)["tables"][0]["rows"]) == 4
    with pytest.raises(NotImplementedError, match="its queries do not see all keys"):
        values_of()


def test_tables_are_probed_between_rows_and_between_attributes():
    torch.manual_seed(0)
    model = saddle.models.make("npt", columns="x,x,3", width=8, heads=2, depth=4, attention=["softmax", "linear"])
    table = torch.randn(20, 8)
    rows, attributes = (analysis.probe(model, table, between=kind) for kind in ("rows", "attributes"))
    assert rows["test.tokens"].shape == (1, 20, 24) and rows["test.layers.1.weights"].shape == (1, 2, 20, 20)
    assert attributes["test.tokens"].shape == (20, 3, 8) and attributes["test.layers.1.heads"].shape == (20, 2, 3, 4)
    # Behind a block tokens are the same numbers, whichever way they are seen; before it they are others.
    np.testing.assert_array_equal(rows["test.layers.1.tokens"].reshape(20, 3, 8), attributes["test.layers.1.tokens"])
    assert not np.allclose(attributes["test.layers.0.tokens"], attributes["test.layers.1.tokens"])
    # The scale that the model divides by, not that of a head.
    scale = rows["layers.0.attention"].removeprefix("softmax(scale=").removesuffix(")")
    assert float(scale) == pytest.approx(24 ** -0.5) and "layers.2.attention" not in rows
    assert attributes["layers.0.attention"].startswith("linear")
    for name in ("head_redundancy", "spectrum", "rank_collapse"):
        assert analysis.run(name, rows)["charts"] and analysis.run(name, attributes)["charts"]
    assert analysis.run("kpca_value", rows)["tables"]
    with pytest.raises(ValueError, match="'rows' or 'attributes'"):
        analysis.probe(model, table)
    with pytest.raises(ValueError, match="npt alone"):
        analysis.probe(*model_and_batch()[:2], between="rows")


def test_the_kernel_of_primal_attention_is_shown():
    torch.manual_seed(0)
    model = saddle.models.make("event_model", vocab=6, max_len=5, classes=3, attention="primal_attention(rank=2,eta=0)")
    times = torch.rand(2, 5, dtype=torch.float64) * 1e6
    seen = analysis.probe(model, torch.randint(1, 6, (2, 5)), times=times)
    found = analysis.run("spectrum", seen)
    assert [each["of"] for each in found["result"]["layers"]] == ["kernel", "learned", "stationary"]
    assert any("not trained by the loss" in finding for finding in found["findings"])


def test_padding_that_is_attended_to_counts():
    mask = torch.arange(10)[None] < torch.tensor([10, 3])[:, None]
    for hidden, lengths in ((True, [10, 3]), (False, [10, 10])):
        model = saddle.models.make("time_series", dims=2, max_len=10, classes=3, width=16, heads=2, mask_keys=hidden)
        seen = analysis.probe(model, torch.randn(2, 10, 2), mask)
        assert list(seen["test.lengths"]) == lengths
        np.testing.assert_allclose(seen["test.layers.0.weights"][1, 0, 0, : lengths[1]].sum(), 1, atol=1e-5)


def test_what_a_model_reads_is_carried():
    model = saddle.models.make("vision_transformer", image=16, patch=4, width=16, heads=2, depth=1, classes=3)
    seen = analysis.probe(model, torch.randn(6, 3, 16, 16), labels=[0, 1, 2, 0, 1, 2], split="train")

    def scores(**options):
        return [each["raw"] for each in analysis.run("attention_paths", seen, **options)["result"]["scores"]]

    assert scores() == scores(readout="first_token") != scores(readout="average_pooling")


def test_images_beside_texts_and_times_are_taken():
    torch.manual_seed(1)
    model = saddle.models.make("vision_language", vocab=16, max_len=6, classes=3, width=16, heads=2)
    seen = analysis.probe(model, torch.randint(1, 16, (4, 6)), images=torch.rand(4, 3, 16, 16))
    assert set(np.unique(seen["test.kinds"])) == {0, 1, 2} and seen["readout"] == "first_token"
    found = analysis.run("imf", seen)
    assert found["charts"] and 0 < found["figures"]["chance"] < 1
    weights = seen["test.layers.0.weights"][:, None]
    raw = analysis.run("imf", {"attention": weights, "kind": seen["test.kinds"]})
    assert raw["result"]["flows"]["layer"][0] == pytest.approx(found["result"]["flows"]["layer"][0])
    events = saddle.models.make("event_model", vocab=6, max_len=5, classes=3)
    times = torch.rand(2, 5, dtype=torch.float64) * 1e6
    seen = analysis.probe(events, torch.randint(1, 6, (2, 5)), times=times)
    assert seen["test.layers.0.heads"].shape[0] == 2
    assert seen["test.tokens"].shape == (2, 5, 64) and seen["test.layers.0.tokens"].shape == (2, 5, 32)
    assert seen["readout"] == "last_token"


def test_cleann_on_a_model():
    """Removing what an explanation names changes the prediction, asked of the model itself."""
    model, tokens, mask = model_and_batch()
    model.eval()
    weights = analysis.probe(model, tokens, mask)["test.layers.1.weights"][0]

    def predicted(removed):
        keep = mask[:1].clone()
        keep[0, removed] = False
        with torch.no_grad():
            return int(model(tokens[:1], keep).argmax())

    whole = predicted([])
    found = analysis.cleann(weights[0], 9, lambda tokens: predicted(tokens) != whole, samples=32, max_set_size=3)
    for each in found["explanations"]["found"]:
        assert predicted(each["tokens"]) != whole
    assert found["explanations"]["tested"] > 0


def test_single_measures():
    heads = np.random.default_rng(0).normal(size=(3, 5, 4))
    measured = analysis.head_redundancy(np.stack([heads[0], heads[0], heads[2]]))
    assert measured["pairs"].shape == (3, 3) and measured["pairs"][0, 1] == 0
    with pytest.raises(ValueError, match="lengths"):
        analysis.head_redundancy(heads, lengths=[9])
    matrix = np.diag([3.0, 1.0, 0.0])
    np.testing.assert_allclose(analysis.spectrum(torch.tensor(matrix))["values"][:2], [3, 1])
    assert analysis.spectrum(matrix)["explained_90"] == 1
    assert analysis.rank_collapse(np.ones((4, 3)))["mu"] == pytest.approx(0, abs=1e-12)
    graph = analysis.mask_graph(np.tril(np.ones((4, 4))))
    assert graph["quasi_strongly_connected"] and not graph["strongly_connected"]
