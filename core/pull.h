// Pull: a home asks those who may have a record that it does not have (R4).
#pragma once

#include <cstdint>
#include <vector>

#include "member.h"
#include "replication.h"

namespace gd2fs {

class Pull {
 public:
  enum class End : std::uint8_t {
    none,     // not over yet
    record,   // `full` has it
    absent,   // all said that there is none
    unknown,  // some were silent
  };

  explicit Pull(std::vector<Member> asked) : asked_(std::move(asked)) {}

  const std::vector<Member>& asked() const noexcept { return asked_; }
  /// What one of them said; refused: nothing that helps. `may_return`: it may help later.
  void answered(const PullAnswer& answer, bool may_return);
  End end() const;
  /// unknown: is it worth while to ask again?
  bool may_be_known_later() const noexcept { return may_return_; }
  const FullRecordRef& full() const noexcept { return full_; }

 private:
  const std::vector<Member> asked_;
  std::size_t answers_ = 0;
  bool is_unsure_ = false;
  bool may_return_ = false;
  FullRecordRef full_;
};

}  // namespace gd2fs
