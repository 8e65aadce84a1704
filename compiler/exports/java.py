"""A network as a class of Java, by JNI, which Java 8 and newer and Android have: ``NAME.java`` and
the C that it calls, ``NAME_jni.c``.
"""

from collections.abc import Iterator

from .interface import CArray, CInterface, ExportError

_TYPES = {"float32": "float", "float64": "double", "bool": "boolean", "int8": "byte",
          "uint8": "byte", "int16": "short", "uint16": "short", "float16": "short",
          "bfloat16": "short", "int32": "int", "uint32": "int", "int64": "long", "uint64": "long"}
"""Java has no unsigned numbers and no halves: these are their bits."""


def java_class(of: CInterface) -> str:
    """The name of the class: that of the network, with capitals."""
    return "".join(part[:1].upper() + part[1:] for part in of.name.split("_")) or "Network"


def java(of: CInterface) -> str:
    """The text of the class, in the unnamed package."""
    arrays = [*zip(of.inputs, of.input_members, strict=True),
              *zip(of.outputs, of.output_parameters, strict=True)]
    checks = "\n".join(f'        require("{member}", {member}.length, {array.elements});'
                       for array, member in arrays)
    return _JAVA.format(
        name=of.name, type=java_class(of), title=(of.title or of.name).replace("*/", "* /"),
        parameters=", ".join(f"{_type(array)}[] {member}" for array, member in arrays),
        names="".join(f", {member}" for _, member in arrays), checks=checks,
        arena=of.arena_bytes, alignment=max(of.arena_alignment, of.weights_alignment),
        weights=of.weights_bytes,
        meanings=",\n        ".join(f'"{meaning}"' for _, meaning in of.all_statuses),
        constructors=(_APART if of.weights_bytes else _INSIDE).format(
            type=java_class(of), weights=of.weights_bytes))


def jni(of: CInterface) -> str:
    """The text of the C between the class and the network."""
    return "\n".join(_jni(of)) + "\n"


def _type(array: CArray) -> str:
    if array.dtype not in _TYPES:
        raise ExportError(f"{array.name} must be of a type that Java has, not {array.dtype}")
    return _TYPES[array.dtype]


