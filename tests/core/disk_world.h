// A folder for a disk, what is put into it, and kernels that fail as they are told.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checksum.h"
#include "disk/disk.h"
#include "disk/grain_buffer.h"
#include "disk/io.h"

namespace gd2fs {

using disk::GrainBuffer;

class Folder {
 public:
  Folder() : Folder(std::filesystem::temp_directory_path()) {}
  /// In that folder, or where there is none in the usual one.
  explicit Folder(std::filesystem::path in) {
    if (!std::filesystem::is_directory(in)) in = std::filesystem::temp_directory_path();
    std::string name = (in / "gd2fs-disk-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline DiskOptions disk_options(const Folder& folder, std::uint64_t bytes_max = 16 * MiB) {
  DiskOptions options;
  options.places = {{folder.path(), bytes_max}};
  options.node_name = "n1";
  options.depth = 8;
  options.retry_ms = 20;
  options.io = DiskIoKind::threads;
  return options;
}

/// Bytes that say which piece they belong to, in whole grains.
inline std::shared_ptr<GrainBuffer> content(std::uint64_t mark, std::uint64_t length) {
  auto bytes = std::make_shared<GrainBuffer>(length);
  for (std::size_t at = 0; at + 8 <= bytes->size(); at += 8) {
    const std::uint64_t word = mark * 0x9E3779B97F4A7C15u + at;
    std::memcpy(bytes->span().data() + at, &word, sizeof word);
  }
  return bytes;
}

inline std::vector<std::uint64_t> hashes_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> hashes;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), BLOCK_BYTES)))
    hashes.push_back(checksum(bytes.first(std::min(bytes.size(), BLOCK_BYTES))));
  return hashes;
}

inline DiskPiece disk_piece(std::uint64_t mark, std::uint64_t length) {
  DiskPiece piece;
  piece.name = "ns/piece" + std::to_string(mark);
  piece.chunk = mark % 7;
  piece.tag = mark;
  piece.seq = mark + 1;
  piece.offset = 3;
  piece.length = length;
  piece.replicas = 2;
  piece.hashes = hashes_of(std::as_const(*content(mark, length)).span().first(length));
  return piece;
}

/// A call that comes back on another thread, waited for.
template <class... Answer>
class Answered {
 public:
  std::function<void(Answer...)> call() {
    return [state = state_](Answer... answer) {
      const std::lock_guard lock(state->mutex);
      CHECK_FALSE(state->is_there);
      state->is_there = true;
      state->answer = {answer...};
      state->called.notify_all();
    };
  }
  std::tuple<Answer...> wait() {
    std::unique_lock lock(state_->mutex);
    REQUIRE(state_->called.wait_for(lock, std::chrono::seconds(20),
                                    [this] { return state_->is_there; }));
    return state_->answer;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable called;
    bool is_there = false;
    std::tuple<Answer...> answer{};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Wrote {
  Status status;
  DiskCopyRef copy;
};

inline Wrote write_now(Disk& disk, DiskPiece piece) {
  const auto bytes = content(piece.tag, piece.length);
  Answered<Status, DiskCopyRef> answered;
  const std::uint64_t length = piece.length;
  disk.write(std::move(piece), {std::as_const(*bytes).span().first(length)}, bytes,
             answered.call());
  const auto [status, copy] = answered.wait();
  return {status, copy};
}

inline Wrote write_now(Disk& disk, std::uint64_t mark, std::uint64_t length) {
  return write_now(disk, disk_piece(mark, length));
}

inline Status strike_now(Disk& disk, const DiskCopyRef& copy) {
  Answered<Status> answered;
  disk.strike(copy, answered.call());
  return std::get<0>(answered.wait());
}

inline Status flush_now(Disk& disk) {
  Answered<Status> answered;
  disk.flush(answered.call());
  return std::get<0>(answered.wait());
}

/// miss, ok, or corrupt when the bytes are not those of that piece.
inline Status read_now(Disk& disk, const DiskCopyRef& copy, std::uint64_t mark) {
  auto into = std::make_shared<GrainBuffer>(copy->length());
  Answered<Status> answered;
  disk.read(copy, 0, {into->span().first(copy->length())}, into, answered.call());
  const Status status = std::get<0>(answered.wait());
  if (status != Status::ok) return status;
  const auto wanted = content(mark, copy->length());
  const bool is_same = std::memcmp(into->span().data(), wanted->span().data(), copy->length()) == 0;
  return is_same ? Status::ok : Status::corrupt;
}

/// What a scan has found, by tag.
struct Visited {
  std::map<std::uint64_t, std::pair<DiskPiece, DiskCopyRef>> pieces;
  std::vector<std::uint64_t> order;

  Disk::Visit visit() {
    return [this](DiskPiece&& piece, DiskCopyRef copy) {
      const std::uint64_t tag = piece.tag;
      order.push_back(tag);
      CHECK(pieces.emplace(tag, std::pair(std::move(piece), std::move(copy))).second);
    };
  }
};

inline std::unique_ptr<Disk> open_disk(const DiskOptions& options, Visited& visited,
                                       std::unique_ptr<disk::DiskIo> io = nullptr) {
  auto opened = io ? Disk::open(options, visited.visit(), std::move(io))
                   : Disk::open(options, visited.visit());
  if (!opened) FAIL(opened.error().message);
  return std::move(*opened);
}

inline std::unique_ptr<Disk> open_disk(const DiskOptions& options) {
  Visited ignored;
  return open_disk(options, ignored);
}

/// Polls for what other threads bring about.
template <class Fact>
bool becomes(Fact fact) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!fact()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace gd2fs
