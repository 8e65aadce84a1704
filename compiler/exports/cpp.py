"""A network as a class of C++17: ``NAME.hpp``, a header over ``NAME.h`` that owns its memory."""

from collections.abc import Sequence

from .interface import CArray, CInterface
from .names import c_type


def cpp(of: CInterface) -> str:
    """The text of ``NAME.hpp``, free of warnings."""
    inputs = [_parameter("const ", array, member)
              for array, member in zip(of.inputs, of.input_members, strict=True)]
    outputs = [_parameter("", array, member)
               for array, member in zip(of.outputs, of.output_parameters, strict=True)]
    return _TEXT.format(
        name=of.name, prefix=of.prefix, title=of.title or of.name,
        parameters=(",\n" + 13 * " ").join([*inputs, *outputs]),
        checks="\n".join([*_checks("input", of.input_members, of.input_members, of.prefix),
                          *_checks("output", of.output_parameters, of.output_members,
                                   of.prefix)]),
        inputs=", ".join(f"{member}.data()" for member in of.input_members) or "nullptr",
        outputs=", ".join(f"{name}.data()" for name in of.output_parameters),
        meanings="\n".join(f'            case {of.prefix}{end}: return "{meaning}";'
                           for end, meaning in of.all_statuses),
        constructors=_APART.format(name=of.name, prefix=of.prefix) if of.weights_bytes
        else _INSIDE.format(name=of.name))


def _parameter(const: str, array: CArray, member: str) -> str:
    return f"Span<{const}{c_type(array.dtype)}> {member}"


def _checks(kind: str, names: Sequence[str], members: Sequence[str], prefix: str) -> list[str]:
    return [f'        require("{kind} {member}", {name}.size(), '
            f"{prefix}{kind.upper()}_{member.upper()}_ELEMENTS);"
            for name, member in zip(names, members, strict=True)]


_INSIDE = """\
    Network() : arena_(allocated({name}_lockstep::arena_bytes)) {{ begin(nullptr); }}
"""

_APART = """\
    /// The network with these weights, the content of {name}.bin, which it keeps a copy of.
    explicit Network(Span<const unsigned char> weights)
        : weights_(copied(weights)), arena_(allocated({name}_lockstep::arena_bytes)) {{
        begin(weights_.get());
    }}

    /// The network with the weights of a file.
    explicit Network(const std::string &path) : Network(read(path)) {{}}
"""

_TEXT = """\
// {title}
//
//     #include "{name}.hpp"
//     {name}_lockstep::Network network;        // one for each thread; a copy shares the weights
//     network.run(...);

#ifndef {prefix}HPP
#define {prefix}HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "{name}.h"

namespace {name}_lockstep {{

constexpr std::size_t arena_bytes = {prefix}ARENA_BYTES;

/// What the network answered where it could not run.
class Error : public std::runtime_error {{
  public:
    explicit Error(std::int32_t status)
        : std::runtime_error(std::string("{name}: ") + meaning(status)), status(status) {{}}

    static const char *meaning(std::int32_t status) {{
        switch (status) {{
{meanings}
            default: return "an unknown status";
        }}
    }}

    const std::int32_t status;
}};

/// Elements of the caller's that lie side by side (C++20 has std::span).
template <class T> class Span {{
  public:
    Span(T *data, std::size_t size) : data_(data), size_(size) {{}}
    template <std::size_t N> Span(T (&array)[N]) : data_(array), size_(N) {{}}
    template <class Container,
              class = decltype(static_cast<T *>(std::declval<Container &>().data()))>
    Span(Container &&elements) : data_(elements.data()), size_(elements.size()) {{}}

    T *data() const {{ return data_; }}
    std::size_t size() const {{ return size_; }}

  private:
    T *data_;
    std::size_t size_;
}};

/// A network with an arena of its own.
class Network {{
  public:
{constructors}
    Network(const Network &other) : weights_(other.weights_), arena_(allocated(arena_bytes)) {{
        begin(weights_.get());
    }}
    Network(Network &&) = default;
    Network &operator=(Network &&) = default;
    Network &operator=(const Network &other) {{ return *this = Network(other); }}

    /// Computes the outputs of one inference. Throws std::invalid_argument for another number of
    /// elements, Error where the network cannot run.
    void run({parameters}) {{
{checks}
        const {name}_inputs given = {{{inputs}}};
        const {name}_outputs made = {{{outputs}}};
        require({name}_run(&self_, &given, &made, arena_.get()));
    }}

  private:
    struct Free {{
        void operator()(void *memory) const {{
            ::operator delete(memory, std::align_val_t({prefix}ARENA_ALIGNMENT));
        }}
    }};
    using Memory = std::unique_ptr<void, Free>;

    static Memory allocated(std::size_t bytes) {{
        return Memory(::operator new(bytes + 1, std::align_val_t({prefix}ARENA_ALIGNMENT)));
    }}

    static std::shared_ptr<const void> copied(Span<const unsigned char> bytes) {{
        require("file of weights", bytes.size(), {prefix}WEIGHTS_BYTES);
        Memory memory = allocated(bytes.size());
        std::memcpy(memory.get(), bytes.data(), bytes.size());
        return std::shared_ptr<void>(std::move(memory));
    }}

    static std::vector<unsigned char> read(const std::string &path) {{
        std::ifstream file(path, std::ios::binary);
        if (!file) throw std::invalid_argument(path + " cannot be read");
        return {{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
    }}

    static void require(const char *what, std::size_t size, std::size_t wanted) {{
        if (size != wanted)
            throw std::invalid_argument(std::string(what) + " must have " + std::to_string(wanted) +
                                        " elements, not " + std::to_string(size));
    }}

    static void require(std::int32_t status) {{
        if (status != {prefix}DONE) throw Error(status);
    }}

    void begin(const void *weights) {{ require({name}_init(&self_, weights)); }}

    std::shared_ptr<const void> weights_;
    Memory arena_;
    struct {name} self_ {{}};
}};

}}  // namespace {name}_lockstep

#endif
"""
