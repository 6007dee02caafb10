// PageTable: pages by their full name. Chained through the pieces themselves; doubles as it fills.
//
// Not thread-safe: a shard of the index owns one. A hash only places; names are compared byte for
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "piece.h"

namespace gd2fs {

class PageTable {
 public:
  PageTable() : buckets_(BUCKETS_MIN, nullptr) {}

  Piece* find(std::string_view name, std::uint64_t hash) const {
    Piece* piece = buckets_[hash & (buckets_.size() - 1)];
    while (piece != nullptr && (piece->name_hash_ != hash || piece->name_ != name))
      piece = piece->next_in_bucket_;
    return piece;
  }

  /// `piece.name_hash_` is set and its name is not in the table.
  void add(Piece& piece) {
    if (count_ >= buckets_.size()) grow();
    link(piece);
    ++count_;
  }

  void remove(Piece& piece) {
    Piece** link = &buckets_[piece.name_hash_ & (buckets_.size() - 1)];
    while (*link != &piece) link = &(*link)->next_in_bucket_;
    *link = piece.next_in_bucket_;
    piece.next_in_bucket_ = nullptr;
    --count_;
  }

  // For a look-up of this hash to come: its bucket; then the first page there; then that page's
  // name and neighbours.
  void prefetch_bucket(std::uint64_t hash) const noexcept { __builtin_prefetch(&bucket_of(hash)); }
  void prefetch_page(std::uint64_t hash) const noexcept {
    const Piece* const piece = bucket_of(hash);
    if (piece == nullptr) return;
    __builtin_prefetch(piece);
    __builtin_prefetch(&piece->use_);
  }
  void prefetch_rest(std::uint64_t hash) const noexcept {
    const Piece* const piece = bucket_of(hash);
    if (piece == nullptr) return;
    __builtin_prefetch(piece->name_.data());
    __builtin_prefetch(piece->use_.older);
    __builtin_prefetch(piece->use_.newer);
  }

  std::size_t count() const noexcept { return count_; }
  std::size_t buckets() const noexcept { return buckets_.size(); }

  /// Calls once for each page of a bucket; the visitor may remove the page it is given.
  template <class Visitor>
  void visit(std::size_t bucket, Visitor&& visitor) const {
    for (Piece *piece = buckets_[bucket], *next = nullptr; piece != nullptr; piece = next) {
      next = piece->next_in_bucket_;
      visitor(*piece);
    }
  }

 private:
  static constexpr std::size_t BUCKETS_MIN = 64;

  Piece* const& bucket_of(std::uint64_t hash) const noexcept {
    return buckets_[hash & (buckets_.size() - 1)];
  }

  void link(Piece& piece) {
    Piece*& head = buckets_[piece.name_hash_ & (buckets_.size() - 1)];
    piece.next_in_bucket_ = head;
    head = &piece;
  }

  void grow() {
    std::vector<Piece*> old(buckets_.size() * 2, nullptr);
    old.swap(buckets_);
    for (Piece* piece : old) {
      while (piece != nullptr) {
        Piece* const next = piece->next_in_bucket_;
        link(*piece);
        piece = next;
      }
    }
  }

  std::vector<Piece*> buckets_;  // a power of two of them
  std::size_t count_ = 0;
};

}  // namespace gd2fs
