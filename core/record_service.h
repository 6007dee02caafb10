// Record service: carries out what the record keeper of a node decides. Its questions go to the
// other nodes, their answers and the time come back; what waits is answered by callback.
//
// Any thread. What can be done at once is, without a look at the keeper.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "admission.h"
#include "peers.h"
#include "record_keeper.h"
#include "record_parts.h"

namespace gd2fs::serve {

class RecordService {
 public:
  /// Runs once, on any thread, perhaps from within the call that it was given to.
  using OnEnd = std::function<void(const RecordAnswer&)>;

  RecordService(Records& records, NodeLease& lease, Peers& peers, const Member& self,
                const wire::Map& first);
  RecordService(const RecordService&) = delete;
  RecordService& operator=(const RecordService&) = delete;

  /// In order; older and equal ones are ignored.
  void take_map(const wire::Map& map, bool is_gap);
  MapHistoryRef history() const;
  /// May a request that was sent here by that epoch's map be answered?
  Status admit(std::uint64_t epoch) const;

  /// Nothing: it has to wait, `mutate` does.
  std::optional<RecordAnswer> mutate_at_once(std::string_view path, const RecordChange& asked);
  void mutate(const std::string& path, const RecordChange& asked, std::int64_t deadline_ms,
              OnEnd on_end);
  /// Asks others for a record that is not known here. ok: it is worth a look.
  void look(const std::string& path, std::int64_t deadline_ms, OnEnd on_end);

  // What other nodes ask.
  wire::ResponseItem confirm(const wire::Item& item);
  wire::ResponseItem replicate(const wire::Request& request);
  /// `part`: what follows the item.
  wire::ResponseItem pull(const wire::Item& item, std::uint64_t epoch, wire::Bytes& part);

  /// Records that are still to be looked at, or to be moved, since the map has changed.
  /// A node of the list has begun anew.
  void take_arrival(const NodeId& node, std::uint64_t boot);
  std::size_t left_count() const;
  /// Nothing is called back from here on.
  void close();

 private:
  using Effects = RecordKeeper::Effects;
  struct Partial {
    RecordVersion version;
    std::shared_ptr<FullRecord> full;
    std::int64_t until_ms;
  };

  template <class Step>
  void run(Step step);
  void carry_out(Effects& effects);
  void arm(std::int64_t next_ms);
  void tick();
  std::uint64_t ticket(OnEnd on_end);
  std::int64_t deadline(std::int64_t wanted_ms) const;
  bool is_meant(std::uint64_t boot) const;

  void ask(const RecordKeeper::Question& question);
  void ask_epoch(const RecordKeeper::Question& question, std::uint64_t epoch);
  void ask_touch(const RecordKeeper::Question& question, const TouchQuestion& what);
  void ask_pull(const RecordKeeper::Question& question, const PullQuestion& what,
                std::shared_ptr<FullRecord> before);
  void ask_replicate(const RecordKeeper::Question& question, const ReplicationRef& what,
                     std::uint64_t first);
  RpcRef new_rpc(wire::Op op, const RecordKeeper::Question& question, std::uint64_t epoch,
                 std::string_view path);
  void send(const Member& to, RpcRef rpc, std::function<void(const Rpc&)> then);
  void answered(std::uint64_t number, const PeerAnswer& answer);

  Records& records_;
  NodeLease& lease_;
  Peers& peers_;
  const Member self_;

  mutable std::mutex mutex_;  // Guards: all below. Held for arithmetic only.
  MapHistoryRef history_;
  std::optional<RecordKeeper> keeper_;
  std::unordered_map<std::uint64_t, OnEnd> tickets_;
  std::uint64_t last_ticket_ = 0;
  std::int64_t tick_at_ms_ = 0;  // 0: none is due
  bool is_closed_ = false;

  std::mutex partials_mutex_;                             // Guards: partials_.
  std::map<std::string, Partial, std::less<>> partials_;  // whole records that come in parts
};

}  // namespace gd2fs::serve
