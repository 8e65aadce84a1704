
/**
 * The network, ready to run. `code` is its WebAssembly: an address, a Response, or bytes; `weights` is the same for
 * the file of weights, where they are apart. By default both lie beside this module.
 */
export async function load(code = beside(NETWORK.code), weights = NETWORK.weights && beside(NETWORK.weights)) {
  const [module, data] = await Promise.all([bytesOf(code), weights && bytesOf(weights)]);
  const { instance } = await WebAssembly.instantiate(module, {});
  return new Network(memoryOf(instance.exports), data);
}

function memoryOf({ __heap_base, memory, [`${NETWORK.name}_init`]: init, [`${NETWORK.name}_run`]: run }) {
  const base = aligned(Number(__heap_base.value));
  return {
    init, run, pointers: Uint32Array, nothing: 0, address: place => base + place,
    view: (kind, place, length) => new kind(memory.buffer, base + place, length),
    reserve(bytes) {
      const pages = Math.ceil((base + bytes) / 65536) - memory.buffer.byteLength / 65536;
      if (pages > 0) memory.grow(pages);
    } };
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
