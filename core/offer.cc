#include "offer.h"

#include "name.h"

namespace gd2fs::serve {
namespace {

std::string fault_of(const wire::DataPiece& piece, const char* what) {
  return "DATA for item " + std::to_string(piece.item) + ", " + std::to_string(piece.length) +
         " B at " + std::to_string(piece.offset) + ": " + what;
}

}  // namespace

Status offered_item_fault(const wire::Item& item) {
  const bool is_page = (item.flags & wire::ITEM_PAGE) != 0;
  if (!is_valid_name(item.name, is_page) || item.length == 0) return Status::invalid;
  if (is_page) {
    const bool is_whole = item.offset == 0 && item.chunk == 0 && item.length <= PAGE_BYTES_MAX;
    return is_whole ? Status::ok : Status::invalid;
  }
  const bool is_fit =
      item.offset <= CHUNK_BYTES_MAX && item.length <= CHUNK_BYTES_MAX - item.offset;
  return is_fit && item.tag != 0 ? Status::ok : Status::invalid;
}

std::string claim(Offer& offer, const wire::DataPiece& piece) {
  if (piece.item >= offer.reserved_count) return fault_of(piece, "no such item was granted");
  OfferedItem& item = offer.items[piece.item];
  if (item.claimed.empty()) return {};  // refused: its bytes are thrown away
  const wire::Item& offered = offer.body.items[piece.item];
  if (piece.offset > offered.length || piece.length > offered.length - piece.offset) {
    return fault_of(piece, "past the end of what was offered");
  }
  const bool is_to_end = piece.offset + piece.length == offered.length;
  if (piece.offset % BLOCK_BYTES != 0 || (piece.length % BLOCK_BYTES != 0 && !is_to_end)) {
    return fault_of(piece, "not cut at the piece's blocks");
  }
  if (piece.hashes == 0 && (offered.flags & wire::ITEM_NO_VERIFY) == 0) {
    return fault_of(piece, "without sums");
  }
  const std::size_t first = piece.offset / BLOCK_BYTES;
  for (std::size_t block = first; block < first + wire::blocks_of(piece.length); ++block) {
    if (item.claimed[block]) return fault_of(piece, "these bytes came before");
    item.claimed[block] = true;
  }
  return {};
}

void encode_grants(const Offer& offer, wire::Bytes& out) {
  std::vector<wire::Grant> grants(offer.items.size());
  for (std::size_t index = 0; index < grants.size(); ++index) {
    const Status status = offer.items[index].status;
    grants[index] = {.item = static_cast<std::uint16_t>(index),
                     .status = status,
                     .retry_ms = status == Status::retry ? RETRY_MS : 0,
                     .length = status == Status::ok ? offer.body.items[index].length : 0};
  }
  wire::encode_grant(out, offer.request, grants);
}

void encode_offer_response(const Offer& offer, wire::Bytes& out) {
  std::vector<wire::ResponseItem> answers(offer.items.size());
  for (std::size_t index = 0; index < answers.size(); ++index) {
    const Status status = offer.items[index].status;
    answers[index] = {.item = static_cast<std::uint16_t>(index),
                      .status = status,
                      .detail = status == Status::retry ? RETRY_MS : 0,
                      .length = offer.body.items[index].length,
                      .gen = offer.body.items[index].tag};
  }
  wire::encode_response(out, offer.request, answers);
}

}  // namespace gd2fs::serve
