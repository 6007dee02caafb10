#include "memory_advice.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "mover.h"
#include "name.h"

namespace gd2fs::serve {
namespace {

constexpr std::int64_t PATIENCE_MS = 2'000;  // with those who look at what shall go

enum class Wish : std::uint8_t { load, shed, pin, unpin };

Wish wish_of(const wire::Item& item) {
  const bool is_less = (item.flags & wire::ITEM_DONTNEED) != 0;
  if ((item.flags & wire::ITEM_PIN) != 0) return is_less ? Wish::unpin : Wish::pin;
  return is_less ? Wish::shed : Wish::load;
}

/// A range of a piece.
struct Part {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t bytes() const noexcept { return end - begin; }
};

Part part_of(const Piece& piece, const wire::Item& item) {
  if (piece.is_page() || item.length == 0) {
    const std::uint64_t begin = std::min(item.offset, piece.length());
    const std::uint64_t wanted = item.length == 0 ? piece.length() : item.length;
    return {begin, begin + std::min(wanted, piece.length() - begin)};
  }
  const std::uint64_t end = std::min(item.offset + item.length, piece.offset() + piece.length());
  const std::uint64_t begin = std::max(item.offset, piece.offset());
  return {begin - piece.offset(), std::max(begin, end) - piece.offset()};
}

class MemoryAdvice : public std::enable_shared_from_this<MemoryAdvice> {
 public:
  using Reply = std::function<void(const std::vector<wire::ResponseItem>&)>;

  MemoryAdvice(Node& node, wire::Request request, std::int64_t deadline_ms, StopRef stop,
               Reply reply)
      : node_(node),
        request_(std::move(request)),
        give_up_ms_(boottime_ms() + PATIENCE_MS),
        stop_(std::move(stop)),
        reply_(std::move(reply)),
        answers_(request_.items.size()) {
    if (deadline_ms != 0) give_up_ms_ = std::min(give_up_ms_, deadline_ms);
  }

  void run() {
    for (std::size_t at = 0; at < answers_.size(); ++at) advise(at);
    close();
  }

 private:
  void advise(std::size_t at) {
    const wire::Item& item = request_.items[at];
    answers_[at].item = static_cast<std::uint16_t>(at);
    const bool is_page = (item.flags & wire::ITEM_PAGE) != 0;
    const bool is_fit = is_valid_name(item.name, is_page) && item.offset <= CHUNK_BYTES_MAX &&
                        item.length <= CHUNK_BYTES_MAX;
    if (!is_fit) return note(at, Status::invalid, 0);
    const std::vector<PieceRef> pieces = advised_pieces(*node_.store, item);
    if (pieces.empty()) return note(at, Status::miss, 0);
    for (const PieceRef& piece : pieces) {
      const Part part = part_of(*piece, item);
      switch (wish_of(item)) {
        case Wish::load:
        case Wish::pin: load(at, piece, part); break;
        case Wish::shed: write_and_shed(at, piece, part); break;
        case Wish::unpin: node_.store->unpin(piece); note(at, Status::ok, part.bytes());
      }
    }
  }

  void load(std::size_t at, const PieceRef& piece, const Part& part) {
    open();
    const bool is_to_stay = wish_of(request_.items[at]) == Wish::pin;
    node_.store->load(
        piece, LoadRank::advised, stop_,
        [self = shared_from_this(), at, part, is_to_stay](Status status, const PieceRef& loaded) {
          if (status == Status::ok && is_to_stay) status = self->node_.store->pin(loaded);
          if (status == Status::retry) status = Status::full;  // nobody waits for advice
          self->note(at, status, status == Status::ok ? part.bytes() : 0);
          self->close();
        });
  }

  /// What is not on disk gets there first. Where it cannot, it stays.
  void write_and_shed(std::size_t at, const PieceRef& piece, const Part& part) {
    open();
    if (!node_.store->is_dirty(*piece)) return shed(at, piece, part);
    node_.store->flush(piece, [self = shared_from_this(), at, piece, part](Status status) {
      if (status == Status::ok || status == Status::denied) return self->shed(at, piece, part);
      self->note(at, status, 0);
      self->close();
    });
  }

  /// While somebody reads it, it is tried again; in the end it stays, as advice may, and as what is
  /// pinned does. Nothing refers to it between two tries: others that wait to let it go would take
  /// that for a reader.
  void shed(std::size_t at, const PieceRef& piece, const Part& part) {
    node_.mover->repeat([self = shared_from_this(), at, known = std::weak_ptr(piece), part] {
      const PieceRef held = known.lock();
      Index::Shed done{Status::miss, 0};
      if (held != nullptr) done = self->node_.store->shed(held, part.begin, part.end);
      const bool is_patient =
          boottime_ms() < self->give_up_ms_ && !self->stop_->load(std::memory_order_relaxed);
      if (done.status == Status::retry && is_patient) return false;
      const bool stays = done.status == Status::retry || done.status == Status::denied;
      self->note(at, stays ? Status::ok : done.status, done.bytes);
      self->close();
      return true;
    });
  }

  void open() {
    const std::lock_guard lock(mutex_);
    ++open_count_;
  }

  void note(std::size_t at, Status status, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    answers_[at].length += bytes;
    if (status != Status::ok) answers_[at].status = status;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      if (--open_count_ > 0) return;
    }
    reply_(answers_);
  }

  Node& node_;
  const wire::Request request_;
  std::int64_t give_up_ms_;
  const StopRef stop_;
  const Reply reply_;

  std::mutex mutex_;  // Guards: all below.
  std::vector<wire::ResponseItem> answers_;
  std::size_t open_count_ = 1;  // until all are begun
};

}  // namespace

std::vector<PieceRef> advised_pieces(Store& store, const wire::Item& item) {
  if ((item.flags & wire::ITEM_PAGE) != 0) {
    PieceRef page = store.find_page(item.name, false);
    return page == nullptr ? std::vector<PieceRef>{} : std::vector<PieceRef>{std::move(page)};
  }
  const std::uint64_t length = item.length == 0 ? CHUNK_BYTES_MAX : item.length;
  return store.find_live(item.name, item.chunk, item.tag, item.offset, length);
}

bool is_memory_advice(const wire::Request& request) {
  return std::any_of(request.items.begin(), request.items.end(), [](const wire::Item& item) {
    return (item.flags & (wire::ITEM_MEMORY | wire::ITEM_PIN)) != 0;
  });
}

void start_memory_advice(Node& node, wire::Request request, std::int64_t deadline_ms, StopRef stop,
                         std::function<void(const std::vector<wire::ResponseItem>&)> reply) {
  std::make_shared<MemoryAdvice>(node, std::move(request), deadline_ms, std::move(stop),
                                 std::move(reply))
      ->run();
}

}  // namespace gd2fs::serve
