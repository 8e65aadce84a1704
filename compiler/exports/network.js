const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array };

/** A typed array of an input or output, with these bytes. */
export function typed(value, buffer) {
  return new ARRAYS[value.type](buffer);
}

/** What the network takes and gives: for each name its type, its shape, and where it is quantized scale and zero point. */
export const { inputs, outputs } = NETWORK;

/**
 * A network with memory of its own. `code` has its two functions, `reserve(bytes)` for that memory, and for places in
 * it `address(place)` and `view(kind, place, length)`; addresses are elements of `code.pointers`.
 */
class Network {
  #code;
  #places = {};         // of each input and output, in bytes
  #arguments;

  constructor(code, weights) {
    if (weights && weights.length !== NETWORK.weights_bytes) {
      throw new Error(`weights must have ${NETWORK.weights_bytes} bytes, not ${weights.length}`);
    }
    const pointer = code.pointers.BYTES_PER_ELEMENT, names = [...Object.keys(inputs), ...Object.keys(outputs)];
    let end = 0;
    const take = bytes => {
      const begin = end;
      end = aligned(begin + bytes);
      return begin;
    };
    const self = take(pointer), given = take(pointer * Object.keys(inputs).length);
    const made = take(pointer * Object.keys(outputs).length), arena = take(NETWORK.arena_bytes);
    const data = weights && take(weights.length);
    for (const [name, value] of [...Object.entries(inputs), ...Object.entries(outputs)]) {
      this.#places[name] = take(ARRAYS[value.type].BYTES_PER_ELEMENT * count(value.shape));
    }
    code.reserve(end);
    if (weights) code.view(Uint8Array, data, weights.length).set(weights);
    const point = (place, arrays) => code.view(code.pointers, place, Object.keys(arrays).length)
      .set(Object.keys(arrays).map(name => code.address(this.#places[name])));
    point(given, inputs);
    point(made, outputs);
    check(code.init(code.address(self), weights ? code.address(data) : code.nothing));
    this.#code = code;
    this.#arguments = [self, given, made, arena].map(code.address);
  }

  /** One inference: typed arrays by name, in row-major order. The results are copies. */
  run(given) {
    for (const [name, value] of Object.entries(inputs)) {
      const array = given[name], kind = ARRAYS[value.type];
      if (!(array instanceof kind) || array.length !== count(value.shape)) {
        throw new TypeError(`Input ${name} must be a ${kind.name} of ${count(value.shape)} elements`);
      }
      this.#code.view(kind, this.#places[name], array.length).set(array);
    }
    check(this.#code.run(...this.#arguments));
    return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [
      name, this.#code.view(ARRAYS[value.type], this.#places[name], count(value.shape)).slice()]));
  }
}

function count(shape) {
  return shape.reduce((left, right) => left * right, 1);
}

function aligned(bytes) {
  return Math.ceil(bytes / NETWORK.alignment) * NETWORK.alignment;
}

function check(status) {
  if (status) throw new Error(NETWORK.status[status] ?? `status ${status}`);
}

function beside(name) {
  return new URL(name, import.meta.url);
}
