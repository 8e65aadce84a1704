
/**
 * The network, ready to run. `code` is its shared library: a path or a file's URL; `weights` is the same for the file
 * of weights, where they are apart, or its bytes. By default both lie beside this module.
 */
export async function load(code = beside(NETWORK.code), weights = NETWORK.weights && beside(NETWORK.weights)) {
  const data = weights && await bytesOf(weights);
  const library = koffi.load(code instanceof URL ? fileURLToPath(code) : code);
  return new Network(memoryOf(library), data);
}

function memoryOf(library) {
  const wide = koffi.sizeof("void *") === 8;
  let memory, skipped, base;
  return {
    init: library.func(`${NETWORK.name}_init`, "int", ["void *", "void *"]),
    run: library.func(`${NETWORK.name}_run`, "int", ["void *", "void *", "void *", "void *"]),
    pointers: wide ? BigUint64Array : Uint32Array, nothing: null,
    address: place => wide ? base + BigInt(place) : Number(base) + place,
    view: (kind, place, length) => new kind(memory, skipped + place, length),
    reserve(bytes) {            // an ArrayBuffer, which stays where it is for as long as the network
      memory = new ArrayBuffer(bytes + NETWORK.alignment);
      const begin = koffi.address(new Uint8Array(memory)), alignment = BigInt(NETWORK.alignment);
      base = (begin + alignment - 1n) / alignment * alignment;
      skipped = Number(base - begin);
    } };
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  return readFile(source);
}