def _jni(of: CInterface) -> Iterator[str]:
    prefix = f"Java_{java_class(of).replace('_', '_1')}"
    arrays = [*zip(of.inputs, of.input_members, strict=True),
              *zip(of.outputs, of.output_parameters, strict=True)]
    names = [f"array_{member}" for _, member in arrays]
    yield f"/* {of.name} for Java: cc -shared -fPIC -I$JAVA_HOME/include -I$JAVA_HOME/include/linux"
    yield f"   {of.name}_jni.c {of.name}.o -lm -o lib{of.name}_jni.so */"
    yield from ("", "#include <jni.h>", "#include <stddef.h>", "#include <stdint.h>", "",
                f'#include "{of.name}.h"', "")
    yield "/* The first address in a direct buffer that is a multiple of the alignment. */"
    yield "static void *aligned(JNIEnv *env, jobject buffer, uintptr_t alignment)"
    yield "{"
    yield "    char *begin = buffer ? (*env)->GetDirectBufferAddress(env, buffer) : NULL;"
    yield "    uintptr_t over = (uintptr_t)begin % alignment;"
    yield "    return begin ? begin + (over ? alignment - over : 0) : NULL;"
    yield "}"
    yield ""
    yield (f"JNIEXPORT jint JNICALL {prefix}_begin(JNIEnv *env, jclass type, jobject self, "
           f"jobject weights)")
    yield "{"
    yield "    (void)type;"
    yield (f"    return {of.name}_init(aligned(env, self, sizeof(void *)), aligned(env, weights, "
           f"{of.prefix}WEIGHTS_ALIGNMENT));")
    yield "}"
    yield ""
    yield (f"JNIEXPORT jint JNICALL {prefix}_place(JNIEnv *env, jclass type, jobject buffer, "
           f"jint alignment)")
    yield "{"
    yield "    (void)type;"
    yield ("    return (jint)((char *)aligned(env, buffer, (uintptr_t)alignment) - "
           "(char *)aligned(env, buffer, 1));")
    yield "}"
    yield ""
    declared = "".join(f", j{_type(array)}Array {member}" for array, member in arrays)
    yield (f"JNIEXPORT jint JNICALL {prefix}_compute(JNIEnv *env, jclass type, jobject self, "
           f"jobject arena{declared})")
    yield "{"
    yield f"    {of.name}_inputs inputs;"
    yield f"    {of.name}_outputs outputs;"
    yield f"    jint status = {of.prefix}NO_MEMORY;"
    for (array, member), name in zip(arrays, names, strict=True):
        kind = _type(array)
        yield (f"    j{kind} *{name} = (*env)->Get{kind.capitalize()}ArrayElements(env, {member}, "
               f"NULL);")
    yield "    (void)type;"
    if not of.inputs:
        yield "    inputs.none = NULL;"
    for member, name in zip(of.input_members, names, strict=False):
        yield f"    inputs.{member} = (const void *){name};"
    for member, name in zip(of.output_members, names[len(of.inputs):], strict=True):
        yield f"    outputs.{member} = (void *){name};"
    yield f"    if ({' && '.join(names)})"
    yield f"        status = {of.name}_run(aligned(env, self, sizeof(void *)), &inputs, &outputs,"
    yield f"                     aligned(env, arena, {of.prefix}ARENA_ALIGNMENT));"
    for place, ((array, member), name) in enumerate(zip(arrays, names, strict=True)):
        mode = "JNI_ABORT" if place < len(of.inputs) else "0"
        yield (f"    if ({name}) (*env)->Release{_type(array).capitalize()}ArrayElements(env, "
               f"{member}, {name}, {mode});")
    yield "    return status;"
    yield "}"


_INSIDE = """\
    public {type}() {{
        this(null);
    }}
"""

_APART = """\
    /** The network with the weights of a file. */
    public static {type} of(java.nio.file.Path path) throws java.io.IOException {{
        byte[] bytes = java.nio.file.Files.readAllBytes(path);
        require("file of weights", bytes.length, {weights});
        return new {type}(bytes);
    }}
"""

_JAVA = """\
import java.nio.ByteBuffer;

/** {title}. One object for each thread. */
public final class {type} {{
    private static final String[] MEANINGS = {{
        {meanings}}};

    static {{
        System.loadLibrary("{name}_jni");
    }}

    private final ByteBuffer self = ByteBuffer.allocateDirect(64);
    private final ByteBuffer arena = ByteBuffer.allocateDirect({arena} + {alignment});
    private final ByteBuffer weights;

{constructors}
    private {type}(byte[] bytes) {{
        weights = bytes == null ? null : ByteBuffer.allocateDirect(bytes.length + {alignment});
        if (bytes != null) copy(bytes, weights);
        require(begin(self, weights));
    }}

    /**
     * Computes the outputs of one inference. Arrays are in row-major order; bytes and shorts may be
     * the bits of unsigned numbers and of halves. Throws IllegalArgumentException for another
     * length.
     */
    public synchronized void run({parameters}) {{
{checks}
        require(compute(self, arena{names}));
    }}

    private static void copy(byte[] bytes, ByteBuffer into) {{
        into.position(place(into, {alignment}));
        into.put(bytes);
        into.rewind();
    }}

    private static void require(String what, int length, int wanted) {{
        if (length != wanted) {{
            throw new IllegalArgumentException(
                what + " must have " + wanted + " elements, not " + length);
        }}
    }}

    private static void require(int status) {{
        if (status != 0) {{
            throw new IllegalStateException("{name}: " + MEANINGS[status]);
        }}
    }}

    private static native int place(ByteBuffer buffer, int alignment);

    private static native int begin(ByteBuffer self, ByteBuffer weights);

    private static native int compute(ByteBuffer self, ByteBuffer arena, {parameters});
}}
"""
