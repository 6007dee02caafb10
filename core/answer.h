// Answer: the RESPONSE that ends a whole request in one status, in the shape that its op promises.
#pragma once

#include <cstdint>

#include "wire.h"

namespace gd2fs::serve {

void answer_all(wire::Bytes& out, std::uint64_t request, wire::Op op, std::size_t items,
                Status status);

}  // namespace gd2fs::serve
