"""A network as a module of Rust (2021): ``NAME.rs``, over the library, without other crates."""

from collections.abc import Iterator

from .interface import CArray, CInterface

_TYPES = {"float32": "f32", "float64": "f64", "bool": "bool", "float16": "u16", "bfloat16": "u16",
          **{f"{sign}{size}": f"{sign[0]}{size}" for sign in ("int", "uint")
             for size in (8, 16, 32, 64)}}
_WORDS = frozenset("""
    as async await become box break const continue crate do dyn else enum extern false final fn for
    if impl in let loop macro match mod move mut override priv pub ref return self static struct
    super trait true try type typeof unsafe unsized use virtual where while yield Self""".split())


def rust(of: CInterface) -> str:
    """The text of ``NAME.rs``; halves are their bits."""
    return "\n".join(_lines(of)) + "\n"


def _lines(of: CInterface) -> Iterator[str]:
    inputs = [*zip(_members(of.input_members), of.inputs, strict=True)]
    outputs = [*zip(_members(of.output_members), of.outputs, strict=True)]
    made = _members(of.output_parameters)
    parameters = [f"{member}: &[{_type(array)}; {array.elements}]" for member, array in inputs]
    parameters += [f"{name}: &mut [{_type(array)}; {array.elements}]"
                   for name, (_, array) in zip(made, outputs, strict=True)]
    weights = f"weights: &'static [u8; {of.weights_bytes}]" if of.weights_bytes else ""
    yield f"//! {of.title or of.name}"
    yield "//!"
    yield f"//! Link with lib{of.name}.a or lib{of.name}.so. One `Network` for each thread."
    yield ""
    yield f"const MEANINGS: [&str; {len(of.all_statuses)}] = ["
    yield from (f'    "{meaning}",' for _, meaning in of.all_statuses)
    yield "];"
    for kind, arrays in (("Inputs", inputs), ("Outputs", outputs)):
        pointer = "const" if kind == "Inputs" else "mut"
        yield from ("", "#[repr(C)]", f"struct {kind} {{")
        yield from (f"    {member}: *{pointer} {_type(array)}," for member, array in arrays)
        if not arrays:
            yield "    none: *const u8,"
        yield "}"
    yield from ("", 'extern "C" {',
                f"    fn {of.name}_init(network: *mut *const u8, weights: *const u8) -> i32;",
                f"    fn {of.name}_run(network: *const *const u8, inputs: *const Inputs, "
                "outputs: *const Outputs, arena: *mut u8) -> i32;", "}", "",
                f"#[repr(align({of.arena_alignment}))]", "#[derive(Clone, Copy)]",
                "#[allow(dead_code)]", f"struct Line([u8; {of.arena_alignment}]);", "",
                "/// A network with an arena of its own.", "pub struct Network {",
                "    network: *const u8,", "    arena: Vec<Line>,", "}", "",
                "unsafe impl Send for Network {}", "", "impl Network {")
    if of.weights_bytes:
        yield f"    /// The network with the content of {of.name}.bin, which must begin at a"
        yield f"    /// multiple of {of.weights_alignment}."
    yield f"    pub fn new({weights}) -> Result<Network, &'static str> {{"
    yield (f"        let arena = vec![Line([0; {of.arena_alignment}]); "
           f"{-(-of.arena_bytes // of.arena_alignment)}];")
    yield "        let mut made = Network { network: std::ptr::null(), arena };"
    given = "weights.as_ptr()" if of.weights_bytes else "std::ptr::null()"
    yield f"        done(unsafe {{ {of.name}_init(&mut made.network, {given}) }})?;"
    yield from ("        Ok(made)", "    }", "",
                "    /// Computes the outputs of one inference; arrays are in row-major order.",
                "    pub fn run(", "        &mut self,",
                *(f"        {parameter}," for parameter in parameters),
                "    ) -> Result<(), &'static str> {")
    fields = ", ".join(f"{member}: {member}.as_ptr()" for member, _ in inputs)
    yield f"        let inputs = Inputs {{ {fields or 'none: std::ptr::null()'} }};"
    fields = ", ".join(f"{member}: {name}.as_mut_ptr()"
                       for name, (member, _) in zip(made, outputs, strict=True))
    yield f"        let outputs = Outputs {{ {fields} }};"
    yield "        let arena = self.arena.as_mut_ptr() as *mut u8;"
    yield f"        done(unsafe {{ {of.name}_run(&self.network, &inputs, &outputs, arena) }})"
    yield from ("    }", "}", "", "fn done(status: i32) -> Result<(), &'static str> {",
                "    match status {", "        0 => Ok(()),",
                '        _ => Err(MEANINGS.get(status as usize).unwrap_or(&"an unknown status")),',
                "    }", "}")


def _members(names: tuple[str, ...]) -> list[str]:
    return [f"{name}_" if name in _WORDS else name for name in names]


def _type(array: CArray) -> str:
    return _TYPES[array.dtype]
