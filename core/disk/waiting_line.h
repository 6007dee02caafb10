// WaitingLine: requests that wait for their turn at the device. Reads go first, since somebody
// waits for them; but one in four is a write while any waits, so that writes never stand still.
#pragma once

#include <deque>
#include <utility>

#include "io.h"

namespace gd2fs::disk {

class WaitingLine {
 public:
  bool is_empty() const noexcept { return reads_.empty() && writes_.empty(); }
  void push(IoRequest request) {
    (request.kind == IoKind::read ? reads_ : writes_).push_back(std::move(request));
  }
  /// Not of an empty one.
  IoRequest pop() {
    const bool is_write_turn = ++turn_ % 4 == 0;
    auto& from = reads_.empty() || (is_write_turn && !writes_.empty()) ? writes_ : reads_;
    IoRequest next = std::move(from.front());
    from.pop_front();
    return next;
  }

 private:
  std::deque<IoRequest> reads_, writes_;
  unsigned turn_ = 0;
};

}  // namespace gd2fs::disk
