// Record keeper: what a node does about records when others have to be asked first, by the rules R1
// to R8. Events in, effects out: no clock, no thread, no socket.
//
// Mutations of a path are worked off one at a time:
//
//   admitted -> barrier -> valid record or tombstone, else pull -> decided -> all backups have it
//   -> epoch and lease looked at once more -> visible -> answered
//
// Not thread-safe; the records are. A new map ends whatever is on its way under the old one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "barrier.h"
#include "map_history.h"
#include "mutation.h"
#include "node_lease.h"
#include "pull.h"
#include "record.h"

namespace gd2fs {

/// How long other nodes are waited for.
struct KeeperTimes {
  std::int64_t pull_ms = 400;
  std::int64_t replicate_ms = 1'000;
  std::int64_t again_ms = 20;      // before one that is not ready yet is asked again
  std::int64_t confirm_ms = 100;   // between two questions whether a member has the map
  std::int64_t touch_ms = 2'000;   // for a new home to ask for a record
  std::int64_t settle_ms = 1'000;  // between two walks over the records that have to move
};

/// What one node asks another.
struct EpochQuestion {
  std::uint64_t epoch;
};
struct PullQuestion {
  std::uint64_t epoch;
  std::string path;
};
struct TouchQuestion {
  std::uint64_t epoch;
  std::string path;
};
using ReplicationRef = std::shared_ptr<const Replication>;
using PeerQuestion = std::variant<EpochQuestion, PullQuestion, TouchQuestion, ReplicationRef>;

/// No answer. `is_sent`: it may have arrived all the same.
struct NoAnswer {
  bool is_sent;
};
struct EpochAnswer {
  std::uint64_t epoch;
  std::int64_t wait_ms;
};
/// The home knows what to answer for the path.
struct TouchAnswer {
  bool is_known;
};
using PeerAnswer = std::variant<NoAnswer, EpochAnswer, PullAnswer, TouchAnswer, ReplicaAnswer>;

class RecordKeeper {
 public:
  struct Question {
    std::uint64_t number;
    Member to;
    std::int64_t deadline_ms;
    PeerQuestion what;
  };
  struct End {
    std::uint64_t ticket;
    RecordAnswer answer;  // of a look: ok says that it is worth a look now
  };
  /// To be carried out by the caller, in order.
  struct Effects {
    std::vector<Question> questions;
    std::vector<End> ends;
  };

  /// `records` and `lease` outlive the keeper.
  RecordKeeper(Records& records, NodeLease& lease, MapHistoryRef first, KeeperTimes times,
               std::int64_t now_ms, Effects& effects);

  const MapHistoryRef& history() const noexcept { return history_; }
  bool is_open() const noexcept { return is_open_; }

  /// In order; older and equal ones are ignored.
  void take_map(const wire::Map& map, bool is_gap, std::int64_t now_ms, Effects& effects);
  /// A change that this node is asked to make as home, in the epoch of its map. Ends once.
  void mutate(std::uint64_t ticket, const std::string& path, const RecordChange& asked,
              std::int64_t deadline_ms, std::int64_t now_ms, Effects& effects);
  /// Someone wants to see a record that is not known here. Ends once.
  void look(std::uint64_t ticket, const std::string& path, std::int64_t deadline_ms,
            std::int64_t now_ms, Effects& effects);
  /// To a question; exactly one for each, at its deadline at the latest.
  void answered(std::uint64_t number, const PeerAnswer& answer, std::int64_t now_ms,
                Effects& effects);
  /// A node of the list has begun anew, with nothing in memory: it gets what it owns again.
  void take_arrival(const NodeId& node, std::uint64_t boot, std::int64_t now_ms, Effects& effects);
  /// Deadlines, and what is to be asked again. At `next_ms` at the latest.
  void tick(std::int64_t now_ms, Effects& effects);
  std::int64_t next_ms() const;

