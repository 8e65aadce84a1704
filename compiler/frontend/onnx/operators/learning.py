"""Classical machine learning (ai.onnx.ml) and steps of training."""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator

ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(t, x, y):
    picked = t.emit("gather", x, y.reshape(y.size), axis=x.rank - 1)
    return picked.unsqueeze(0) if x.rank == 1 else picked


@operator("Binarizer", domain=ML)
def binarizer(t, x, *, threshold):
    return (x > threshold).astype(x.dtype)


@operator("LabelEncoder", domain=ML)
def label_encoder(t, x, *, default_float=-0.0, default_int64=-1, default_string="_Unused",
                  default_tensor=None, keys_floats=None, keys_int64s=None, keys_strings=None,
                  keys_tensor=None, values_floats=None, values_int64s=None, values_strings=None,
                  values_tensor=None):
    keys = next((table_keys for table_keys in (keys_floats, keys_int64s, keys_strings, keys_tensor)
                 if table_keys is not None), None)
    forms = [(values_floats, np.float32, default_float), (values_int64s, np.int64, default_int64),
             (values_strings, object, default_string)]
    if values_tensor is not None:
        usual = {"O": default_string, "f": default_float}.get(values_tensor.dtype.kind,
                                                              default_int64)
        kind = object if values_tensor.dtype.kind == "O" else values_tensor.dtype
        forms = [(values_tensor.tolist(), kind, usual)]
    chosen = next(((values, dtype, usual) for values, dtype, usual in forms
                   if values is not None), None)
    if keys is None or chosen is None:
        raise NodeRefused("keys and values must be given")
    values, dtype, usual = chosen
    if default_tensor is not None:
        usual = default_tensor.reshape(-1)[0]
    table = dict(zip(np.asarray(keys, object).tolist(), values, strict=True))

    def encode(features: np.ndarray) -> np.ndarray:
        codes = [table.get(feature, usual) for feature in features.reshape(-1).tolist()]
        return np.array(codes, dtype).reshape(features.shape)

    return t.computed(encode, x)


BRANCHES = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
MEMBER = 6


@operator("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(t, x, *, aggregate_function, leaf_targetids, leaf_weights, membership_values=None,
                  n_targets, nodes_falseleafs, nodes_falsenodeids, nodes_featureids,
                  nodes_hitrates=None, nodes_missing_value_tracks_true=None, nodes_modes,
                  nodes_splits, nodes_trueleafs, nodes_truenodeids, post_transform, tree_roots):
    """Evaluates trees: each leads to a leaf, which has a weight for one target."""
    if post_transform:
        raise NodeRefused(f"post_transform must be 0 (none), not {post_transform}")
    if not 0 <= aggregate_function <= 3:
        raise NodeRefused(f"aggregate_function must be 0 to 3, not {aggregate_function}")
    members = _members(nodes_modes, membership_values)
    tracks = nodes_missing_value_tracks_true or (0,) * len(nodes_modes)

    def leaf_of(row: np.ndarray, node: int) -> int:
        while True:
            value = row[nodes_featureids[node]]
            if nodes_modes[node] == MEMBER:
                holds = value in members[node]
            else:
                holds = bool(BRANCHES[nodes_modes[node]](value, nodes_splits[node]))
            holds = holds or (bool(np.isnan(value)) and bool(tracks[node]))
            ends = nodes_trueleafs if holds else nodes_falseleafs
            node, ended = (nodes_truenodeids if holds else nodes_falsenodeids)[node], ends[node]
            if ended:
                return node

    def evaluate(rows: np.ndarray) -> np.ndarray:
        scores = np.zeros((len(rows), n_targets), rows.dtype)
        for result, row in zip(scores, rows, strict=True):
            weights: dict[int, list[float]] = {}
            for root in tree_roots:
                leaf = leaf_of(row, root)
                weights.setdefault(leaf_targetids[leaf], []).append(leaf_weights[leaf])
            for target, values in weights.items():
                combine = (np.mean, np.sum, np.min, np.max)[aggregate_function]
                result[target] = combine(np.array(values, rows.dtype))
        return scores

    return t.computed(evaluate, x)


def _members(modes, values) -> dict[int, set]:
    """The sets of the membership tests; NaN ends each set."""
    members: dict[int, set] = {}
    nodes = iter([node for node, mode in enumerate(modes) if mode == MEMBER])
    current: set = set()
    for value in [] if values is None else values:
        if np.isnan(value):
            members[next(nodes)], current = current, set()
        else:
            current.add(value)
    return members


def _groups(tensors: tuple[Value, ...], kinds: int) -> list[tuple[Value, ...]]:
    """Groups each parameter with its optimizer state; the inputs list all of one kind together."""
    count = len(tensors) // kinds
    return list(zip(*(tensors[kind * count:(kind + 1) * count] for kind in range(kinds)),
                    strict=True))


def _together(rows: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(output for kind in zip(*rows, strict=True) for output in kind)


@operator("Adagrad", domain=TRAINING)
def adagrad(t, rate, time, *tensors, decay_factor, epsilon, norm_coefficient):
    rows = []
    step = rate / (time.astype(rate.dtype) * decay_factor + 1)
    for x, gradient, squares in _groups(tensors, 3):
        gradient = gradient + x * norm_coefficient
        squares = squares + gradient * gradient
        rows.append((x - gradient * step / (squares.sqrt() + epsilon), squares))
    return _together(rows)


@operator("Momentum", domain=TRAINING)
def momentum(t, rate, time, *tensors, alpha, beta, mode, norm_coefficient):
    if mode not in ("standard", "nesterov"):
        raise NodeRefused(f"mode must be standard or nesterov, not {mode}")
    first = time.equal(0)
    rows = []
    for x, gradient, velocity in _groups(tensors, 3):
        gradient = gradient + x * norm_coefficient
        share = first.where(rate.like(1.0), rate.like(beta))
        velocity = velocity * alpha + gradient * share
        move = gradient + velocity * alpha if mode == "nesterov" else velocity
        rows.append((x - move * rate, velocity))
    return _together(rows)


@operator("Adam", domain=TRAINING)
def adam(t, rate, time, *tensors, alpha, beta, epsilon, norm_coefficient, norm_coefficient_post):
    steps = time.astype(rate.dtype)
    corrected = rate * (1 - rate.like(beta) ** steps).sqrt() / (1 - rate.like(alpha) ** steps)
    corrected = time.equal(0).where(rate, corrected)
    rows = []
    for x, gradient, mean, square in _groups(tensors, 4):
        gradient = gradient + x * norm_coefficient
        mean = mean * alpha + gradient * (1 - alpha)
        square = square * beta + gradient * gradient * (1 - beta)
        stepped = x - mean * corrected / (square.sqrt() + epsilon)
        rows.append((stepped * (1 - norm_coefficient_post), mean, square))
    return _together(rows)
