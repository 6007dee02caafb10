#include "tally.h"

#include <algorithm>

#include "name.h"

namespace gd2fs::serve {
namespace {

using wire::Op;

struct NamedOp {
  Op op;
  std::string_view name;
};
constexpr std::array<NamedOp, OPS - 1> NAMED = {{
    {Op::exists, "exists"},       {Op::get, "get"},         {Op::read, "read"},
    {Op::meta, "meta"},           {Op::offer, "offer"},     {Op::create, "create"},
    {Op::commit, "commit"},       {Op::publish, "publish"}, {Op::truncate, "truncate"},
    {Op::unlink, "unlink"},       {Op::drop, "drop"},       {Op::list, "list"},
    {Op::advise, "advise"},       {Op::ping, "ping"},       {Op::drain, "drain"},
    {Op::sync, "sync"},           {Op::why, "why"},         {Op::configure, "configure"},
    {Op::replicate, "replicate"}, {Op::pull, "pull"},       {Op::epoch, "epoch"},
    {Op::is_listed, "is_listed"}, {Op::move, "move"},       {Op::forget, "forget"},
}};

constexpr std::array<std::uint8_t, 256> indexes() {
  std::array<std::uint8_t, 256> of{};
  of.fill(OPS - 1);
  for (std::size_t at = 0; at < NAMED.size(); ++at)
    of[static_cast<std::size_t>(NAMED[at].op)] = static_cast<std::uint8_t>(at);
  return of;
}
constexpr auto INDEXES = indexes();

/// As a label has it.
std::string word_of(std::string_view text) {
  std::string word(text);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

}  // namespace

std::string miss_name(Miss miss) {
  switch (miss) {
    case Miss::absent: return "absent";
    case Miss::no_room: return "no_room";
    case Miss::timeout: return "timeout";
    case Miss::refused: return "refused";
    case Miss::invalid: return "invalid";
  }
  return word_of(cause_name(static_cast<Cause>(miss)));
}

std::size_t op_index(Op op) noexcept { return INDEXES[static_cast<std::size_t>(op)]; }

std::string_view op_name(std::size_t index) noexcept {
  return index < NAMED.size() ? NAMED[index].name : "unknown";
}

NamespaceTally& Tally::look_up(std::string_view name, bool is_page) {
  const std::string_view space = namespace_of(name, is_page);
  auto found = known_.numbers.find(space);
  const bool may_be_new = !known_.is_full || known_.version != book_.version();
  if (found == known_.numbers.end() && may_be_new) {
    book_.learn(space, known_);
    found = known_.numbers.find(space);
  }
  last_ = &lane(found == known_.numbers.end() ? NamespaceBook::OTHER : found->second);
  last_name_ = space;
  version_ = book_.version();
  return *last_;
}

NamespaceTally& Tally::lane(std::size_t number) {
  NamespaceTally* lane = lanes_[number].load(std::memory_order_relaxed);
  if (lane == nullptr) {
    lane = own_.emplace_back(std::make_unique<NamespaceTally>()).get();
    lane->number = number;
    // Release: whoever sees the lane sees its zeros.
    lanes_[number].store(lane, std::memory_order_release);
  }
  return *lane;
}

Tally& Tallies::open() {
  const std::lock_guard lock(mutex_);
  return *all_.emplace_back(std::make_unique<Tally>(book));
}

std::uint64_t Tallies::Totals::bytes_of(Direction direction) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& each : bytes) sum += each[static_cast<std::size_t>(direction)];
  return sum;
}

Tallies::Totals Tallies::totals() const {
  const std::lock_guard lock(mutex_);
  Totals sum;
  for (const auto& each : all_) {
    sum.requests += each->requests.get();
    sum.hits += each->hits.get();
    sum.misses += each->misses.get();
    sum.leases += each->leases.get();
    sum.bytes_spliced += each->bytes_spliced.get();
    for (std::size_t by = 0; by < TRANSPORTS; ++by) {
      for (std::size_t way = 0; way < 2; ++way) sum.bytes[by][way] += each->bytes_[by][way].get();
    }
  }
  return sum;
}

std::vector<TookCounts> Tallies::took() const {
  const std::lock_guard lock(mutex_);
  std::vector<TookCounts> counts;
  for (std::size_t op = 0; op < OPS; ++op) {
    for (std::size_t by = 0; by < TRANSPORTS; ++by) {
      TookCounts sum{op_name(op), static_cast<Transport>(by), {}};
      for (const auto& each : all_) each->took_[op][by].add_to(sum.took);
      if (!sum.took.is_empty()) counts.push_back(sum);
    }
  }
  return counts;
}

std::vector<NamespaceCounts> Tallies::namespaces() const {
  const std::vector<std::string> names = book.names();
  const std::lock_guard lock(mutex_);
  std::vector<NamespaceCounts> counts(names.size());
  for (std::size_t number = 0; number < names.size(); ++number) {
    NamespaceCounts& sum = counts[number];
    sum.name = names[number];
    for (const auto& each : all_) {
      const NamespaceTally* const lane = each->lanes_[number].load(std::memory_order_acquire);
      if (lane == nullptr) continue;
      for (std::size_t at = 0; at < TIERS; ++at) sum.hits[at] += lane->hits[at].get();
      for (std::size_t at = 0; at < MISSES; ++at) sum.misses[at] += lane->misses[at].get();
      sum.found += lane->found.get();
      sum.lacking += lane->lacking.get();
      sum.wholes_found += lane->wholes_found.get();
      sum.wholes_lacking += lane->wholes_lacking.get();
      sum.read_bytes += lane->read_bytes.get();
      sum.written_bytes += lane->written_bytes.get();
    }
  }
  return counts;
}

}  // namespace gd2fs::serve