  // What other nodes ask.
  EpochAnswer confirm(std::int64_t now_ms) const;
  PullAnswer pull(std::string_view path, std::uint64_t epoch, std::int64_t now_ms) const;
  ReplicaAnswer take(const Replication& attempt, std::int64_t now_ms);

  /// Records that are still to be looked at, or to be moved, since the map has changed.
  std::size_t left_count() const;

 private:
  struct Look {
    std::uint64_t ticket;
    std::int64_t deadline_ms;
  };
  /// What goes on about one path.
  struct Work {
    std::deque<Mutation> mutations;  // the first one is worked on
    std::vector<Look> looks;
    std::optional<Pull> pull;
  };
  using Works = std::map<std::string, Work, std::less<>>;
  struct Asked {
    enum class Kind : std::uint8_t { epoch, pull, touch, replicate } kind;
    std::string path;
    Member member;
    std::uint64_t epoch;
    RecordVersion version;  // replicate: of the attempt
  };
  struct Again {
    std::int64_t at_ms;
    std::string path;
    Member member;
    RecordVersion version;
  };

  void ask(Asked asked, PeerQuestion what, std::int64_t deadline_ms, Effects& effects);
  void ask_members(std::int64_t now_ms, Effects& effects);
  void end(std::uint64_t ticket, const RecordAnswer& answer, Effects& effects);
  void end(std::uint64_t ticket, Status status, Effects& effects);
  void end_all(Effects& effects);
  void note_open(std::int64_t now_ms);
  void advance_all(std::int64_t now_ms, Effects& effects);
  void advance(Works::iterator at, std::int64_t now_ms, Effects& effects);
  void begin_pull(const std::string& path, Work& work, std::int64_t now_ms, Effects& effects);
  bool take_pull(const std::string& path, Work& work, std::int64_t now_ms, Effects& effects);
  bool work_off(const std::string& path, Work& work, std::int64_t now_ms, Effects& effects);
  bool may_begin(const std::string& path, Work& work, std::int64_t now_ms, Effects& effects);
  void begin(const std::string& path, Mutation& mutation, std::int64_t now_ms, Effects& effects);
  RecordVersion next_version(const RecordVersion& base);
  void send(const std::string& path, Mutation& mutation, const Member& to, bool is_full,
            std::int64_t now_ms, Effects& effects);
  void take_replica(const Asked& asked, const PeerAnswer& answer, std::int64_t now_ms,
                    Effects& effects);
  void finish(const std::string& path, const Mutation& mutation, std::int64_t now_ms,
              Effects& effects);
  Mutation* running(const std::string& path, const RecordVersion& version);
  void renew(std::int64_t now_ms);
  void settle(std::int64_t now_ms, Effects& effects);
  void move(const Records::Moving& moving, std::int64_t now_ms, Effects& effects);
  void moved(bool is_done);

  Records& records_;
  NodeLease& lease_;
  MapHistoryRef history_;
  const KeeperTimes times_;
  Barrier barrier_;
  bool is_open_ = false;  // this epoch is
  std::int64_t confirm_at_ms_ = 0;

  Works works_;
  std::unordered_map<std::uint64_t, Asked> asked_;
  std::vector<Again> again_;
  std::uint64_t last_number_ = 0;
  std::uint64_t last_attempt_ = 0;

  Records::Walk walk_;
  std::size_t walk_count_ = 0;  // of records, when it began
  std::size_t moving_ = 0;      // on their way
  bool has_left_ = false;       // some could not be moved: another walk is due
  std::int64_t walk_at_ms_ = 0;
  std::vector<NodeId> returned_;           // of a list, that have begun anew
  std::map<NodeId, std::uint64_t> boots_;  // theirs
  Records::Walk renewal_;                  // over the maps
  std::uint64_t renewal_epoch_ = 0;        // of the map when it began
  std::int64_t renew_at_ms_ = 0;
};

}  // namespace gd2fs
