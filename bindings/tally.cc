#include "tally.h"

#include <algorithm>
#include <string>

namespace nb = nanobind;

namespace gd2fs::bindings {
namespace {

nb::str text_of(std::string_view text) { return nb::str(text.data(), text.size()); }
nb::str text_of(Transport transport) { return nb::str(transport_name(transport)); }

/// As a label has it.
nb::str word_of(Cause cause) {
  std::string word(cause_name(cause));
  std::replace(word.begin(), word.end(), ' ', '_');
  return text_of(word);
}

nb::list namespaces_of(const ServerTally& tally) {
  nb::list list;
  for (const serve::NamespaceCounts& each : tally.namespaces) {
    nb::dict misses;
    for (std::size_t at = 0; at < serve::MISSES; ++at) {
      if (each.misses[at] == 0) continue;
      misses[text_of(serve::miss_name(static_cast<serve::Miss>(at)))] = each.misses[at];
    }
    nb::dict one;
    one["name"] = nb::bytes(each.name.data(), each.name.size());
    one["memory_hits"] = each.hits[static_cast<std::size_t>(serve::FoundIn::memory)];
    one["disk_hits"] = each.hits[static_cast<std::size_t>(serve::FoundIn::disk)];
    one["misses"] = misses;
    one["found"] = each.found;
    one["lacking"] = each.lacking;
    one["read_bytes"] = each.read_bytes;
    one["written_bytes"] = each.written_bytes;
    list.append(one);
  }
  return list;
}

nb::list requests_of(const ServerTally& tally) {
  nb::list list;
  for (const serve::TookCounts& each : tally.took) {
    nb::list counts;
    for (const std::uint64_t count : each.took.counts) counts.append(count);
    list.append(nb::make_tuple(text_of(each.op), text_of(each.transport), counts,
                               static_cast<double>(each.took.took_ns) / 1e9));
  }
  return list;
}

nb::list transports_of(const ServerTally& tally) {
  nb::list list;
  for (const Transport by :
       {Transport::shm, Transport::rdma, Transport::unix_socket, Transport::tcp}) {
    const auto& bytes = tally.bytes[static_cast<std::size_t>(by)];
    list.append(nb::make_tuple(text_of(by), bytes[0], bytes[1]));
  }
  return list;
}

nb::list evicted_of(const ServerTally& tally) {
  nb::list list;
  for (std::size_t policy = 0; policy < POLICIES; ++policy) {
    for (std::size_t why = 0; why < 2; ++why) {
      const EvictedCounts& each = tally.evicted[policy][why];
      list.append(nb::make_tuple(text_of(policy_name(static_cast<PolicyKind>(policy))),
                                 why == 0 ? "room" : "quota", each.pieces, each.bytes));
    }
  }
  return list;
}

nb::list departed_of(const ServerTally& tally) {
  nb::list list;
  for (std::size_t at = 1; at < CAUSES; ++at) {
    const DepartureCounts& each = tally.departed[at];
    list.append(nb::make_tuple(word_of(static_cast<Cause>(at)), each.pieces, each.bytes));
  }
  return list;
}

nb::list peers_of(const ServerTally& tally) {
  nb::list list;
  for (const serve::PeerCounts& each : tally.peers) {
    nb::dict one;
    one["name"] = text_of(each.name);
    one["is_up"] = each.is_up;
    one["requests"] = each.requests;
    one["failures"] = each.failures;
    one["sent_bytes"] = each.sent_bytes;
    one["answered"] = each.answered;
    one["took_s"] = static_cast<double>(each.took_us) / 1e6;
    list.append(one);
  }
  return list;
}

}  // namespace

nb::dict tally_dict(const ServerTally& tally) {
  nb::list bounds;
  for (const std::uint64_t each : Histogram::BOUNDS_US)
    bounds.append(static_cast<double>(each) / 1e6);
  nb::dict dict;
  dict["bounds_s"] = bounds;
  dict["requests"] = requests_of(tally);
  dict["namespaces"] = namespaces_of(tally);
  dict["transports"] = transports_of(tally);
  dict["evicted"] = evicted_of(tally);
  dict["departed"] = departed_of(tally);
  dict["peers"] = peers_of(tally);
  return dict;
}

nb::dict curves_dict(const ServerCurves& curves) {
  nb::list namespaces;
  for (const serve::NamespaceCurve& each : curves.namespaces) {
    nb::list shares;
    for (const double share : each.shares) shares.append(share);
    nb::dict one;
    one["name"] = nb::bytes(each.name.data(), each.name.size());
    one["quota_bytes"] = each.quota_bytes;
    one["looks"] = each.looks;
    one["found"] = each.found;
    one["followed"] = each.followed;
    one["piece_bytes"] = each.piece_bytes;
    one["shares"] = shares;
    namespaces.append(one);
  }
  nb::dict dict;
  dict["span_s"] = static_cast<double>(curves.span_ms) / 1000;
  dict["arena_bytes"] = curves.arena_bytes;
  dict["memory_bytes"] = curves.memory_bytes;
  dict["disk_bytes"] = curves.disk_bytes;
  dict["first_bytes"] = GRAIN_BYTES;
  dict["steps_per_octave"] = serve::NamespaceCurve::STEPS_PER_OCTAVE;
  dict["namespaces"] = namespaces;
  return dict;
}

nb::tuple slow_tuple(const serve::SlowRequests::Taken& taken) {
  nb::list requests;
  for (const serve::SlowRequest& each : taken.requests)
    requests.append(
        nb::make_tuple(text_of(each.op), text_of(each.transport), each.took_us, each.trace));
  return nb::make_tuple(requests, taken.untold);
}

}  // namespace gd2fs::bindings
