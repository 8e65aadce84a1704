"""com.microsoft's embeddings of words, places and segments, normalized."""

import numpy as np

from compiler.frontend.building.values import Value
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.normalization import layer_normalization
from compiler.frontend.onnx.operators.quantized.between import Codes


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(t, ids, segment_ids, words, places, segments, gamma, beta, mask=None,
                              place_ids=None, *, epsilon=1e-12, mask_index_type=0):
    batch, length = ids.shape
    rows = t.constant(np.arange(length)) if place_ids is None else place_ids
    total = _rows(t, words, ids) + _rows(t, places, rows)
    if segments is not None:
        total = total + _rows(t, segments, segment_ids)
    result, *_ = layer_normalization(t, total, gamma, beta, axis=-1, epsilon=epsilon)
    counts = t.constant(np.zeros(batch, np.int32)) if mask is None else (
        mask.equal(1).astype("int32").sum(1))
    return result, counts, total


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def qembed_layer_normalization(t, ids, segment_ids, words, places, segments, gamma, beta, mask,
                               words_scale, places_scale, segments_scale, gamma_scale, beta_scale,
                               words_zero, places_zero, segments_zero, gamma_zero, beta_zero, *,
                               epsilon=1e-12):
    tables = ((words, words_scale, words_zero), (places, places_scale, places_zero),
              (segments, segments_scale, segments_zero), (gamma, gamma_scale, gamma_zero),
              (beta, beta_scale, beta_zero))
    numbers = (None if table[0] is None else Codes(*table).numbers(t) for table in tables)
    return embed_layer_normalization(t, ids, segment_ids, *numbers, mask, epsilon=epsilon)


def _rows(t, table: Value, places: Value) -> Value:
    return t.emit("gather", table, places, axis=0)
