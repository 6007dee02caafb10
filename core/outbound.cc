#include "outbound.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

namespace gd2fs {

namespace {

constexpr std::size_t RUNS_PER_SEND_MAX = 256;
constexpr std::size_t ZEROS_BYTES = 64 * KiB;
constexpr std::size_t JOINED_RUNS_MIN = 4;
constexpr std::size_t JOINED_BYTES_MAX = 256 * KiB;  // of a frame
// A DATA frame of the smallest pieces: each has 24 bytes and one sum in the table.
constexpr std::size_t PIECES_MAX = ITEMS_MAX;
static_assert(PIECES_MAX * (24 + 8) <= TABLE_BYTES_MAX);

std::array<std::byte, ZEROS_BYTES> zeros{};

/// What errno says of a channel that took nothing.
Outbound::Progress fault_progress() {
  const bool is_blocked = errno == EAGAIN || errno == EWOULDBLOCK;
  return is_blocked ? Outbound::Progress::blocked : Outbound::Progress::closed;
}

}  // namespace

void Outbound::upload(std::uint64_t request, Rpc& rpc, std::vector<std::uint16_t> items,
                      bool is_named) {
  if (!items.empty()) uploads_.push_back({request, &rpc, std::move(items), is_named});
}

void Outbound::forget(std::uint64_t request) {
  std::erase_if(uploads_, [&](const Upload& upload) { return upload.request == request; });
  if (frame_request_ != request) return;
  frame_request_ = 0;
  // The head is our own memory and comes first; what follows it is the caller's.
  std::vector<iovec> rest;
  for (std::size_t at = run_; at < runs_.size(); ++at) {
    if (at == 0) {
      rest.push_back(runs_[at]);
      continue;
    }
    for (std::size_t left = runs_[at].iov_len; left != 0;) {
      const std::size_t here = std::min(left, ZEROS_BYTES);
      rest.push_back({zeros.data(), here});
      left -= here;
    }
  }
  runs_ = std::move(rest);
  run_ = 0;
}

bool Outbound::is_empty() const noexcept {
  return run_ == runs_.size() && control_.empty() && uploads_.empty();
}

Outbound::Progress Outbound::send(Channel& channel, std::uint64_t consumed) {
  if (!channel.flush()) return fault_progress();
  while (run_ < runs_.size() || next_frame(consumed)) {
    const std::size_t count = std::min(runs_.size() - run_, RUNS_PER_SEND_MAX);
    const ssize_t sent = channel.send(std::span(runs_).subspan(run_, count));
    if (sent >= 0) {
      step_over(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return fault_progress();
    }
  }
  return Progress::drained;
}

void Outbound::step_over(std::size_t bytes) {
  while (run_ < runs_.size()) {
    iovec& run = runs_[run_];
    const std::size_t here = std::min(bytes, run.iov_len);
    run.iov_base = static_cast<std::byte*>(run.iov_base) + here;
    run.iov_len -= here;
    bytes -= here;
    if (run.iov_len != 0) return;
    ++run_;
  }
  frame_request_ = 0;
}

/// Prepares what is sent next. False: there is nothing.
bool Outbound::next_frame(std::uint64_t consumed) {
  runs_.clear();
  run_ = 0;
  head_.clear();
  if (!control_.empty()) {
    head_.swap(control_);
    runs_.push_back({head_.data(), head_.size()});
    return true;
  }
  if (uploads_.empty()) return false;
  Upload upload = std::move(uploads_.front());
  uploads_.pop_front();
  build_data(upload, consumed);
  if (upload.at < upload.items.size()) uploads_.push_back(std::move(upload));  // in turn
  return true;
}

void Outbound::build_data(Upload& upload, std::uint64_t consumed) {
  table_.pieces.clear();
  table_.hashes.clear();
  runs_.push_back({});  // the head, once it is known
  std::size_t room = upload.is_named ? TRANSFER_BYTES_MAX : payload_max_;
  while (upload.at < upload.items.size() && table_.pieces.size() < PIECES_MAX) {
    const std::uint16_t item = upload.items[upload.at];
    Body& body = upload.rpc->bodies[item];
    if (body.moved == body.bytes) {  // granted twice
      ++upload.at;
      continue;
    }
    const std::size_t taken = add_piece(body, item, room);
    if (taken == 0) break;
    room -= taken;
    if (body.moved == body.bytes) ++upload.at;
  }
  upload.is_named ? finish_source(upload, consumed) : finish_data(upload.request, consumed);
}

void Outbound::finish_data(std::uint64_t request, std::uint64_t consumed) {
  wire::encode_data(head_, request, 0, table_, consumed);
  runs_.front() = {head_.data(), head_.size()};
  frame_request_ = request;
  if (is_joining_) join_runs();
}

/// Nothing of the caller's memory travels with it.
void Outbound::finish_source(const Upload& upload, std::uint64_t consumed) {
  source_.sinks.clear();
  for (std::size_t at = 1; at < runs_.size(); ++at) {
    auto* const from = static_cast<std::byte*>(runs_[at].iov_base);
    upload.rpc->name({from, runs_[at].iov_len}, source_.sinks);
  }
  std::swap(source_.data, table_);
  wire::encode_source(head_, upload.request, source_, consumed);
  runs_.assign(1, {head_.data(), head_.size()});
}

void Outbound::join_runs() {
  std::size_t bytes = 0;
  for (const iovec& run : runs_) bytes += run.iov_len;
  if (runs_.size() < JOINED_RUNS_MIN || bytes - head_.size() > JOINED_BYTES_MAX) return;
  head_.reserve(bytes);
  for (std::size_t at = 1; at < runs_.size(); ++at) {
    const auto* const from = static_cast<const std::byte*>(runs_[at].iov_base);
    head_.insert(head_.end(), from, from + runs_[at].iov_len);
  }
  runs_.assign(1, {head_.data(), head_.size()});
}

/// Adds what fits of an item, cut at whole blocks but for its end. Its bytes; 0: nothing fits.
std::size_t Outbound::add_piece(Body& body, std::uint16_t item, std::size_t room) {
  std::size_t bytes = static_cast<std::size_t>(body.bytes - body.moved);
  if (bytes > room) bytes = room - room % BLOCK_BYTES;
  if (bytes == 0) return 0;
  const std::size_t blocks = body.is_summed ? wire::blocks_of(bytes) : 0;
  table_.pieces.push_back({.item = item,
                           .hashes = static_cast<std::uint16_t>(blocks),
                           .length = static_cast<std::uint32_t>(bytes),
                           .offset = body.moved,
                           .tag = body.tag});
  BufferCursor unhashed = body.cursor;
  if (!body.sums.empty()) {
    const auto sums = body.sums.subspan(body.moved / BLOCK_BYTES, blocks);
    table_.hashes.insert(table_.hashes.end(), sums.begin(), sums.end());
  }
  const bool is_to_sum = body.is_summed && body.sums.empty();
  for (std::size_t left = is_to_sum ? bytes : 0; left != 0;) {
    const std::size_t block = std::min(left, BLOCK_BYTES);
    table_.hashes.push_back(unhashed.hash(block));
    left -= block;
  }
  for (std::size_t left = bytes; left != 0;) {
    const Buffer run = body.cursor.next(left);
    assert(run.bytes != 0);
    runs_.push_back({run.at, run.bytes});
    left -= run.bytes;
  }
  body.moved += bytes;
  return bytes;
}

}  // namespace gd2fs
