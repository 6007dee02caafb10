#include "mutation.h"

namespace gd2fs {

void Mutation::begin(const Decision& decision, const RecordVersion& base,
                     const RecordVersion& version, std::vector<Member> backups) {
  has_begun_ = true;
  change_ = decision.change;
  base_ = base;
  version_ = version;
  backups_ = std::move(backups);
}

Mutation::End Mutation::end() const {
  if (accepted_ == backups_.size()) return End::accepted;
  if (accepted_ + refused_ + unsent_ < backups_.size()) return End::none;
  return accepted_ + refused_ == 0 ? End::untouched : End::unknown;
}

}  // namespace gd2fs
