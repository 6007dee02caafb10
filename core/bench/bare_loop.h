// Bare loop: what answering small requests costs at the least. One epoll loop, a hash table of
// whole keys, one writev per answer; no eviction, no quotas, no deadlines, no namespaces.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "raw_socket.h"

struct iovec;

namespace gd2fs::bench {

enum class BareOp : std::uint32_t { fill = 0, get = 1, exists = 2 };

inline constexpr std::size_t BARE_KEYS_MAX = 4096;      // of one frame
inline constexpr std::size_t BARE_KEY_BYTES_MAX = 512;  // all keys of a frame have one length

/// Before `count` keys of `key_bytes`. Answers: this again, then for `get` a hash per item and the
/// items back to back, for `exists` a byte per key. Every key of a `get` must be there.
struct BareHeader {
  BareOp op = BareOp::get;
  std::uint32_t count = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t item_bytes = 0;
};

class BareLoop {
 public:
  /// Serves items out of `memory`, which must outlive it.
  static Result<std::unique_ptr<BareLoop>> start(std::span<const std::byte> memory);
  ~BareLoop();

  const std::string& tcp_address() const { return tcp_address_; }
  const std::string& unix_address() const { return unix_address_; }

 private:
  struct Item {
    const std::byte* at;
    std::uint64_t hash;
  };
  struct Line;

  explicit BareLoop(std::span<const std::byte> memory);
  Result<bool> listen();
  void loop();
  void accept_from(int listener);
  bool is_served(Line& line);
  bool take_frames(Line& line);
  bool answer(Line& line, const BareHeader& header, const std::byte* keys);
  void fill(const BareHeader& header, const std::byte* keys);
  bool get(Line& line, const BareHeader& header, const std::byte* keys,
           std::vector<std::byte>& out);
  bool flush(Line& line);
  void watch(int fd, std::uint32_t events, bool is_new);

  std::span<const std::byte> memory_;
  std::string tcp_address_, unix_address_;
  tcp::Descriptor epoll_, stop_, tcp_, unix_;
  std::unordered_map<std::string, Item> items_;
  std::map<int, std::unique_ptr<Line>> lines_;
  std::thread thread_;
};

/// The caller's end: frames of the same keys, several in flight on one connection.
class BareLine {
 public:
  static Result<std::unique_ptr<BareLine>> connect(const std::string& address);

  /// Names the keys, back to back, of the calls below, and makes items of them at the server.
  bool fill(std::span<const std::byte> keys, std::uint32_t count, std::uint32_t item_bytes);
  /// `batches` times all items into parts of `into`, `depth` frames in flight. False: the server
  /// is gone, or `is_verifying` and an item did not match its hash.
  bool get(std::span<std::byte> into, std::size_t batches, std::size_t depth, bool is_verifying);
  bool exists(std::size_t batches);

 private:
  explicit BareLine(tcp::Descriptor socket) : socket_(std::move(socket)) {}
  bool ask(BareOp op);
  bool take(std::span<std::byte> into, bool is_verifying);

  tcp::Descriptor socket_;
  std::vector<std::byte> frame_;  // header and keys
  std::vector<std::byte> table_;
  BareHeader header_;
};

}  // namespace gd2fs::bench
