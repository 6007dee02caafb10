#include "scan.h"

#include <algorithm>
#include <array>
#include <optional>

#include "../checksum.h"
#include "grain_buffer.h"
#include "latch.h"
#include "log.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

constexpr std::uint64_t WHOLE_READ_BYTES = 1 * MiB;      // where every byte is looked at
constexpr std::uint64_t SMALL_RECORD_BYTES = 128 * KiB;  // such are read several at a time
constexpr std::uint64_t SMALL_READ_BYTES = 512 * KiB;

/// A part of the file in memory, moved along as it is asked for.
class Window {
 public:
  Window(DiskIo& io, int file, std::uint64_t end)
      : io_(io), file_(file), end_(end / GRAIN_BYTES * GRAIN_BYTES) {}

  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t read_errors() const noexcept { return read_errors_; }
  void set_end(std::uint64_t end) noexcept { end_ = std::min(end_, end); }

  /// `bytes` from `from` on, valid until the next call; `ahead` are read when it has to be read at
  /// all. Empty: they lie beyond the end, or cannot be read.
  std::span<const std::byte> at(std::uint64_t from, std::uint64_t bytes, std::uint64_t ahead) {
    if (from > end_ || bytes > end_ - from) return {};
    if (from < from_ || from + bytes > from_ + bytes_) load(from, bytes, ahead);
    if (bytes_ < bytes) return {};
    return std::span<const std::byte>(buffer_.span()).subspan(from - from_, bytes);
  }

 private:
  void load(std::uint64_t from, std::uint64_t bytes, std::uint64_t ahead) {
    const std::uint64_t first = from / GRAIN_BYTES * GRAIN_BYTES;
    const std::uint64_t wanted = std::max(whole_grains(from + bytes) - first, ahead);
    const std::uint64_t got = std::min(wanted, end_ - first);
    if (buffer_.size() < got) buffer_ = GrainBuffer(got);
    const iovec run{buffer_.span().data(), got};
    const bool is_read = transfer_now(io_, IoKind::read, file_, first, run) == 0;
    from_ = first;
    bytes_ = is_read ? got : 0;
    read_errors_ += is_read ? 0 : 1;
  }

  DiskIo& io_;
  const int file_;
  std::uint64_t end_;
  GrainBuffer buffer_;
  std::uint64_t from_ = 0, bytes_ = 0;
  std::uint64_t read_errors_ = 0;
};

/// The first grains of headers that are likely to come: records in a row are mostly of one length.
class Guesses {
 public:
  Guesses(DiskIo& io, int file) : io_(io), file_(file) {}

  /// The grain at `from`, read with those that follow at that distance. Empty: it cannot be read.
  std::span<const std::byte> at(std::uint64_t from, std::uint64_t stride, std::uint64_t end) {
    for (Guess& each : guesses_)
      if (each.is_read && each.at == from) return each.grain.span();
    load(from, stride, end);
    return guesses_[0].is_read ? guesses_[0].grain.span() : std::span<std::byte>{};
  }

 private:
  struct Guess {
    GrainBuffer grain{GRAIN_BYTES};
    std::uint64_t at = 0;
    bool is_read = false;
  };

  void load(std::uint64_t from, std::uint64_t stride, std::uint64_t end) {
    Latch latch(guesses_.size());
    for (std::size_t i = 0; i < guesses_.size(); ++i) {
      Guess& guess = guesses_[i];
      guess.at = from + i * stride;
      guess.is_read = false;
      if (guess.at + GRAIN_BYTES > end) {
        latch.arrive(0);
        continue;
      }
      const iovec run{guess.grain.span().data(), GRAIN_BYTES};
      transfer(io_, IoKind::read, file_, guess.at, {run}, [&latch, &guess](int error) {
        guess.is_read = error == 0;
        latch.arrive(error);
      });
    }
    latch.wait();
  }

  DiskIo& io_;
  const int file_;
  std::array<Guess, 8> guesses_;
};

class Scanner {
 public:
  Scanner(DiskIo& io, int file, std::uint64_t bytes)
      : window_(io, file, bytes), guesses_(io, file) {}

  ScannedSegment run() {
    std::uint64_t at = read_front() ? FRONT_BYTES : window_.end();
    while (at < window_.end()) at = step(at);
    found_.read_errors = window_.read_errors();
    return std::move(found_);
  }

