// Views: pieces that processes on this host look at in the mapped arena, for as long as they like.
//
// Nothing can be taken back from them. So what they may look at is limited when it is given, and it
// is kept until they release it, or until their process has ended: a stream that ends says nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "piece.h"
#include "transport/unix.h"

namespace gd2fs::serve {

class Views {
 public:
  /// One process, and what it looks at. All its streams share it.
  class Viewer {
   public:
    explicit Viewer(tcp::Descriptor process) : process_(std::move(process)) {}

   private:
    friend class Views;
    tcp::Descriptor process_;                                          // readable when it has ended
    std::unordered_map<std::uint64_t, std::vector<PieceRef>> pieces_;  // by lease
    std::uint64_t bytes_ = 0;
    bool has_ended_ = false;
  };
  using ViewerRef = std::shared_ptr<Viewer>;

  explicit Views(std::uint64_t arena_bytes) noexcept;
  ~Views();

  /// Of a process: nothing without a descriptor of it, as nobody would notice its end.
  ViewerRef viewer(pid_t pid, tcp::Descriptor process);
  /// Keeps a piece for a lease. False: it would be too much, for this process or in all.
  bool hold(Viewer& viewer, std::uint64_t lease, const PieceRef& piece);
  bool has(const Viewer& viewer, std::uint64_t lease) const;
  /// Leases that are not there are passed over.
  void release(Viewer& viewer, std::span<const std::uint64_t> leases);
  /// Lets go of what ended processes had.
  void reap();

  bool is_empty() const;
  std::uint64_t count() const;
  std::uint64_t bytes() const;

 private:
  using Freed = std::vector<std::vector<PieceRef>>;
  void drop_all(Viewer& viewer, Freed& freed);

  const std::uint64_t bytes_max_;            // in all
  const std::uint64_t bytes_of_viewer_max_;  // of one process
  // Guards: all below, and every viewer. Pieces are let go outside it.
  mutable std::mutex mutex_;
  std::unordered_map<pid_t, ViewerRef> viewers_;
  std::uint64_t count_ = 0;  // leases
  std::uint64_t bytes_ = 0;
};

}  // namespace gd2fs::serve
