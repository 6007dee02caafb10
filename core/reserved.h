// Reserved: a piece with memory of its own that is yet to be filled, or why there is none.
#pragma once

#include "error.h"
#include "piece.h"

namespace gd2fs {

struct Reserved {
  // ok; have: a complete page, or this very tag, is here. retry: not now. full: not as long as
  // quotas and pins are what they are.
  Status status = Status::full;
  PieceRef piece;  // with ok only
};

}  // namespace gd2fs
