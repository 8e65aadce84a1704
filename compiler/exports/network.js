const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array };
const POINTER = 4, LINE = 64;       // bytes

/** A typed array of an input or output, with these bytes. */
export function typed(value, buffer) {
  return new ARRAYS[value.type](buffer);
}

/** What the network takes and gives: for each name its type, its shape, and where it is quantized scale and zero point. */
export const { inputs, outputs } = NETWORK;

/**
 * The network, ready to run. `code` is its WebAssembly: an address, a Response, or bytes; `weights` is the same for
 * the file of weights, where they are apart. By default both lie beside this module.
 */
export async function load(code = beside(NETWORK.code), weights = NETWORK.weights && beside(NETWORK.weights)) {
  const [module, data] = await Promise.all([bytesOf(code), weights && bytesOf(weights)]);
  const { instance } = await WebAssembly.instantiate(module, {});
  return new Network(instance.exports, data);
}

/** A network with memory of its own. */
class Network {
  #exports;
  #places = {};         // of each input and output, in bytes
  #arguments;

  constructor(exports, weights) {
    this.#exports = exports;
    const size = value => ARRAYS[value.type].BYTES_PER_ELEMENT * count(value.shape);
    let end = Number(exports.__heap_base.value);
    const take = bytes => {
      const begin = Math.ceil(end / LINE) * LINE;
      end = begin + bytes;
      return begin;
    };
    const self = take(POINTER), given = take(POINTER * Object.keys(inputs).length);
    const made = take(POINTER * Object.keys(outputs).length), arena = take(NETWORK.arena_bytes);
    const data = weights ? take(weights.length) : 0;
    for (const [name, value] of [...Object.entries(inputs), ...Object.entries(outputs)]) {
      this.#places[name] = take(size(value));
    }
    const pages = Math.ceil(end / 65536) - exports.memory.buffer.byteLength / 65536;
    if (pages > 0) exports.memory.grow(pages);
    if (weights) this.#view(Uint8Array, data, weights.length).set(weights);
    Object.keys(inputs).forEach((name, n) => { this.#view(Uint32Array, given, n + 1)[n] = this.#places[name]; });
    Object.keys(outputs).forEach((name, n) => { this.#view(Uint32Array, made, n + 1)[n] = this.#places[name]; });
    check(exports[`${NETWORK.name}_init`](self, data));
    this.#arguments = [self, given, made, arena];
  }

  /** One inference: typed arrays by name, in row-major order. The results are copies. */
  run(given) {
    for (const [name, value] of Object.entries(inputs)) {
      const array = given[name], kind = ARRAYS[value.type];
      if (!(array instanceof kind) || array.length !== count(value.shape)) {
        throw new TypeError(`Input ${name} must be a ${kind.name} of ${count(value.shape)} elements`);
      }
      this.#view(kind, this.#places[name], array.length).set(array);
    }
    check(this.#exports[`${NETWORK.name}_run`](...this.#arguments));
    return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [
      name, this.#view(ARRAYS[value.type], this.#places[name], count(value.shape)).slice()]));
  }

  #view(kind, place, length) {
    return new kind(this.#exports.memory.buffer, place, length);
  }
}

function count(shape) {
  return shape.reduce((left, right) => left * right, 1);
}

function check(status) {
  if (status) throw new Error(NETWORK.status[status] ?? `status ${status}`);
}

function beside(name) {
  return new URL(name, import.meta.url);
}

// The bytes of an address, a Response, or what has bytes. Files are read by Node.js, which fetches none.
async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof URL && source.protocol === "file:") {
    return new Uint8Array(await (await import("node:fs/promises")).readFile(source));
  }
  const response = source instanceof Response ? source : await fetch(source);
  if (!response.ok) throw new Error(`${response.url} cannot be read: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}
