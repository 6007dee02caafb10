#include "sync.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "name.h"

namespace gd2fs::serve {
namespace {

using Reply = std::function<void(const std::vector<wire::ResponseItem>&)>;

std::vector<PieceRef> pieces_of(Store& store, const wire::Item& item) {
  if ((item.flags & wire::ITEM_PAGE) == 0)
    return store.find_live(item.name, item.chunk, item.tag, item.offset, item.length);
  PieceRef page = store.find_page(item.name, false);
  return page == nullptr ? std::vector<PieceRef>{} : std::vector<PieceRef>{std::move(page)};
}

/// One SYNC: it is over when the last of its pieces is where it shall be, and the disk has said
/// that it has all of them for good.
class Syncing : public std::enable_shared_from_this<Syncing> {
 public:
  Syncing(Store& store, std::size_t items, Reply reply)
      : store_(store), reply_(std::move(reply)), answers_(items), open_count_(1) {
    for (std::size_t at = 0; at < items; ++at) {
      answers_[at].item = static_cast<std::uint16_t>(at);
      answers_[at].tier = static_cast<std::uint8_t>(KeptAt::disk);
    }
  }

  void refuse(std::size_t at, Status status) { answers_[at].status = status; }

  void add(std::size_t at, const PieceRef& piece) {
    {
      const std::lock_guard lock(mutex_);
      ++open_count_;
    }
    if (!store_.has_tier()) return take(at, piece, Status::denied);
    write(at, piece, TRIES);
  }

  /// Also once for whoever began it.
  void close_one() {
    {
      const std::lock_guard lock(mutex_);
      if (--open_count_ > 0) return;
    }
    if (!store_.has_tier()) return reply_(answers_);
    store_.flush_disk([self = shared_from_this()](Status status) { self->end(status); });
  }

 private:
  static constexpr int TRIES = 8;  // of a piece that is read from disk again and again meanwhile

  /// Promised before it is looked for on disk: a load in between leaves it there.
  void write(std::size_t at, const PieceRef& piece, int tries) {
    if (!store_.promise(piece)) return written(at, piece, Status::miss, tries);
    // Callbacks may outlast this call.
    store_.flush(piece, [self = shared_from_this(), at, piece, tries](Status status) {
      self->written(at, piece, status, tries);
    });
  }

  void written(std::size_t at, const PieceRef& piece, Status status, int tries) {
    const PieceRef now = status == Status::miss ? store_.current(*piece) : nullptr;
    if (now != nullptr && now != piece && tries > 1) return write(at, now, tries - 1);
    take(at, piece, status);
  }

  void take(std::size_t at, const PieceRef& piece, Status status) {
    const bool is_in_memory = status != Status::ok && store_.is_safe(*piece);
    {
      const std::lock_guard lock(mutex_);
      wire::ResponseItem& answer = answers_[at];
      if (is_in_memory)
        answer.tier = std::min(answer.tier, static_cast<std::uint8_t>(KeptAt::memory));
      if (status != Status::ok && !is_in_memory) answer.status = status;
    }
    close_one();
  }

  void end(Status status) {
    for (wire::ResponseItem& answer : answers_) {
      const bool is_on_disk = answer.tier == static_cast<std::uint8_t>(KeptAt::disk);
      if (status != Status::ok && answer.status == Status::ok && is_on_disk) answer.status = status;
    }
    reply_(answers_);
  }

  Store& store_;
  const Reply reply_;
  std::mutex mutex_;  // Guards: answers and the count, until it is 0.
  std::vector<wire::ResponseItem> answers_;
  std::size_t open_count_;
};

}  // namespace

void sync(Store& store, wire::Request request, Reply reply) {
  const auto syncing = std::make_shared<Syncing>(store, request.items.size(), std::move(reply));
  for (std::size_t at = 0; at < request.items.size(); ++at) {
    const wire::Item& item = request.items[at];
    if (!is_valid_name(item.name, (item.flags & wire::ITEM_PAGE) != 0)) {
      syncing->refuse(at, Status::invalid);
      continue;
    }
    const std::vector<PieceRef> pieces = pieces_of(store, item);
    if (pieces.empty()) syncing->refuse(at, Status::miss);
    for (const PieceRef& piece : pieces) syncing->add(at, piece);
  }
  syncing->close_one();
}

}  // namespace gd2fs::serve