 private:
  /// False: there is nothing in it.
  bool read_front() {
    const auto front = window_.at(0, FRONT_BYTES, 0);
    if (front.empty()) return false;
    const auto head = decode_head(front.first(GRAIN_BYTES));
    const auto seal = decode_seal(front.subspan(GRAIN_BYTES));
    const bool is_blank = std::all_of(front.begin(), front.begin() + GRAIN_BYTES,
                                      [](std::byte byte) { return byte == std::byte{0}; });
    if (!head && !is_blank) ++found_.corrupt_headers;
    found_.id = head ? head->id : seal ? seal->id : 0;
    if (head) found_.node_name = head->node_name;
    found_.is_sealed = seal && seal->id == found_.id;
    if (found_.is_sealed) window_.set_end(seal->end);
    return found_.id != 0;
  }

  std::uint64_t ahead() const noexcept {
    if (!found_.is_sealed) return WHOLE_READ_BYTES;
    return last_bytes_ <= SMALL_RECORD_BYTES ? SMALL_READ_BYTES : 0;
  }

  std::optional<RecordHead> header_at(std::uint64_t at, std::uint64_t ahead_bytes) {
    const std::uint32_t bytes =
        claimed_header_bytes(window_.at(at, GRAIN_BYTES, ahead_bytes), found_.id, at);
    if (bytes == 0) return std::nullopt;
    return decode_record(window_.at(at, bytes, ahead_bytes), found_.id, at);
  }

  bool is_worth_guessing() const noexcept {
    return found_.is_sealed && last_bytes_ > SMALL_RECORD_BYTES;
  }

  std::optional<RecordHead> guessed_at(std::uint64_t at) {
    const auto grain = guesses_.at(at, last_bytes_, window_.end());
    auto head = decode_record(grain, found_.id, at);
    return head ? head : header_at(at, 0);  // of more than a grain, or wrong
  }

  /// Where the next one may be.
  std::uint64_t step(std::uint64_t at) {
    auto head = is_worth_guessing() ? guessed_at(at) : header_at(at, ahead());
    if (!head || head->bytes() > window_.end() - at) return search(at);
    found_.serial_max = std::max(found_.serial_max, head->serial);
    last_bytes_ = head->bytes();
    const std::uint64_t next = at + head->bytes();
    found_.end = next;
    if (head->is_struck) return next;
    const bool is_whole = found_.is_sealed || is_payload_right(*head);
    (is_whole ? found_.records : found_.torn).push_back(std::move(*head));
    return next;
  }

  std::uint64_t search(std::uint64_t at) {
    const auto first = window_.at(at, GRAIN_BYTES, ahead());
    if (found_.is_sealed || claimed_header_bytes(first, found_.id, at) != 0)
      ++found_.corrupt_headers;
    std::uint64_t next = at + GRAIN_BYTES;
    while (next < window_.end() && !header_at(next, WHOLE_READ_BYTES)) next += GRAIN_BYTES;
    if (!found_.is_sealed && next < window_.end()) found_.holes.push_back({at, next - at});
    return next;
  }

  bool is_payload_right(const RecordHead& head) {
    std::uint64_t at = head.offset + head.header_bytes;
    std::uint64_t left = head.piece.length;
    for (const std::uint64_t hash : head.piece.hashes) {
      const std::uint64_t bytes = std::min<std::uint64_t>(left, BLOCK_BYTES);
      const auto block = window_.at(at, bytes, WHOLE_READ_BYTES);
      if (block.size() != bytes || checksum(block) != hash) return false;
      at += bytes;
      left -= bytes;
    }
    return true;
  }

  Window window_;
  Guesses guesses_;
  ScannedSegment found_;
  std::uint64_t last_bytes_ = 0;
};

}  // namespace

ScannedSegment scan_segment(DiskIo& io, int file, std::uint64_t bytes) {
  return Scanner(io, file, bytes).run();
}

int settle_segment(DiskIo& io, int file, const ScannedSegment& scanned) {
  Latch latch(scanned.torn.size() + scanned.holes.size() + 1);
  const auto arrive = [&](int error) { latch.arrive(error); };
  for (const RecordHead& torn : scanned.torn)
    write_strike(io, file, scanned.id, torn.offset, torn.header_bytes, torn.piece.length, arrive);
  for (const auto& hole : scanned.holes)
    write_strike(io, file, scanned.id, hole.offset, GRAIN_BYTES, hole.bytes - GRAIN_BYTES, arrive);
  latch.arrive(0);
  if (const int error = latch.wait(); error != 0) return error;
  if (const int error = sync_now(io, file); error != 0) return error;
  GrainBuffer grain(GRAIN_BYTES);
  encode(SegmentSeal{scanned.id, scanned.end}, grain.span());
  return transfer_now(io, IoKind::write, file, GRAIN_BYTES, {grain.span().data(), GRAIN_BYTES});
}

}  // namespace gd2fs::disk
