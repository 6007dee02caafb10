#include "pull.h"

namespace gd2fs {

void Pull::answered(const PullAnswer& answer, bool may_return) {
  ++answers_;
  // Whatever was acknowledged is on all of them, so any one's record is as good.
  if (answer.kind == PullAnswer::Kind::record && full_ == nullptr) full_ = answer.full;
  if (answer.kind != PullAnswer::Kind::refused) return;
  is_unsure_ = true;
  may_return_ = may_return_ || may_return;
}

Pull::End Pull::end() const {
  if (full_ != nullptr) return End::record;
  if (answers_ < asked_.size()) return End::none;
  return is_unsure_ ? End::unknown : End::absent;
}

}  // namespace gd2fs
