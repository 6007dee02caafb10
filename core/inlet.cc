#include "inlet.h"

#include <algorithm>
#include <cstring>

namespace gd2fs::serve {
namespace {

constexpr std::size_t IDLE_BYTES_MAX = 64 * KiB;  // an empty buffer larger than this is given back

}  // namespace

std::optional<Inlet::Frame> Inlet::next(std::size_t frame_bytes_max, std::string& fault) {
  if (buffered() < HEADER_BYTES) return {};
  const wire::View head = wire::View(buffer_).subspan(begin_, HEADER_BYTES);
  const auto header = wire::decode_header(head);
  if (!header) {
    fault = "a frame header is malformed or over a limit";
    return {};
  }
  if (header->frame_bytes > frame_bytes_max) {
    fault = "a frame of " + std::to_string(header->frame_bytes) + " B, at most " +
            std::to_string(frame_bytes_max) + " here";
    return {};
  }
  needed_ = HEADER_BYTES + header->table_bytes;
  if (buffered() < needed_) return {};
  const wire::View table = wire::View(buffer_).subspan(begin_ + HEADER_BYTES, header->table_bytes);
  if (!wire::check_matches(head, table)) {
    fault = "the check of a frame is wrong";
    return {};
  }
  begin_ += needed_;
  needed_ = HEADER_BYTES;
  return Frame{*header, table};
}

void Inlet::copy_out(std::span<const iovec> into, std::size_t bytes) {
  for (const iovec& run : into) {
    const std::size_t taken = std::min(run.iov_len, bytes);
    std::memcpy(run.iov_base, buffer_.data() + begin_, taken);  // `bytes` <= buffered()
    begin_ += taken;
    bytes -= taken;
  }
}

iovec Inlet::room(std::size_t wanted) {
  if (begin_ == end_) begin_ = end_ = 0;
  const std::size_t missing = needed_ > buffered() ? needed_ - buffered() : 1;
  const std::size_t bytes = std::max(missing, wanted);
  if (begin_ > 0 && end_ + bytes > buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());  // regions may overlap
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == 0 && bytes <= IDLE_BYTES_MAX && buffer_.size() > IDLE_BYTES_MAX) {
    wire::Bytes(bytes).swap(buffer_);
  }
  if (end_ + bytes > buffer_.size()) buffer_.resize(end_ + bytes);
  return {buffer_.data() + end_, bytes};
}

}  // namespace gd2fs::serve
