// Offer: one OFFER from its reservation to its RESPONSE. Which bytes of which item are still to
// come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node.h"

namespace gd2fs::serve {

/// Frames to be sent, and the requests that end in them.
struct Replies {
  wire::Bytes bytes;
  std::vector<std::uint64_t> ends;
};

struct OfferedItem {
  PieceRef piece;  // while it fills; nothing once it is published, refused or corrupt
  Status status = Status::cancelled;
  std::uint64_t left = 0;     // granted bytes that have not come yet
  std::vector<bool> claimed;  // blocks that a DATA frame has announced; empty: not granted
};

struct Offer {
  std::uint64_t request = 0;
  wire::Request body;
  std::vector<bool> refused;  // items that a site's rule does not let in; or empty
  bool is_eager = false;
  bool is_over = false;
  std::int64_t deadline_ms = 0;  // 0: none
  std::int64_t granted_ms = 0;
  std::size_t reserved_count = 0;  // items that were looked at, from the first on
  std::size_t open_count = 0;      // granted items that have not ended
  std::size_t pull_count = 0;      // one-sided transfers that are waiting, or under way
  std::vector<OfferedItem> items;

  bool is_granted() const noexcept { return reserved_count == items.size(); }
  /// Nothing of it can come any more.
  bool is_done() const noexcept { return open_count == 0 && pull_count == 0; }
};
using OfferRef = std::shared_ptr<Offer>;

/// Nothing wrong: ok. A piece that breaks a rule: invalid.
Status offered_item_fault(const wire::Item& item);
/// Marks the blocks of a DATA piece as announced. Nothing wrong: an empty string.
std::string claim(Offer& offer, const wire::DataPiece& piece);
void encode_grants(const Offer& offer, wire::Bytes& out);
void encode_offer_response(const Offer& offer, wire::Bytes& out);

}  // namespace gd2fs::serve
